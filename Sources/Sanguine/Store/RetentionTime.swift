import SanguineModel

/// The time for which data has been kept, measured by a clock that may be wrong: an outbox for its
/// user's return, or the key of a call.
///
/// The clock is read from time to time, for an outbox at launches, sign-ins and sign-outs. A gap of
/// at most ``ClientLimits/countedGap`` between two readings counts. A longer gap may be an absence
/// or a wrong clock: only ``ClientLimits/countedGap`` of it counts, and only once the clock has run
/// on for another day, or after another long gap. If the clock goes back first, that gap does not
/// count. So a launch with a clock that is years ahead does not end the retention.
///
/// Pure: no clock, no I/O.
///
/// Invariants: `counted` never decreases; `doubted` is zero, or the part of a long gap that may
/// count.
struct RetentionTime: Hashable, Codable, Sendable {
    /// The time that has certainly passed.
    private(set) var counted: Duration
    /// The time that the last long gap may add.
    private(set) var doubted: Duration
    /// The time for which the clock has run since that gap.
    private(set) var lasted: Duration
    /// The last reading of the clock; `nil` before the first.
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

    /// Adds a reading of the clock.
    ///
    /// - Parameters:
    ///   - now: The time according to the clock.
    ///   - countedGap: The maximum part of a gap that counts. Default: ``ClientLimits/countedGap``.
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
