import Synchronization

/// An outcome that comes once and that any number of callers wait for.
///
/// A caller who is cancelled stops waiting and disturbs nobody, least of all the work that brings
/// the outcome: that runs in a task of its own.
final class OneShot<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, SanguineError>

    private enum Phase {
        case open([Int: CheckedContinuation<Outcome, Never>], next: Int)
        case resolved(Outcome)

        var outcome: Outcome? { if case .resolved(let outcome) = self { outcome } else { nil } }
    }

    // The only mutable state, guarded by the mutex. Continuations are resumed outside of it.
    private let phase = Mutex(Phase.open([:], next: 0))

    /// Brings the outcome.
    ///
    /// Later ones are ignored.
    func resolve(_ outcome: Outcome) {
        let waiting = phase.withLock { phase -> [CheckedContinuation<Outcome, Never>] in
            guard case .open(let waiting, _) = phase else { return [] }
            phase = .resolved(outcome)
            return Array(waiting.values)
        }
        for continuation in waiting { continuation.resume(returning: outcome) }
    }

    /// The outcome, as soon as it is there.
    ///
    /// - Throws: The outcome's error, or ``SanguineError/cancelled`` as soon as the caller's task
    ///   is.
    nonisolated(nonsending) func value() async throws(SanguineError) -> Value {
        let ticket = phase.withLock { phase -> Int in
            guard case .open(let waiting, let next) = phase else { return 0 }
            phase = .open(waiting, next: next + 1)
            return next
        }
        let outcome: Outcome = await withWaiter { continuation in
            let early = phase.withLock { phase -> Outcome? in
                guard case .open(var waiting, let next) = phase else { return phase.outcome }
                waiting[ticket] = continuation
                phase = .open(waiting, next: next)
                return nil
            }
            if let early { continuation.resume(returning: early) }
        } leave: { [self] in
            leave(ticket)
        }
        return try outcome.get()
    }

    /// How many callers wait.
    var waiting: Int {
        phase.withLock { phase in
            guard case .open(let waiting, _) = phase else { return 0 }
            return waiting.count
        }
    }

    private func leave(_ ticket: Int) {
        let continuation = phase.withLock { phase -> CheckedContinuation<Outcome, Never>? in
            guard case .open(var waiting, let next) = phase else { return nil }
            let continuation = waiting.removeValue(forKey: ticket)
            phase = .open(waiting, next: next)
            return continuation
        }
        continuation?.resume(returning: .failure(.cancelled))
    }
}
