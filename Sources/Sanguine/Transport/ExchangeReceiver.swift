import Foundation
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Collects what arrives for each task of a session, and ends each exchange exactly once.
///
/// Invariants:
///
/// 1. An exchange that has begun ends once: by its completion, its timeout, its cancellation or the
///    closing of the session, whichever comes first. The others find nothing to end.
/// 2. No body in memory is larger than the limit.
///
/// Mutable state: `exchanges`, by task identifier, guarded by its mutex. Continuations are resumed
/// outside of the lock.
final class ExchangeReceiver: NSObject, URLSessionDataDelegate, Sendable {
    typealias Ending = Result<TransportResponse, TransportError>

    /// A body on its way out.
    struct Upload: Sendable {
        /// Its bytes.
        let size: Int64
        /// Is told how much has been sent; `nil` if nobody wants to know.
        let progress: (@Sendable (UploadProgress) -> Void)?
    }

    private struct Exchange {
        let continuation: CheckedContinuation<Ending, Never>
        let upload: Upload
        /// How often something was sent or received.
        var beats: UInt64 = 0
        var response: HTTPURLResponse?
        var body = Data()
    }

    private let exchanges = Mutex<[Int: Exchange]>([:])
    private let bodyLimitBytes: Int

    /// The tasks whose bodies are read while they arrive.
    let streams = StreamReceiver()

    init(bodyLimitBytes: Int) { self.bodyLimitBytes = bodyLimitBytes }

    func begin(
        _ task: URLSessionTask,
        _ upload: Upload,
        _ continuation: CheckedContinuation<Ending, Never>
    ) {
        exchanges.withLock { exchanges in
            let exchange = Exchange(continuation: continuation, upload: upload)
            exchanges[task.taskIdentifier] = exchange
        }
    }

    /// Waits until nothing has been sent or received for a while.
    ///
    /// - Parameters:
    ///   - task: The exchange.
    ///   - silence: How long.
    ///   - longest: After how long the exchange counts as silent though it is not.
    ///   - clock: What measures that.
    /// - Returns: Whether it is silent; `false` if the wait was cancelled.
    func isSilent(
        _ task: URLSessionTask,
        for silence: Duration,
        upTo longest: Duration,
        on clock: any Clock<Duration>
    ) async -> Bool {
        var (seen, passed) = (UInt64(0), Duration.zero)
        while true {
            guard (try? await clock.sleep(for: silence)) != nil else { return false }
            passed += silence
            let beats = exchanges.withLock { $0[task.taskIdentifier]?.beats } ?? seen
            if beats == seen || passed >= longest { return true }
            seen = beats
        }
    }

    func end(_ task: URLSessionTask, _ ending: Ending) {
        let exchange = exchanges.withLock { $0.removeValue(forKey: task.taskIdentifier) }
        exchange?.continuation.resume(returning: ending)
    }

    func endAll(_ error: TransportError) {
        let ended = exchanges.withLock { exchanges in
            defer { exchanges = [:] }
            return exchanges.values.map(\.continuation)
        }
        for continuation in ended { continuation.resume(returning: .failure(error)) }
        streams.endAll(error)
    }

    func urlSession(
        _ session: URLSession,
        dataTask: URLSessionDataTask,
        didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        guard let http = response as? HTTPURLResponse else {
            streams.ended(dataTask, .invalid("the answer is no HTTP"))
            end(dataTask, .failure(.invalid("the answer is no HTTP")))
            return completionHandler(.cancel)
        }
        if streams.opened(dataTask, TransportResponse(http, body: Data())) {
            return completionHandler(.allow)
        }
        guard http.expectedContentLength <= Int64(bodyLimitBytes) else {
            end(dataTask, .failure(.bodyTooLarge(limitBytes: bodyLimitBytes)))
            return completionHandler(.cancel)
        }
        exchanges.withLock { $0[dataTask.taskIdentifier]?.response = http }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        if streams.received(dataTask, data) { return }
        let isTooLarge = exchanges.withLock { exchanges in
            let size = (exchanges[dataTask.taskIdentifier]?.body.count ?? 0) + data.count
            guard size <= bodyLimitBytes else { return true }
            exchanges[dataTask.taskIdentifier]?.body.append(data)
            exchanges[dataTask.taskIdentifier]?.beats += 1
            return false
        }
        guard isTooLarge else { return }
        end(dataTask, .failure(.bodyTooLarge(limitBytes: bodyLimitBytes)))
        dataTask.cancel()
    }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        didCompleteWithError error: (any Error)?
    ) {
        if streams.ended(task, error.map { TransportError(ofTask: $0) }) { return }
        let collected = exchanges.withLock { $0[task.taskIdentifier] }
        if let error {
            end(task, .failure(TransportError(ofTask: error)))
        } else if let http = collected?.response ?? task.response as? HTTPURLResponse {
            end(task, .success(TransportResponse(http, body: collected?.body ?? Data())))
        } else {
            end(task, .failure(.invalid("there was no answer")))
        }
    }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        didSendBodyData bytesSent: Int64,
        totalBytesSent: Int64,
        totalBytesExpectedToSend: Int64
    ) {
        let upload = exchanges.withLock { exchanges in
            exchanges[task.taskIdentifier]?.beats += 1
            return exchanges[task.taskIdentifier]?.upload
        }
        guard let upload, let progress = upload.progress else { return }
        let total = totalBytesExpectedToSend > 0 ? totalBytesExpectedToSend : upload.size
        progress(UploadProgress(sentBytes: totalBytesSent, totalBytes: total))
    }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest,
        completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        let isSameOrigin = request.url?.origin == task.currentRequest?.url?.origin
        // The transport sends a body again by itself.
        let upload = exchanges.withLock { $0[task.taskIdentifier]?.upload }
        let wantsBody = [307, 308].contains(response.statusCode) && (upload?.size ?? 0) > 0
        completionHandler(isSameOrigin && !wantsBody ? request : nil)
    }
}

extension TransportResponse {
    fileprivate init(_ response: HTTPURLResponse, body: Data) {
        var headers: [String: String] = [:]
        for (name, value) in response.allHeaderFields {
            headers["\(name)"] = "\(value)"
        }
        self.init(status: response.statusCode, headers: headers, body: body)
    }
}

extension URL {
    /// Scheme, host and port: who gets what is sent to this address.
    var origin: [String]? {
        guard let scheme = scheme?.lowercased(), let host = host()?.lowercased() else { return nil }
        return [scheme, host, String(port ?? (scheme == "https" ? 443 : 80))]
    }
}
