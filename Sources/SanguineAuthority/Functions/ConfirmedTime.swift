import SanguineModel

/// The time by which stored things are old enough to be dropped, from a wall clock that may jump.
///
/// Rows are dated by the wall clock, so a clock that is days ahead makes all of them look old. A
/// jump ahead therefore counts after it has lasted for a day of elapsed time; until then the time
/// goes on from where it was. A clock that goes back is followed at once, which drops less.
///
/// Pure: no clock, no I/O. The first reading is believed: what passed before it is not known.
struct ConfirmedTime: Hashable, Sendable {
    /// By how much the clock may gain on the elapsed time without a doubt.
    static let tolerance = Duration.seconds(3_600)
    /// For how long a jump must last until it counts.
    static let confirmation = Duration.seconds(24 * 3_600)

    /// The believed moment at which the elapsed time was zero.
    private var origin: Timestamp?
    /// When the clock was first found ahead, in elapsed time.
    private var aheadSince: Duration?

    /// Takes in a reading of the clock.
    ///
    /// - Parameters:
    ///   - now: What the clock shows.
    ///   - elapsed: The time on a clock that never jumps.
    /// - Returns: The time that counts, at most `now`.
    mutating func read(_ now: Timestamp, at elapsed: Duration) -> Timestamp {
        let origin = self.origin ?? now - elapsed
        let gain = now - (origin + elapsed)
        guard gain > Self.tolerance else {
            (self.origin, aheadSince) = (now - elapsed, nil)
            return now
        }
        let since = aheadSince ?? elapsed
        aheadSince = since
        guard elapsed - since < Self.confirmation else {
            (self.origin, aheadSince) = (now - elapsed, nil)
            return now
        }
        return origin + elapsed
    }
}
