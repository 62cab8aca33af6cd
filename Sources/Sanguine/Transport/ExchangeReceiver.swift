import Foundation
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Collects the data of each task of a session, and ends each exchange exactly once.
///
/// Invariants:
///
/// 1. An exchange that has begun ends once: by its completion, its timeout, its cancellation or the
///    closing of the session, whichever comes first. The others have no effect.
/// 2. No body in memory is larger than the limit, and the rest is not received: the task is
///    cancelled. On Linux, the session ignores the disposition of a response. A success is then too
///    large; for any other status, the response has the body up to the limit, so that its status is
///    known.
///
/// Mutable state: `exchanges`, by task identifier, guarded by its mutex. Continuations are resumed
/// outside of the lock.
final class ExchangeReceiver: NSObject, URLSessionDataDelegate, Sendable {
    typealias Ending = Result<TransportResponse, TransportError>

    /// A body that is being sent.
    struct Upload: Sendable {
        /// The body's bytes.
        let size: Int64
        /// Called with the progress; `nil` if it is not needed.
        let progress: (@Sendable (UploadProgress) -> Void)?
    }

    private struct Exchange {
        let continuation: CheckedContinuation<Ending, Never>
        let upload: Upload
        /// The number of times that bytes were sent or received.
        var activityCount: UInt64 = 0
        var response: HTTPURLResponse?
        /// The maximum size of the body.
        var limitBytes: Int
        var body = Data()
    }

    private let exchanges = Mutex<[Int: Exchange]>([:])
    private let limitBytes: Int
    private let fileLimitBytes: Int

    /// The tasks whose bodies are read as they arrive.
    let streams = StreamReceiver()

    /// Creates a receiver.
    ///
    /// - Parameters:
    ///   - limitBytes: The maximum size of a body.
    ///   - fileLimitBytes: The maximum size of a body whose type is neither JSON nor text.
    init(limitBytes: Int, fileLimitBytes: Int) {
        (self.limitBytes, self.fileLimitBytes) = (limitBytes, fileLimitBytes)
    }

    func begin(
        _ task: URLSessionTask,
        _ upload: Upload,
        _ continuation: CheckedContinuation<Ending, Never>
    ) {
        exchanges.withLock { exchanges in
            exchanges[task.taskIdentifier] = Exchange(
                continuation: continuation,
                upload: upload,
                limitBytes: limitBytes
            )
        }
    }

    /// Waits until nothing has been sent or received for a while.
    ///
    /// - Parameters:
    ///   - task: The exchange.
    ///   - silence: The time without activity.
    ///   - longest: The time after which the exchange counts as silent even if it is not.
    ///   - clock: Measures the times.
    /// - Returns: `true` after that, or `false` if the wait was cancelled.
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
            let beats = exchanges.withLock { $0[task.taskIdentifier]?.activityCount } ?? seen
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
            streams.ended(dataTask, .notHTTP)
            end(dataTask, .failure(.notHTTP))
            return completionHandler(.cancel)
        }
        let head = TransportResponse(http, body: Data())
        if streams.opened(dataTask, head) { return completionHandler(.allow) }
        let limit = head.isFile ? fileLimitBytes : limitBytes
        guard http.expectedContentLength <= Int64(limit) || !head.isSuccess else {
            refuse(dataTask, limit)
            return completionHandler(.cancel)
        }
        exchanges.withLock { exchanges in
            exchanges[dataTask.taskIdentifier]?.response = http
            exchanges[dataTask.taskIdentifier]?.limitBytes = limit
        }
        completionHandler(.allow)
    }

    private func refuse(_ task: URLSessionTask, _ limit: Int) {
        end(task, .failure(.bodyTooLarge(limitBytes: limit)))
        task.cancel()
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        if streams.received(dataTask, data) { return }
        let passed = exchanges.withLock { exchanges -> (limit: Int, short: TransportResponse?)? in
            let number = dataTask.taskIdentifier
            // Not moved out of the dictionary: a second reference would copy the body with each
            // part.
            guard let size = exchanges[number]?.body.count,
                let limit = exchanges[number]?.limitBytes
            else { return nil }
            guard size + data.count <= limit else {
                guard let http = exchanges[number]?.response else { return (limit, nil) }
                var short = TransportResponse(http, body: Data())
                guard !short.isSuccess else { return (limit, nil) }
                short.body = (exchanges[number]?.body ?? Data()) + data.prefix(limit - size)
                return (limit, short)
            }
            exchanges[number]?.body.append(data)
            exchanges[number]?.activityCount += 1
            return nil
        }
        guard let passed else { return }
        guard let short = passed.short else { return refuse(dataTask, passed.limit) }
        end(dataTask, .success(short))
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
            end(task, .failure(.noResponse))
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
            exchanges[task.taskIdentifier]?.activityCount += 1
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
        // The transport follows redirects itself.
        completionHandler(nil)
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

extension TransportResponse {
    fileprivate var isSuccess: Bool { (200...299).contains(status) }

    /// Whether the type of the body is neither JSON nor text, such as a picture.
    fileprivate var isFile: Bool {
        guard let mediaType else { return false }
        return !mediaType.hasPrefix("text/") && !mediaType.hasSuffix("json")
            && mediaType != "application/xml"
    }
}

extension URL {
    /// Scheme, host and port, which identify the receiver of requests to this address.
    var origin: [String]? {
        guard let scheme = scheme?.lowercased(), let host = host()?.lowercased() else { return nil }
        return [scheme, host, String(port ?? (scheme == "https" ? 443 : 80))]
    }
}
