import Foundation
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Passes the data of a session's streaming tasks to their readers.
///
/// Invariants:
///
/// 1. A caller that waits for the head of a response is resumed once.
/// 2. A task is known from its beginning until the wait for its head has failed, or its body has
///    ended.
///
/// Mutable state: `streams`, by task identifier, guarded by its mutex. Continuations are resumed,
/// and streams called, outside of the lock.
final class StreamReceiver: Sendable {
    typealias Beginning = Result<TransportStream, TransportError>

    private enum Stream {
        case waiting(CheckedContinuation<Beginning, Never>)
        // Weak: releasing the stream ends the exchange.
        case open(WeakStream)
    }

    private struct WeakStream {
        weak var stream: TransportStream?
    }

    private let streams = Mutex<[Int: Stream]>([:])

    func begin(_ task: URLSessionTask, _ continuation: CheckedContinuation<Beginning, Never>) {
        streams.withLock { $0[task.taskIdentifier] = .waiting(continuation) }
    }

    /// Handles the head of a response; returns whether the task is a stream.
    func opened(_ task: URLSessionTask, _ response: TransportResponse) -> Bool {
        let stream = TransportStream(response: response) { task.cancel() }
        let (isStream, waiting) = streams.withLock {
            streams -> (Bool, CheckedContinuation<Beginning, Never>?) in
            switch streams[task.taskIdentifier] {
            case .waiting(let continuation):
                streams[task.taskIdentifier] = .open(WeakStream(stream: stream))
                return (true, continuation)
            case .open: return (true, nil)
            case nil: return (false, nil)
            }
        }
        if let waiting { waiting.resume(returning: .success(stream)) } else { stream.finish() }
        return isStream
    }

    /// Handles received bytes; returns whether the task is a stream.
    func received(_ task: URLSessionTask, _ bytes: Data) -> Bool {
        let (isStream, stream) = streams.withLock { streams -> (Bool, TransportStream?) in
            guard case .open(let weak) = streams[task.taskIdentifier] else { return (false, nil) }
            return (true, weak.stream)
        }
        stream?.receive(bytes)
        return isStream
    }

    /// Handles the end of an exchange; returns whether the task was a stream.
    @discardableResult
    func ended(_ task: URLSessionTask, _ error: TransportError?) -> Bool {
        guard let stream = streams.withLock({ $0.removeValue(forKey: task.taskIdentifier) }) else {
            return false
        }
        Self.end(stream, error)
        return true
    }

    /// Ends the wait for the head of a response, if it is still running.
    func giveUp(_ task: URLSessionTask, _ error: TransportError) {
        let waiting = streams.withLock { streams -> CheckedContinuation<Beginning, Never>? in
            guard case .waiting(let continuation) = streams[task.taskIdentifier] else { return nil }
            streams[task.taskIdentifier] = nil
            return continuation
        }
        guard let waiting else { return }
        waiting.resume(returning: .failure(error))
        task.cancel()
    }

    func endAll(_ error: TransportError) {
        let ended = streams.withLock { streams in
            defer { streams = [:] }
            return Array(streams.values)
        }
        for stream in ended { Self.end(stream, error) }
    }

    private static func end(_ stream: Stream, _ error: TransportError?) {
        switch stream {
        case .waiting(let continuation):
            continuation.resume(returning: .failure(error ?? .noResponse))
        case .open(let weak): weak.stream?.finish(error)
        }
    }
}
