import SanguineAuthority
import Synchronization

/// Calls a closure once an upstream has been silent for too long.
///
/// Mutable state: `state`, guarded by its mutex: deadlines and the end of the attempt use it.
final class SilenceTimeout: Sendable {
    private struct State {
        var ticket: Deadlines.Ticket?
        var hasEnded = false
    }

    private let deadlines: Deadlines
    private let progress: AttemptProgress
    private let longest: Duration
    private let onSilence: @Sendable () -> Void
    private let state = Mutex(State())

    init(
        _ deadlines: Deadlines,
        _ progress: AttemptProgress,
        longest: Duration,
        onSilence: @escaping @Sendable () -> Void
    ) {
        self.deadlines = deadlines
        self.progress = progress
        self.longest = longest
        self.onSilence = onSilence
    }

    /// Checks the silence now, and again when it could exceed the limit.
    func start() {
        let rest = progress.patience(longest)
        guard rest > .zero else { return onSilence() }
        state.withLock { state in
            guard !state.hasEnded else { return }
            state.ticket = deadlines.add(at: deadlines.moment(after: rest)) { self.start() }
        }
    }

    /// Stops the watch, so that the closure is no longer called.
    func end() {
        let ticket = state.withLock { state in
            state.hasEnded = true
            return state.ticket.take()
        }
        if let ticket { deadlines.cancel(ticket) }
    }
}
