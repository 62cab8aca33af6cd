import Synchronization

/// The app's own code, which runs while the client works: any event may happen there, as on another
/// thread.
///
/// Mutable state: `state`, protected by a mutex that is not held during the event.
enum GameCode {
    private struct State {
        /// Whether a job is running, since the game's own checks run the app's code too.
        var isJob = false
        var left = 0
        var event: (@Sendable () -> Void)?
    }

    private static let state = Mutex(State())

    /// Runs an event within a job, after that many more runs.
    static func interrupt(after runs: Int, _ event: @escaping @Sendable () -> Void) {
        state.withLock { ($0.left, $0.event) = (runs, event) }
    }

    /// Cancels the event.
    static func spare() { state.withLock { $0.event = nil } }

    /// Runs a job.
    static func job(_ body: () -> Void) {
        state.withLock { $0.isJob = true }
        body()
        state.withLock { $0.isJob = false }
    }

    /// Called where the app's code changes a row.
    static func run() {
        let event = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.isJob, state.event != nil else { return nil }
            state.left -= 1
            return state.left < 0 ? state.event.take() : nil
        }
        event?()
    }
}
