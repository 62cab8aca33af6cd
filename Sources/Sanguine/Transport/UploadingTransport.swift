import Foundation

/// How much of a request's body has been sent.
public struct UploadProgress: Hashable, Sendable {
    /// The bytes that have been handed to the network.
    public var sentBytes: Int64
    /// All bytes of the body.
    public var totalBytes: Int64

    /// The part that has been sent, from 0 to 1.
    ///
    /// 1 does not mean that the backend has answered.
    public var fraction: Double {
        totalBytes > 0 ? min(1, max(0, Double(sentBytes) / Double(totalBytes))) : 1
    }

    /// Creates a progress.
    public init(sentBytes: Int64, totalBytes: Int64) {
        (self.sentBytes, self.totalBytes) = (sentBytes, totalBytes)
    }
}

/// A transport that sends a body from a file without reading all of it into memory, and tells how
/// much it has sent.
///
/// ``URLSessionTransport`` is one. A transport that is none is given files in memory, as long as
/// they are no larger than ``ClientLimits/requestBodyBytes``, and its progress is nothing or all.
///
/// A transport that wraps another one passes an upload on:
///
/// ```swift
/// struct CountingTransport: UploadingTransport {
///     let base = URLSessionTransport()
///
///     func send(
///         _ request: TransportRequest
///     ) async throws(TransportError) -> TransportResponse {
///         try await base.send(request)
///     }
///
///     func upload(
///         _ request: TransportRequest,
///         progress: @escaping @Sendable (UploadProgress) -> Void
///     ) async throws(TransportError) -> TransportResponse {
///         try await base.upload(request, progress: progress)
///     }
/// }
/// ```
public protocol UploadingTransport: HTTPTransport {
    /// Sends a request with a body, and returns the response, whatever its status.
    ///
    /// The body is ``TransportRequest/body`` or the content of ``TransportRequest/bodyFile``. The
    /// request's `timeout` is how long nothing may be sent or received; the whole exchange may take
    /// ``ClientLimits/uploadTimeout``.
    ///
    /// - Parameters:
    ///   - request: What to send.
    ///   - progress: Is called each time that a part was sent, on any thread, in order.
    /// - Returns: The response.
    /// - Throws: ``TransportError`` if there is no complete response.
    func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse
}

extension HTTPTransport {
    /// Sends a request by whatever this transport can do.
    ///
    /// - Parameters:
    ///   - request: What to send, with a body in memory or in a file, or none.
    ///   - progress: Is told how much of the body has been sent; `nil` if nobody wants to know.
    /// - Returns: The response.
    /// - Throws: ``TransportError``; `invalid` if the transport cannot send files, and this one is
    ///   too large for the memory, or cannot be read.
    package func carry(
        _ request: TransportRequest,
        progress: (@Sendable (UploadProgress) -> Void)?
    ) async throws(TransportError) -> TransportResponse {
        guard request.bodyFile != nil || progress != nil else { return try await send(request) }
        if let transport = self as? any UploadingTransport {
            return try await transport.upload(request, progress: progress ?? { _ in })
        }
        guard let whole = request.withBodyInMemory else {
            throw .invalid("this transport is no UploadingTransport, and cannot send the file")
        }
        let total = Int64(whole.body?.count ?? 0)
        progress?(UploadProgress(sentBytes: 0, totalBytes: total))
        let response = try await send(whole)
        progress?(UploadProgress(sentBytes: total, totalBytes: total))
        return response
    }
}

extension TransportRequest {
    /// The bytes of the body, in memory or in a file; `nil` if the file cannot be read.
    package var bodySize: Int64? {
        guard let bodyFile else { return Int64(body?.count ?? 0) }
        return bodyFile.readableFileSize
    }

    /// The same request with the content of its file in memory; `nil` if the file is larger than
    /// ``ClientLimits/requestBodyBytes``, or cannot be read.
    package var withBodyInMemory: TransportRequest? {
        guard let bodyFile else { return self }
        let limit = ClientLimits.requestBodyBytes
        guard let file = try? FileHandle(forReadingFrom: bodyFile) else { return nil }
        defer { try? file.close() }  // It was only read.
        guard let data = try? file.read(upToCount: limit + 1) ?? Data(), data.count <= limit else {
            return nil
        }
        var request = self
        (request.body, request.bodyFile) = (data, nil)
        return request
    }
}

extension URL {
    /// The bytes of a regular file that can be read; `nil` if it is none.
    var readableFileSize: Int64? {
        let manager = FileManager.default
        guard manager.isReadableFile(atPath: path),
            let attributes = try? manager.attributesOfItem(atPath: resolvingSymlinksInPath().path),
            attributes[.type] as? FileAttributeType == .typeRegular
        else { return nil }
        return (attributes[.size] as? NSNumber)?.int64Value
    }
}
