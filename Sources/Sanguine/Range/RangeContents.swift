import Foundation
import SanguineModel

/// All that is known of a range query: one entry of the cache.
struct RangeContents<Value: Codable & Sendable & Equatable>: Codable, Sendable, Equatable {
    var coverage = RangeCoverage()
    /// The values by position; a known position without one has none.
    var values: [Int: Value] = [:]
    /// Rises with each change, so that of two changes the second sees the first.
    var revision: UInt64 = 0

    /// Takes over what a flight brought.
    mutating func land(
        _ brought: [Int: Value],
        _ flight: RangeState.Flight,
        asOf: Timestamp,
        day: LocalDay? = nil,
        keeping recent: [Range<Int>]
    ) {
        let (current, old) = (flight.current, flight.wanted.subtracting(flight.current))
        coverage.insert(flight.wanted.intersection(current), asOf: asOf, day: day)
        coverage.insert(old, asOf: asOf, day: day, isStale: true)
        for range in flight.wanted.ranges {
            for position in range { values[position] = brought[position] }
        }
        forget(coverage.trim(to: RangeLimits.indices, keeping: recent))
    }

    /// Takes over what the app knows of the positions: all of them are known from now on.
    mutating func set(
        _ values: [Int: Value],
        _ positions: Range<Int>,
        asOf: Timestamp,
        day: LocalDay?
    ) {
        coverage.insert(RangeSet(positions), asOf: asOf, day: day)
        for position in positions { self.values[position] = values[position] }
        forget(coverage.trim(to: RangeLimits.indices, keeping: [positions]))
    }

    /// Forgets what may no longer be shown.
    ///
    /// - Parameters:
    ///   - policy: For how long a position may be shown.
    ///   - now: The present moment.
    ///   - inUse: The positions that somebody watches, which may be shown for longer.
    mutating func forget(
        endedBy policy: Policy,
        at now: Timestamp,
        inUse: @autoclosure () -> RangeSet<Int>
    ) {
        let ended = coverage.positions(in: Int.min..<Int.max) { policy.end(of: $0.asOf) <= now }
        guard !ended.isEmpty else { return }
        let forgotten = ended.subtracting(inUse())
        coverage.forget(forgotten)
        forget(forgotten)
    }

    private mutating func forget(_ positions: RangeSet<Int>) {
        for range in positions.ranges {
            for position in range { values[position] = nil }
        }
    }
}

extension RangeCoverage.Span {
    /// Whether the positions count as true without asking again.
    func isFresh(_ freshness: Policy.Freshness, at now: Timestamp, in zone: TimeZone) -> Bool {
        !isStale
            && freshness.holds(
                since: asOf,
                day: day,
                isOfSession: isOfSession,
                at: now,
                in: zone
            )
    }
}
