import Synchronization

/// What the user saw, and when; and what they did not have to wait for.
final class Timeline: Sendable {
    private struct State {
        var saved = Duration.zero
        var waits = 0
    }

    // Guarded by the mutex: observers write from tasks of their own.
    private let state = Mutex(State())
    private let clock = ContinuousClock()
    private let start: ContinuousClock.Instant

    init() {
        start = clock.now
    }

    /// The time since the demonstration began.
    var elapsed: Duration {
        start.duration(to: clock.now)
    }

    /// Prints a chapter's title.
    func chapter(_ title: String) throws {
        try Output.write("\n  \(title)")
    }

    /// Prints one moment.
    func note(_ text: String) throws {
        try Output.write("  \(Self.seconds(elapsed).leftPadded(to: 9))  \(text)")
    }

    /// Counts a moment for which the user would have waited.
    func saved(_ time: Duration) {
        state.withLock {
            $0.saved += time
            $0.waits += 1
        }
    }

    func printSummary() throws {
        let (saved, waits) = state.withLock { ($0.saved, $0.waits) }
        try Output.write(
            """

              \(waits) times the number was right at once that would otherwise have been late,
              \(Self.seconds(saved)) in all. Nothing was lost, nothing was charged twice.
            """
        )
    }

    /// The duration in seconds with three decimals.
    static func seconds(_ duration: Duration) -> String {
        let milliseconds =
            duration.components.seconds * 1_000
            + duration.components.attoseconds / 1_000_000_000_000_000
        let decimals = String(1_000 + milliseconds % 1_000).dropFirst()
        return "\(milliseconds / 1_000).\(decimals) s"
    }

    /// The duration in milliseconds with two decimals, for what is too short for seconds.
    static func milliseconds(_ duration: Duration) -> String {
        let microseconds =
            (duration.components.attoseconds / 1_000_000_000_000)
            + duration.components.seconds * 1_000_000
        let decimals = String(100 + microseconds % 1_000 / 10).dropFirst()
        return "\(microseconds / 1_000).\(decimals) ms"
    }
}

extension String {
    /// The text with spaces before it, up to a width in characters.
    func leftPadded(to width: Int) -> String {
        String(repeating: " ", count: max(0, width - count)) + self
    }
}
