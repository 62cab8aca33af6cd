import SanguineModel

/// The time by which stored data expires, derived from a wall clock that may jump.
///
/// Rows have timestamps of the wall clock, so a clock that is days ahead makes all of them look
/// old. Therefore a forward jump takes effect only after a day of elapsed time; until then the
/// previous time continues. The part that a further jump adds takes effect a day later. A clock
/// that goes back is followed at once, because that drops less.
///
/// Pure: no clock, no I/O. The first reading is trusted, because the time before it is unknown.
struct ConfirmedTime: Hashable, Sendable {
    /// The lead over the elapsed time that the clock may gain without being a jump.
    static let tolerance = Duration.seconds(3_600)
    /// The time for which a jump must last before it takes effect.
    static let confirmation = Duration.seconds(24 * 3_600)

    /// A jump that has not taken effect yet.
    private struct Jump: Hashable {
        /// The moment at which the elapsed time was zero, if the jump is correct.
        var origin: Timestamp
        /// The elapsed time when the jump was detected.
        let since: Duration
    }

    /// The trusted moment at which the elapsed time was zero.
    private var origin: Timestamp?
    private var jump: Jump?

    /// Adds a reading of the clock.
    ///
    /// - Parameters:
    ///   - now: The time of the clock.
    ///   - elapsed: The time on a monotonic clock.
    /// - Returns: The trusted time, at most `now`.
    mutating func read(_ now: Timestamp, at elapsed: Duration) -> Timestamp {
        let shown = now - elapsed
        if let jump, elapsed - jump.since >= Self.confirmation {
            (origin, self.jump) = (min(jump.origin, shown), nil)
        }
        guard let origin, shown - origin > Self.tolerance else {
            (origin, jump) = (shown, nil)
            return now
        }
        let since = jump?.since ?? elapsed
        jump = Jump(origin: min(jump?.origin ?? shown, shown), since: since)
        return origin + elapsed
    }
}
