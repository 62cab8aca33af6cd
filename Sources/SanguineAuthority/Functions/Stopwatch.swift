/// The time on a clock that never goes back, since this was created.
package struct Stopwatch: Sendable {
    /// The time that has passed.
    package let elapsed: @Sendable () -> Duration

    /// Creates one that begins now.
    package init(_ clock: some Clock<Duration>) {
        let start = clock.now
        elapsed = { start.duration(to: clock.now) }
    }
}
