import SanguineModel

/// The time for which data has been kept, by a clock that may be wrong: an outbox for the return of
/// its user, or the key of a call.
///
/// The clock is read now and then, for an outbox at launches, sign-ins and sign-outs. A gap of at
/// most ``ClientLimits/countedGap`` between two readings counts. A longer gap is an absence or a
/// wrong clock: so much of it counts, and not before the clock has gone on from there for a day, or
/// by another long gap. A clock that goes back takes it back. So a launch with a clock that is
/// years ahead ends nothing.
///
/// Pure: no clock, no I/O.
///
/// Invariants: `counted` never falls; `doubted` is zero or the gap that counts.
struct KeptTime: Hashable, Codable, Sendable {
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
    ///
    /// - Parameters:
    ///   - now: What the clock says.
    ///   - countedGap: How much of a gap counts. Default: ``ClientLimits/countedGap``.
    mutating func read(
        _ now: Timestamp,
        counting countedGap: Duration = ClientLimits.countedGap
    ) {
        defer { seenAt = now }
        guard let seenAt else { return }
        let gap = now - seenAt
        if gap < .zero {
            doubted = .zero
        } else if gap > countedGap {
            counted += doubted
            (doubted, lasted) = (countedGap, .zero)
        } else {
            counted += gap
            lasted += gap
            guard lasted >= Self.confirmation else { return }
            counted += doubted
            doubted = .zero
        }
    }
}
