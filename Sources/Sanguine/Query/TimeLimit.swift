/// A time limit that several attempts share, counted from its creation.
struct TimeLimit: Sendable {
    private let limit: Duration
    private let passed: Stopwatch

    init(_ limit: Duration, on clock: any Clock<Duration>) {
        self.limit = limit
        passed = Stopwatch(clock)
    }

    /// The time left; never negative.
    var left: Duration { max(.zero, limit - passed.elapsed) }
}
