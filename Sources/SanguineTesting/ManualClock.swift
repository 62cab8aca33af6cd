/// A clock for waits that stands still until a test moves it.
///
/// Whoever sleeps is woken by ``advance(by:)``, the earliest deadline first. A test waits until the
/// code under test sleeps, and then moves the clock: there is nothing to time and nothing to guess.
///
/// ```swift
/// let clock = ManualClock()
/// configuration.delay = clock
/// async let profile = client.value(of: .profile("42"))
/// try await clock.waitForSleepers(2)  // The read's deadline, and the wait before its retry.
/// clock.advance(by: .seconds(2))
/// ```
public final class ManualClock: Clock {
    /// A moment of the clock, counted from its creation.
    public struct Instant: InstantProtocol {
        /// How long after the clock's creation.
        public var offset: Duration

        /// Creates the moment that lies so long after the clock's creation.
        public init(offset: Duration) { self.offset = offset }

        /// The moment that lies the duration later.
        public func advanced(by duration: Duration) -> Instant {
            Instant(offset: offset + duration)
        }

        /// The time from this moment to the other.
        public func duration(to other: Instant) -> Duration { other.offset - offset }

        /// Orders moments from the earlier to the later.
        public static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.offset < rhs.offset }
    }

    private struct Sleeper {
        let deadline: Instant
        let number: UInt64
        let continuation: CheckedContinuation<Bool, Never>
    }

    // Guarded by the lock of `state`. Continuations are resumed outside of it.
    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [Sleeper] = []
        var lastNumber: UInt64 = 0
    }

    private let state = WatchedState(State())

    /// Creates a clock that stands at zero.
    public init() {}

    /// The moment at which the clock stands.
    public var now: Instant { state.withLock { $0.now } }

    /// None: the clock is exact.
    public var minimumResolution: Duration { .zero }

    /// How many tasks sleep.
    public var sleeperCount: Int { state.withLock { $0.sleepers.count } }

    /// How long until the first sleeper wakes; `nil` if nobody sleeps.
    public var timeToNextWake: Duration? {
        state.withLock { state in
            state.sleepers.map(\.deadline).min().map { state.now.duration(to: $0) }
        }
    }

    /// Sleeps until the clock has been moved to the deadline.
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

    /// Moves the clock and wakes whoever has slept long enough, the earliest deadline first.
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

    /// Moves the clock on and on, step by step, until the body is through.
    ///
    /// For code that sleeps an unknown number of times.
    ///
    /// ```swift
    /// try await delay.advancing { try await client.synchronize() }
    /// ```
    ///
    /// - Parameters:
    ///   - step: How far it moves at once, about a thousand times in a second. Default: 100 ms.
    ///   - bound: For how much real time at most. Default: ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    ///   - body: What runs meanwhile, in a task of its own.
    /// - Returns: What the body returns.
    /// - Throws: what the body throws; ``VainWait`` when the time is up; `CancellationError` when
    ///   the task is cancelled.
    public func advancing<Value: Sendable>(
        by step: Duration = .milliseconds(100),
        within bound: Duration = TestingLimits.longestWait,
        fileID: String = #fileID,
        line: Int = #line,
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let motion = Task {
            // Whoever woke has something to do before the next step.
            let moment = Duration.milliseconds(1)
            let clock = ContinuousClock()
            while (try? await clock.sleep(for: moment)) != nil { advance(by: step) }
        }
        defer { motion.cancel() }
        return try await Task { try await body() }.finished(
            "what runs while the clock is advanced by \(step) at a time",
            within: bound,
            fileID: fileID,
            line: line
        )
    }

    /// Returns when at least so many tasks sleep.
    ///
    /// Give `duration` where other tasks may sleep as well, such as a timer that runs all the time:
    ///
    /// ```swift
    /// try await clock.waitForSleepers(1, dueIn: .seconds(5))  // The deadline.
    /// ```
    ///
    /// - Parameters:
    ///   - count: How many.
    ///   - duration: Counts only tasks that wake when the clock is moved by exactly so much.
    ///     Default: all that sleep.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    /// - Throws: ``VainWait`` after ``TestingLimits/wait``; `CancellationError` when the task is
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
                return "asleep for: \(times.prefix(10).joined(separator: ", "))"
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
    /// - Throws: ``VainWait`` after ``TestingLimits/wait``; `CancellationError` when the task is
    ///   cancelled.
    public func waitForNoSleepers(fileID: String = #fileID, line: Int = #line) async throws {
        try await state.wait(
            for: "no task to sleep",
            found: { "\($0.sleepers.count) sleep" },
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
