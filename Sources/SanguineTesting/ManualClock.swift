/// A clock for waits that stands still until a test moves it.
///
/// ``advance(by:)`` wakes sleeping tasks, the earliest deadline first. A test waits until the code
/// under test sleeps, and then moves the clock, without guessing durations.
///
/// ```swift
/// let clock = ManualClock()
/// configuration.delay = clock
/// async let profile = client.value(of: .profile("42"))
/// try await clock.waitForSleepers(2)  // The read's deadline, and the wait before its retry.
/// clock.advance(by: .seconds(2))
/// ```
public final class ManualClock: Clock {
    /// An instant of the clock, counted from its creation.
    public struct Instant: InstantProtocol {
        /// The time since the clock's creation.
        public var offset: Duration

        /// Creates the instant at the given time after the clock's creation.
        public init(offset: Duration) { self.offset = offset }

        /// Returns the moment that is later by the duration.
        public func advanced(by duration: Duration) -> Instant {
            Instant(offset: offset + duration)
        }

        /// Returns the duration from this instant to the other.
        public func duration(to other: Instant) -> Duration { other.offset - offset }

        /// Orders moments from earlier to later.
        public static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.offset < rhs.offset }
    }

    private struct Sleeper {
        let deadline: Instant
        let number: UInt64
        let continuation: CheckedContinuation<Bool, Never>
    }

    // Guarded by the lock of `state`. Continuations are resumed without holding it.
    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [Sleeper] = []
        var lastNumber: UInt64 = 0
    }

    private let state = WatchedState(State())

    /// Creates a clock at zero.
    public init() {}

    /// The current instant of the clock.
    public var now: Instant { state.withLock { $0.now } }

    /// Zero, because the clock is exact.
    public var minimumResolution: Duration { .zero }

    /// The number of sleeping tasks.
    public var sleeperCount: Int { state.withLock { $0.sleepers.count } }

    /// The time until the first sleeper wakes, or `nil` if no task sleeps.
    public var timeToNextWake: Duration? {
        state.withLock { state in
            state.sleepers.map(\.deadline).min().map { state.now.duration(to: $0) }
        }
    }

    /// Sleeps until the clock reaches the deadline.
    ///
    /// - Throws: `CancellationError` if the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let hasElapsed = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                fallAsleep(Sleeper(deadline: deadline, number: number, continuation: continuation))
                if Task.isCancelled { rouse(number) }
            }
        } onCancel: {
            rouse(number)
        }
        if !hasElapsed { throw CancellationError() }
    }

    /// Moves the clock and wakes the sleepers that are due, the earliest deadline first.
    public func advance(by duration: Duration) {
        let woken = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let now = state.now
            defer { state.sleepers.removeAll { $0.deadline <= now } }
            return state.sleepers.filter { $0.deadline <= now }
                .sorted { ($0.deadline, $0.number) < ($1.deadline, $1.number) }
        }
        for sleeper in woken { sleeper.continuation.resume(returning: true) }
    }

    /// Moves the clock in steps until the body returns.
    ///
    /// For code that sleeps an unknown number of times.
    ///
    /// ```swift
    /// try await delay.advancing { try await client.synchronize() }
    /// ```
    ///
    /// - Parameters:
    ///   - step: The length of a step; there are about a thousand in a second. Default: 100 ms.
    ///   - bound: The longest real time to wait. Default: ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    ///   - body: The code to run, in a separate task.
    /// - Returns: The body's result.
    /// - Throws: The body's error; ``WaitTimeout`` after the bound; `CancellationError` when the
    ///   task is cancelled.
    public func advancing<Value: Sendable>(
        by step: Duration = .milliseconds(100),
        within bound: Duration = TestingLimits.longestWait,
        fileID: String = #fileID,
        line: Int = #line,
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let motion = Task {
            // A task that woke up needs time to run before the next step.
            let moment = Duration.milliseconds(1)
            let clock = ContinuousClock()
            while (try? await clock.sleep(for: moment)) != nil { advance(by: step) }
        }
        defer { motion.cancel() }
        return try await Task { try await body() }.finished(
            "the body, while the clock advances in steps of \(step)",
            within: bound,
            fileID: fileID,
            line: line
        )
    }

    /// Returns when at least the given number of tasks sleep.
    ///
    /// Pass `duration` if other tasks may sleep as well, such as a timer that always runs:
    ///
    /// ```swift
    /// try await clock.waitForSleepers(1, dueIn: .seconds(5))  // The deadline.
    /// ```
    ///
    /// - Parameters:
    ///   - count: The number of tasks.
    ///   - duration: Counts only tasks that wake exactly after this time. Default: all sleeping
    ///     tasks.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    /// - Throws: ``WaitTimeout`` after ``TestingLimits/wait``; `CancellationError` when the task is
    ///   cancelled.
    public func waitForSleepers(
        _ count: Int,
        dueIn duration: Duration? = nil,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        try await state.wait(
            for: "\(count) tasks to sleep" + (duration.map { " that are due in \($0)" } ?? ""),
            found: { state in
                let times = state.sleepers.map { "\(state.now.duration(to: $0.deadline))" }
                return "sleeping tasks are due in: \(times.prefix(10).joined(separator: ", "))"
            },
            fileID: fileID,
            line: line
        ) { state in
            guard let duration else { return state.sleepers.count >= count }
            let moment = state.now.advanced(by: duration)
            return state.sleepers.count { $0.deadline == moment } >= count
        }
    }

    /// Returns when no task sleeps.
    ///
    /// - Throws: ``WaitTimeout`` after ``TestingLimits/wait``; `CancellationError` when the task is
    ///   cancelled.
    public func waitForNoSleepers(fileID: String = #fileID, line: Int = #line) async throws {
        try await state.wait(
            for: "no task to sleep",
            found: { "\($0.sleepers.count) tasks sleep" },
            fileID: fileID,
            line: line
        ) {
            $0.sleepers.isEmpty
        }
    }

    private func fallAsleep(_ sleeper: Sleeper) {
        let isOver = state.withLock { state in
            guard sleeper.deadline > state.now else { return true }
            state.sleepers.append(sleeper)
            return false
        }
        if isOver { sleeper.continuation.resume(returning: true) }
    }

    private func rouse(_ number: UInt64) {
        let sleeper = state.withLock { state -> Sleeper? in
            guard let index = state.sleepers.firstIndex(where: { $0.number == number })
            else { return nil }
            return state.sleepers.remove(at: index)
        }
        sleeper?.continuation.resume(returning: false)
    }
}
