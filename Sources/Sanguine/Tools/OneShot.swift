import Synchronization

/// An outcome that is set once, and that any number of callers wait for.
///
/// A cancelled caller stops waiting. It does not affect other callers or the work that produces the
/// outcome, which runs in its own task.
final class OneShot<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, SanguineError>

    private struct State {
        var outcome: Outcome?
        /// The callers that wait for the outcome.
        var waiting: [Int: CheckedContinuation<Outcome, Never>] = [:]
        var next = 0
    }

    // The only mutable state, guarded by the mutex. Continuations are resumed without holding it.
    private let state = Mutex(State())

    /// Sets the outcome.
    ///
    /// Later ones are ignored.
    func resolve(_ outcome: Outcome) {
        let waiting = state.withLock { state -> [Int: CheckedContinuation<Outcome, Never>] in
            guard state.outcome == nil else { return [:] }
            state.outcome = outcome
            defer { state.waiting = [:] }
            return state.waiting
        }
        for continuation in waiting.values { continuation.resume(returning: outcome) }
    }

    /// Returns the outcome as soon as it is set.
    ///
    /// - Throws: The outcome's error, or ``SanguineError/cancelled`` when the caller's task is
    ///   cancelled.
    nonisolated(nonsending) func value() async throws(SanguineError) -> Value {
        let ticket = state.withLock { state in
            state.next += 1
            return state.next
        }
        let outcome: Outcome = await withWaiter { continuation in
            let early = state.withLock { state in
                if state.outcome == nil { state.waiting[ticket] = continuation }
                return state.outcome
            }
            if let early { continuation.resume(returning: early) }
        } leave: { [self] in
            leave(ticket)
        }
        return try outcome.get()
    }

    /// The number of callers that wait.
    var waiting: Int { state.withLock { $0.waiting.count } }

    private func leave(_ ticket: Int) {
        let continuation = state.withLock { $0.waiting.removeValue(forKey: ticket) }
        continuation?.resume(returning: .failure(.cancelled))
    }
}
