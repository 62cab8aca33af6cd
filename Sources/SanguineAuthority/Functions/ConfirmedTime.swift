import SanguineModel

/// The time by which stored things are old enough to be dropped, from a wall clock that may jump.
///
/// Rows are dated by the wall clock, so a clock that is days ahead makes all of them look old. A
/// jump ahead therefore counts after it has lasted for a day of elapsed time; until then the time
/// goes on from where it was. What a further jump adds meanwhile counts a day later. A clock that
/// goes back is followed at once, which drops less.
///
/// Pure: no clock, no I/O. The first reading is believed: what passed before it is not known.
struct ConfirmedTime: Hashable, Sendable {
    /// By how much the clock may gain on the elapsed time without a doubt.
    static let tolerance = Duration.seconds(3_600)
    /// For how long a jump must last until it counts.
    static let confirmation = Duration.seconds(24 * 3_600)

    /// A jump that does not count yet.
    private struct Jump: Hashable {
        /// The moment at which the elapsed time was zero, if the jump is right.
        var origin: Timestamp
        /// When it was found, in elapsed time.
        let since: Duration
    }

    /// The believed moment at which the elapsed time was zero.
    private var origin: Timestamp?
    private var jump: Jump?

    /// Takes in a reading of the clock.
    ///
    /// - Parameters:
    ///   - now: What the clock shows.
    ///   - elapsed: The time on a clock that never jumps.
    /// - Returns: The time that counts, at most `now`.
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
