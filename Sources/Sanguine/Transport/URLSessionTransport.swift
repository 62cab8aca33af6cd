import Foundation
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The transport that uses `URLSession`: one session, no cookies, no cache.
///
/// It uses the session's delegate and no newer interfaces, because only the delegate behaves the
/// same on Apple platforms and Linux. A body beyond the limit is cut off while it arrives. A body
/// in a file is read while it is sent. A redirect is followed within the origin and with the same
/// method, header fields and body. Any other redirect is returned as the response, so that no
/// header is sent to an unintended host, and no write turns into a read.
///
/// ```swift
/// let transport = URLSessionTransport()
/// defer { transport.close() }
/// let response = try await transport.send(TransportRequest(url: url))
/// ```
public final class URLSessionTransport: StreamingTransport, UploadingTransport {
    private let session: URLSession
    private let receiver: ExchangeReceiver
    private let clock: any Clock<Duration>

    // Whether the session is invalidated. Creating a task after that crashes, so tasks are created
    // under this lock.
    private let isClosed = Mutex(false)

    /// Creates a transport with its own session.
    ///
    /// - Parameters:
    ///   - bodyLimitBytes: The maximum size of a response body that is not a file. Default: 8 MiB.
    ///   - fileLimitBytes: The maximum size of a response body that is a file, of any type except
    ///     JSON and text. Default: 25 MiB, the size that may be uploaded.
    ///   - clock: Measures the timeout.
    public init(
        bodyLimitBytes: Int = ClientLimits.responseBytes,
        fileLimitBytes: Int = ClientLimits.fileBytes,
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configuration.httpMaximumConnectionsPerHost = ClientLimits.connectionsPerHost
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        receiver = ExchangeReceiver(limitBytes: bodyLimitBytes, fileLimitBytes: fileLimitBytes)
        session = URLSession(
            configuration: configuration,
            delegate: receiver,
            delegateQueue: queue
        )
        self.clock = clock
    }

    deinit { close() }

    /// Sends a request and returns the response, regardless of its status.
    public func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        try await follow(request, nil)
    }

    /// Sends a request with a body from memory or a file, and reports the progress.
    public func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        try await follow(request, progress)
    }

    /// Sends a request, and follows redirects.
    ///
    /// The session follows none: on Linux, it would drop the body, and on Apple's systems
    /// `Authorization`.
    private func follow(
        _ request: TransportRequest,
        _ progress: (@Sendable (UploadProgress) -> Void)?
    ) async throws(TransportError) -> TransportResponse {
        var request = request
        let limit = TimeLimit(request.timeout, on: clock)
        var response = try await exchange(request, progress)
        let isUpload = progress != nil || request.bodyFile != nil
        for _ in 0..<ClientLimits.redirects {
            guard let next = request.redirected(by: response) else { break }
            request = next
            if !isUpload { request.timeout = limit.left }
            response = try await exchange(request, progress)
        }
        return response
    }

    private func exchange(
        _ request: TransportRequest,
        _ progress: (@Sendable (UploadProgress) -> Void)?
    ) async throws(TransportError) -> TransportResponse {
        var urlRequest = URLRequest(request)
        guard let scheme = request.url.scheme?.lowercased(), ["http", "https"].contains(scheme)
        else { throw .invalid("the address does not begin with http or https. Correct it.") }
        let isUpload = progress != nil || request.bodyFile != nil
        if isUpload { urlRequest.timeoutInterval = ClientLimits.uploadTimeout.seconds }
        guard let size = request.bodySize else { throw .unreadableBodyFile }
        // The rules for the lock are kept: creating a task calls nothing back.
        let task = isClosed.withLock { [urlRequest] isClosed -> URLSessionTask? in
            guard !isClosed else { return nil }
            guard let file = request.bodyFile else { return session.dataTask(with: urlRequest) }
            return session.uploadTask(with: urlRequest, fromFile: file)
        }
        guard let task else { throw .cancelled }
        let upload = ExchangeReceiver.Upload(size: size, progress: progress)
        let timer = Task { [clock, receiver] in
            let longest = isUpload ? ClientLimits.uploadTimeout : .zero
            guard await receiver.isSilent(task, for: request.timeout, upTo: longest, on: clock)
            else { return }
            receiver.end(task, .failure(.timedOut))
            task.cancel()
        }
        defer { timer.cancel() }
        return try await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                receiver.begin(task, upload, continuation)
                // If the task was cancelled before this point, the handler below has already run.
                if Task.isCancelled {
                    receiver.end(task, .failure(.cancelled))
                    task.cancel()
                } else {
                    task.resume()
                }
            }
        } onCancel: { [receiver] in
            receiver.end(task, .failure(.cancelled))
            task.cancel()
        }
        .get()
    }

    /// Sends a request and returns as soon as the head of the response has arrived.
    public func stream(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportStream {
        var request = request
        let limit = TimeLimit(request.timeout, on: clock)
        var stream = try await open(request)
        for _ in 0..<ClientLimits.redirects {
            guard let next = request.redirected(by: stream.response) else { break }
            request = next
            request.timeout = limit.left
            stream = try await open(request)
        }
        return stream
    }

    private func open(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportStream {
        var urlRequest = URLRequest(request)
        // The reader decides how long a stream may be silent.
        urlRequest.timeoutInterval = Self.longestSilence
        guard request.url.origin != nil else {
            throw .invalid("the address has no host. Correct it.")
        }
        let task = isClosed.withLock { isClosed in
            isClosed ? nil : session.dataTask(with: urlRequest)
        }
        guard let task else { throw .cancelled }
        let streams = receiver.streams
        let timer = Task { [clock] in
            guard (try? await clock.sleep(for: request.timeout)) != nil else { return }
            streams.giveUp(task, .timedOut)
        }
        defer { timer.cancel() }
        return try await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                streams.begin(task, continuation)
                if Task.isCancelled {
                    streams.giveUp(task, .cancelled)
                } else {
                    task.resume()
                }
            }
        } onCancel: {
            streams.giveUp(task, .cancelled)
        }
        .get()
    }

    private static let longestSilence: TimeInterval = 3_600

    /// Ends every exchange with ``TransportError/cancelled`` and closes the connections.
    ///
    /// Later requests fail the same way. May be called more than once.
    public func close() {
        let isFirst = isClosed.withLock { isClosed in
            defer { isClosed = true }
            return !isClosed
        }
        guard isFirst else { return }
        receiver.endAll(.cancelled)
        session.invalidateAndCancel()
    }
}

extension Duration {
    fileprivate var seconds: TimeInterval { TimeInterval(components.seconds) }
}

extension URLRequest {
    fileprivate init(_ request: TransportRequest) {
        self.init(url: request.url)
        httpMethod = request.method
        httpBody = request.body
        httpShouldHandleCookies = false
        // The transport's own timer ends the exchange; this one must only fire later.
        timeoutInterval = request.timeout.seconds + 5
        for (name, value) in request.headers { setValue(value, forHTTPHeaderField: name) }
    }
}
