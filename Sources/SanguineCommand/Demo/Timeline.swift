import Synchronization

/// The events that the user saw, with their times, and the waits that were avoided.
final class Timeline: Sendable {
    private struct State {
        var saved = Duration.zero
        var waits = 0
    }

    // Guarded by the mutex, because observers write from separate tasks.
    private let state = Mutex(State())
    private let clock = ContinuousClock()
    private let start: ContinuousClock.Instant

    init() {
        start = clock.now
    }

    /// The time since the start of the demonstration.
    var elapsed: Duration {
        start.duration(to: clock.now)
    }

    /// Prints a chapter's title.
    func chapter(_ title: String) throws {
        try Output.write("\n  \(title)")
    }

    /// Prints an event.
    func show(_ text: String) throws {
        try Output.write("  \(Self.seconds(elapsed).leftPadded(to: 9))  \(text)")
    }

    /// Counts an avoided wait.
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

              \(waits) times the number was right at once instead of late, which saved
              \(Self.seconds(saved)) in all. Nothing was lost, and nothing was charged twice.
            """
        )
    }

    /// Returns the duration in seconds with three decimals.
    static func seconds(_ duration: Duration) -> String {
        let milliseconds =
            duration.components.seconds * 1_000
            + duration.components.attoseconds / 1_000_000_000_000_000
        let decimals = String(1_000 + milliseconds % 1_000).dropFirst()
        return "\(milliseconds / 1_000).\(decimals) s"
    }

    /// Returns the duration in milliseconds with two decimals, for short durations.
    static func milliseconds(_ duration: Duration) -> String {
        let microseconds =
            (duration.components.attoseconds / 1_000_000_000_000)
            + duration.components.seconds * 1_000_000
        let decimals = String(100 + microseconds % 1_000 / 10).dropFirst()
        return "\(microseconds / 1_000).\(decimals) ms"
    }
}

extension String {
    /// Returns the text padded with leading spaces to a width in characters.
    func leftPadded(to width: Int) -> String {
        String(repeating: " ", count: max(0, width - count)) + self
    }
}
