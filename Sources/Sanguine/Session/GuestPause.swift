import SanguineModel

/// The wait that the server has named when it refused to create a guest.
///
/// Until it ends, no request for a guest is sent, and callers get the same problem with the time
/// that is left. The app works with its stored data in the meantime, and its operations stay in the
/// outbox.
struct GuestPause: Hashable, Sendable {
    private let problem: Problem
    private let startedAt: Timestamp
    private let wait: Duration

    /// Creates a pause; `nil` if the error names no wait.
    init?(_ error: SanguineError, at now: Timestamp) {
        guard case .problem(let problem) = error, let wait = error.retryAfter, wait > .zero,
            [429, 503].contains(problem.status)
        else { return nil }
        self.problem = problem
        self.wait = min(wait, SessionLimits.guestPause)
        startedAt = now
    }

    /// Returns the problem with the time that is left; `nil` after the pause, or if the clock was
    /// set back.
    func problem(at now: Timestamp) -> Problem? {
        guard now >= startedAt, now < startedAt + wait else { return nil }
        var problem = problem
        problem.retryAfter = max(1, (startedAt + wait - now).secondsRoundedUp)
        return problem
    }
}
