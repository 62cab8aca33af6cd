import SanguineModel
import Synchronization

/// The circuit breaker of one upstream: a ``BreakerState`` with a clock.
///
/// Mutable state: `state`, guarded by its mutex because callers need a result synchronously. It is
/// locked for one decision; `changed` is called outside the lock.
final class Breaker: Sendable {
    private let state: Mutex<BreakerState>
    private let now: @Sendable () -> Duration
    private let random: @Sendable () -> Double
    private let changed: @Sendable (BreakerPhase) -> Void

    init(
        rules: BreakerState.Rules = BreakerState.Rules(),
        now: @escaping @Sendable () -> Duration,
        random: @escaping @Sendable () -> Double,
        changed: @escaping @Sendable (BreakerPhase) -> Void
    ) {
        state = Mutex(BreakerState(rules: rules))
        self.now = now
        self.random = random
        self.changed = changed
    }

    /// The phase after the last call.
    var phase: BreakerPhase { state.withLock { $0.phase } }

    /// Returns the time until a call of the account can be sent; `nil` if it can be now.
    func wait(for account: Identifier? = nil) -> Duration? {
        state.withLock { [now] in $0.wait(at: now(), for: account) }
    }

    /// Admits a call of the account, whose end must be reported, or returns `nil`.
    func admit(for account: Identifier?) -> BreakerState.Pass? {
        update { [now] in $0.admit(at: now(), for: account) }
    }

    /// Records how a call ended.
    func end(_ pass: BreakerState.Pass, _ verdict: BreakerState.Verdict) {
        let jitter = random()
        update { [now] in $0.end(pass, verdict, at: now(), jitter: jitter) }
    }

    private func update<Value: Sendable>(_ body: (inout BreakerState) -> Value) -> Value {
        let (value, phase) = state.withLock { state -> (Value, BreakerPhase?) in
            let before = state.phase
            let value = body(&state)
            return (value, state.phase == before ? nil : state.phase)
        }
        if let phase { changed(phase) }
        return value
    }
}
