import SanguineModel

/// How long an outbox has been kept for the return of its user, by a clock that may be wrong.
///
/// The clock is read at launches, sign-ins and sign-outs. A gap of at most
/// ``ClientLimits/countedGap`` between two readings counts. A longer gap is an absence or a wrong
/// clock: so much of it counts, and not before the clock has gone on from there for a day, or by
/// another long gap. A clock that goes back takes it back. So a launch with a clock that is years
/// ahead ends nothing.
///
/// Pure: no clock, no I/O.
///
/// Invariants: `counted` never falls; `doubted` is zero or ``ClientLimits/countedGap``.
struct KeptTime: Hashable, Sendable {
    /// The time that has surely passed.
    private(set) var counted: Duration
    /// What a gap that was too long may add.
    private(set) var doubted: Duration
    /// For how long the clock has gone on since that gap.
    private(set) var lasted: Duration
    /// The last reading of the clock; `nil` if there was none.
    private(set) var seenAt: Timestamp?

    private static let confirmation = Duration.seconds(24 * 3_600)

    init(
        counted: Duration = .zero,
        doubted: Duration = .zero,
        lasted: Duration = .zero,
        seenAt: Timestamp? = nil
    ) {
        self.counted = counted
        self.doubted = doubted
        self.lasted = lasted
        self.seenAt = seenAt
    }

    /// Takes in a reading of the clock.
    mutating func read(_ now: Timestamp) {
        defer { seenAt = now }
        guard let seenAt else { return }
        let gap = now - seenAt
        if gap < .zero {
            doubted = .zero
        } else if gap > ClientLimits.countedGap {
            counted += doubted
            (doubted, lasted) = (ClientLimits.countedGap, .zero)
        } else {
            counted += gap
            lasted += gap
            guard lasted >= Self.confirmation else { return }
            counted += doubted
            doubted = .zero
        }
    }
}
