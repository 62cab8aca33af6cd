import Foundation

/// The progress of sending a request's body.
public struct UploadProgress: Hashable, Sendable {
    /// The number of bytes that were passed to the network.
    public var sentBytes: Int64
    /// The number of bytes of the whole body.
    public var totalBytes: Int64

    /// The fraction that has been sent, from 0 to 1.
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

/// A transport that sends a body from a file without reading all of it into memory, and reports its
/// progress.
///
/// ``URLSessionTransport`` conforms to it. Other transports receive files in memory if they are not
/// larger than ``ClientLimits/requestBodyBytes``, and their progress is either none or all.
///
/// A transport that wraps another one forwards uploads:
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
    /// Sends a request with a body, and returns the response, regardless of its status.
    ///
    /// The body is ``TransportRequest/body`` or the content of ``TransportRequest/bodyFile``. The
    /// request's `timeout` is the longest time without a byte sent or received; the whole exchange
    /// may take ``ClientLimits/uploadTimeout``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - progress: Called each time that a part was sent, on any thread, in order.
    /// - Returns: The response.
    /// - Throws: ``TransportError`` if there is no complete response.
    func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse
}

extension HTTPTransport {
    /// Sends a request with the means of this transport.
    ///
    /// - Parameters:
    ///   - request: The request, with a body in memory or in a file, or none.
    ///   - progress: Called with the progress of the body; `nil` if it is not needed.
    /// - Returns: The response.
    /// - Throws: ``TransportError``; `invalid` if the transport cannot send files, and this one is
    ///   too large for memory, or cannot be read.
    package func carry(
        _ request: TransportRequest,
        progress: (@Sendable (UploadProgress) -> Void)?
    ) async throws(TransportError) -> TransportResponse {
        guard request.bodyFile != nil || progress != nil else { return try await send(request) }
        if let transport = self as? any UploadingTransport {
            return try await transport.upload(request, progress: progress ?? { _ in })
        }
        guard let whole = request.withBodyInMemory else {
            throw request.bodySize == nil ? .unreadableBodyFile : .fileNotSupported
        }
        let total = Int64(whole.body?.count ?? 0)
        progress?(UploadProgress(sentBytes: 0, totalBytes: total))
        let response = try await send(whole)
        progress?(UploadProgress(sentBytes: total, totalBytes: total))
        return response
    }
}

extension TransportRequest {
    /// The number of bytes of the body, in memory or in a file; `nil` if the file cannot be read.
    package var bodySize: Int64? {
        guard let bodyFile else { return Int64(body?.count ?? 0) }
        return bodyFile.readableFileSize
    }

    /// The same request with the file's content in memory; `nil` if the file is larger than
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
    /// The size of a readable regular file; `nil` if it is not one.
    var readableFileSize: Int64? {
        let manager = FileManager.default
        guard manager.isReadableFile(atPath: path),
            let attributes = try? manager.attributesOfItem(atPath: resolvingSymlinksInPath().path),
            attributes[.type] as? FileAttributeType == .typeRegular
        else { return nil }
        return (attributes[.size] as? NSNumber)?.int64Value
    }
}
