import Foundation
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The transport over `URLSession`: one session, no cookies, no cache.
///
/// It uses the session's delegate and nothing newer, because that is what works alike on Apple
/// platforms and on Linux. A body larger than the limit is cut off while it arrives. A redirect to
/// another origin is not followed, so that no header goes to a host that it is not meant for; the
/// redirect itself is then the response.
///
/// ```swift
/// let transport = URLSessionTransport()
/// defer { transport.close() }
/// let response = try await transport.send(TransportRequest(url: url))
/// ```
public final class URLSessionTransport: StreamingTransport {
    private let session: URLSession
    private let receiver: ExchangeReceiver
    private let clock: any Clock<Duration>

    // Whether the session is invalidated: to make a task of it then is a crash, so tasks are made
    // under this lock.
    private let isClosed = Mutex(false)

    /// Creates a transport with a session of its own.
    ///
    /// - Parameters:
    ///   - bodyLimitBytes: The largest body of a response. Default: 8 MiB.
    ///   - clock: What measures the timeout.
    public init(
        bodyLimitBytes: Int = ClientLimits.responseBytes,
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
        receiver = ExchangeReceiver(bodyLimitBytes: bodyLimitBytes)
        session = URLSession(
            configuration: configuration,
            delegate: receiver,
            delegateQueue: queue
        )
        self.clock = clock
    }

    deinit { close() }

    /// Sends a request and returns the response, whatever its status.
    public func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        let urlRequest = URLRequest(request)
        guard let scheme = request.url.scheme?.lowercased(), ["http", "https"].contains(scheme)
        else { throw .invalid("the address has no http or https in front") }
        // Rules of the lock above: no callback comes out of making a task.
        let task = isClosed.withLock { isClosed in
            isClosed ? nil : session.dataTask(with: urlRequest)
        }
        guard let task else { throw .cancelled }
        let timer = Task { [clock, receiver] in
            guard (try? await clock.sleep(for: request.timeout)) != nil else { return }
            receiver.end(task, .failure(.timedOut))
            task.cancel()
        }
        defer { timer.cancel() }
        return try await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                receiver.begin(task, continuation)
                // The handler below has run already if the task was cancelled before this point.
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

    /// Sends a request and returns as soon as the head of the response is there.
    public func stream(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportStream {
        var urlRequest = URLRequest(request)
        // How long a stream may be silent is its reader's to say.
        urlRequest.timeoutInterval = Self.longestSilence
        guard request.url.origin != nil else { throw .invalid("the address has no host") }
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

    /// Ends every exchange with ``TransportError/cancelled`` and gives the connections back.
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

extension URLRequest {
    fileprivate init(_ request: TransportRequest) {
        self.init(url: request.url)
        httpMethod = request.method
        httpBody = request.body
        httpShouldHandleCookies = false
        // The transport's own timer ends the exchange; this one only has to come after it.
        timeoutInterval = Double(request.timeout.components.seconds) + 5
        for (name, value) in request.headers { setValue(value, forHTTPHeaderField: name) }
    }
}
