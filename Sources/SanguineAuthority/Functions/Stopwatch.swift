/// A monotonic stopwatch.
package struct Stopwatch: Sendable {
    /// Returns the time since the creation.
    package let elapsed: @Sendable () -> Duration

    /// Creates a stopwatch that starts now.
    package init(_ clock: some Clock<Duration>) {
        let start = clock.now
        elapsed = { start.duration(to: clock.now) }
    }
}
