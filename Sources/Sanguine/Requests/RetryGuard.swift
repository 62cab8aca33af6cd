import Synchronization

/// The retries of all reads of a client, the balance's among them, in one place.
///
/// The shell around ``RetryBudget``: it knows the time.
final class RetryGuard: Sendable {
    // The only mutable state, guarded by the mutex. The clock is read before it is taken.
    private let budget: Mutex<RetryBudget>
    private let watch: Stopwatch

    init(limits: RetryBudget.Limits = .init(), clock: any Clock<Duration>) {
        budget = Mutex(RetryBudget(limits: limits))
        watch = Stopwatch(clock)
    }

    /// A read was tried for the first time.
    func requested(_ host: String) {
        let now = watch.elapsed
        budget.withLock { $0.requested(host, at: now) }
    }

    /// The host answered an error.
    func failed(_ host: String, with error: SanguineError) {
        let now = watch.elapsed
        budget.withLock { $0.failed(host, with: error, at: now) }
    }

    /// How long to wait before a retry, which is taken out of the host's budget.
    ///
    /// - Parameters:
    ///   - wanted: How long to wait at least.
    ///   - schedule: How long the host may keep the retry waiting, and what chance adds.
    ///   - host: Which host is asked.
    ///   - random: Where chance comes from.
    /// - Returns: The wait, or `nil` if there is to be no retry: the budget is used up, or the host
    ///   asked to be left alone for longer.
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

    /// For how long the host is to be left alone; `nil` if it is not.
    func pause(of host: String) -> RetryBudget.Pause? {
        let now = watch.elapsed
        return budget.withLock { $0.pause(of: host, at: now) }
    }
}
