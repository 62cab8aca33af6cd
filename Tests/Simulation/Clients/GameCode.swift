import Synchronization

/// The app's own code, which runs amid what the client does: anything may happen there, as on
/// another thread.
///
/// Mutable state: `state`, by its mutex, never held over the event.
enum GameCode {
    private struct State {
        /// Whether a job runs: what the game looks at runs the app's code, too.
        var isJob = false
        var left = 0
        var event: (@Sendable () -> Void)?
    }

    private static let state = Mutex(State())

    /// Has something happen within a job, when so many more runs are over.
    static func interrupt(after runs: Int, _ event: @escaping @Sendable () -> Void) {
        state.withLock { ($0.left, $0.event) = (runs, event) }
    }

    /// Has nothing happen any more.
    static func spare() { state.withLock { $0.event = nil } }

    /// Runs a job.
    static func job(_ body: () -> Void) {
        state.withLock { $0.isJob = true }
        body()
        state.withLock { $0.isJob = false }
    }

    /// Is called where the app's code changes a row.
    static func run() {
        let event = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.isJob, state.event != nil else { return nil }
            state.left -= 1
            return state.left < 0 ? state.event.take() : nil
        }
        event?()
    }
}
