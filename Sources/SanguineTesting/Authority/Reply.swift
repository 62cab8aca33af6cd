import Sanguine
import Synchronization

/// An answer that somebody waits for, or gives up while it is still being made.
///
/// Mutable state: `state`, by its mutex. The one who waits is resumed outside of it.
final class Reply: Sendable {
    private struct State {
        var result: Result<TransportResponse, TransportError>?
        var waiting: CheckedContinuation<Result<TransportResponse, TransportError>, Never>?
    }

    private let state = Mutex(State())

    /// Makes an answer, in a task that is not cancelled with the caller's.
    ///
    /// - Throws: ``TransportError/cancelled`` as soon as the caller's task is cancelled.
    static func of(
        _ body: @escaping @Sendable () async -> TransportResponse
    ) async throws(TransportError) -> TransportResponse {
        let reply = Reply()
        Task { reply.end(.success(await body())) }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { reply.wait($0) }
        } onCancel: {
            reply.end(.failure(.cancelled))
        }
        return try result.get()
    }

    private func wait(
        _ continuation: CheckedContinuation<Result<TransportResponse, TransportError>, Never>
    ) {
        let result = state.withLock { state in
            if state.result == nil { state.waiting = continuation }
            return state.result
        }
        if let result { continuation.resume(returning: result) }
    }

    private func end(_ result: Result<TransportResponse, TransportError>) {
        let waiting = state.withLock { state in
            if state.result == nil { state.result = result }
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume(returning: result)
    }
}
