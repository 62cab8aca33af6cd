import Sanguine
import Synchronization

/// A response with one waiting caller, which may give up while it is still being computed.
///
/// Mutable state: `state`, guarded by its mutex. The caller is resumed without holding it.
final class Reply<Value: Sendable>: Sendable {
    private struct State {
        var result: Result<Value, TransportError>?
        var waiting: CheckedContinuation<Result<Value, TransportError>, Never>?
    }

    private let state = Mutex(State())

    /// Computes a response, in a task that is not cancelled with the caller's.
    ///
    /// - Throws: ``TransportError/cancelled`` as soon as the caller's task is cancelled.
    static func of(
        _ body: @escaping @Sendable () async -> Value
    ) async throws(TransportError) -> Value {
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
        _ continuation: CheckedContinuation<Result<Value, TransportError>, Never>
    ) {
        let result = state.withLock { state in
            if state.result == nil { state.waiting = continuation }
            return state.result
        }
        if let result { continuation.resume(returning: result) }
    }

    private func end(_ result: Result<Value, TransportError>) {
        let waiting = state.withLock { state in
            if state.result == nil { state.result = result }
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume(returning: result)
    }
}
