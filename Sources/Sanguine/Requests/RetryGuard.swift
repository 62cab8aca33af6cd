import Synchronization

/// Limits the retries of all reads of a client, including the balance.
///
/// The shell around ``RetryBudget``: it adds the clock.
final class RetryGuard: Sendable {
    // The only mutable state, guarded by the mutex. The clock is read before the mutex is locked.
    private let budget: Mutex<RetryBudget>
    private let watch: Stopwatch

    init(limits: RetryBudget.Limits = .init(), clock: any Clock<Duration>) {
        budget = Mutex(RetryBudget(limits: limits))
        watch = Stopwatch(clock)
    }

    /// Counts the first attempt of a read.
    func requested(_ host: String) {
        let now = watch.elapsed
        budget.withLock { $0.requested(host, at: now) }
    }

    /// Records a host's error.
    func failed(_ host: String, with error: SanguineError) {
        let now = watch.elapsed
        budget.withLock { $0.failed(host, with: error, at: now) }
    }

    /// Takes a retry from the host's budget, and returns the wait before it.
    ///
    /// - Parameters:
    ///   - wanted: The shortest wait.
    ///   - schedule: The longest wait that the host may impose, and the jitter.
    ///   - host: The host.
    ///   - random: The source of the jitter.
    /// - Returns: The wait, or `nil` if there must be no retry: the budget is used up, or the host
    ///   has asked for a longer pause.
    func wait(
        _ wanted: Duration,
        by schedule: RetrySchedule,
        for host: String,
        using random: inout some RandomNumberGenerator
    ) -> Duration? {
        let now = watch.elapsed
        let pause = budget.withLock { budget -> Duration? in
            let pause = budget.pause(of: host, at: now)?.remaining ?? .zero
            guard pause <= schedule.cap, budget.withdraw(host, at: now) else { return nil }
            return pause
        }
        guard let pause else { return nil }
        return pause > wanted ? schedule.later(pause, using: &random) : wanted
    }

    /// Returns the pause of the host; `nil` if it is not paused.
    func pause(of host: String) -> RetryBudget.Pause? {
        let now = watch.elapsed
        return budget.withLock { $0.pause(of: host, at: now) }
    }
}
