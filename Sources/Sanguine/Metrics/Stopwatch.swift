/// The time since it was made, on any clock.
///
/// Moments of a clock whose type is not known cannot be compared; times since one of them can.
struct Stopwatch: Sendable {
    private let read: @Sendable () -> Duration

    init(_ clock: any Clock<Duration>) { read = Self.reader(of: clock) }

    /// How long ago the stopwatch was made.
    var elapsed: Duration { read() }

    private static func reader<C: Clock<Duration>>(of clock: C) -> @Sendable () -> Duration {
        let origin = clock.now
        return { origin.duration(to: clock.now) }
    }
}
