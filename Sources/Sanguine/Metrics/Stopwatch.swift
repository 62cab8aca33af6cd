/// The time since its creation, on any clock.
///
/// Instants of a clock whose type is unknown cannot be compared, but durations since one of them
/// can.
struct Stopwatch: Sendable {
    private let read: @Sendable () -> Duration

    init(_ clock: any Clock<Duration>) { read = Self.reader(of: clock) }

    /// The time since the stopwatch was created.
    var elapsed: Duration { read() }

    private static func reader<C: Clock<Duration>>(of clock: C) -> @Sendable () -> Duration {
        let origin = clock.now
        return { origin.duration(to: clock.now) }
    }
}
