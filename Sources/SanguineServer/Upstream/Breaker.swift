import SanguineModel
import Synchronization

/// The circuit breaker of one upstream: a ``BreakerState`` with a clock.
///
/// Mutable state: `state`, by its mutex, because a caller needs the answer now. It is held for one
/// decision; who is told of a change is told outside of it.
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

    /// The phase as of the last call.
    var phase: BreakerPhase { state.withLock { $0.phase } }

    /// How long it is until a call of the account may leave; `nil` if one can now.
    func wait(for account: Identifier? = nil) -> Duration? {
        state.withLock { [now] in $0.wait(at: now(), for: account) }
    }

    /// Lets a call of the account leave, which must say how it ended; or returns `nil`.
    func admit(for account: Identifier?) -> BreakerState.Pass? {
        change { [now] in $0.admit(at: now(), for: account) }
    }

    /// Hears how a call has ended.
    func end(_ pass: BreakerState.Pass, _ verdict: BreakerState.Verdict) {
        let jitter = random()
        change { [now] in $0.end(pass, verdict, at: now(), jitter: jitter) }
    }

    private func change<Value: Sendable>(_ body: (inout BreakerState) -> Value) -> Value {
        let (value, phase) = state.withLock { state -> (Value, BreakerPhase?) in
            let before = state.phase
            let value = body(&state)
            return (value, state.phase == before ? nil : state.phase)
        }
        if let phase { changed(phase) }
        return value
    }
}
