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
        keeping recent: [Range<Int>]
    ) {
        coverage.insert(flight.wanted.intersection(flight.current), asOf: asOf)
        coverage.insert(flight.wanted.subtracting(flight.current), asOf: asOf, isStale: true)
        for range in flight.wanted.ranges {
            for position in range { values[position] = brought[position] }
        }
        for range in coverage.trim(to: RangeLimits.indices, keeping: recent).ranges {
            for position in range { values[position] = nil }
        }
    }
}

extension RangeCoverage.Span {
    /// Whether the positions count as true without asking again.
    ///
    /// A moment in the future counts as stale: the clock was set back, and nobody knows by how
    /// much.
    func isFresh(_ freshness: Policy.Freshness, at now: Timestamp, in zone: TimeZone) -> Bool {
        guard !isStale, asOf <= now else { return false }
        return switch freshness {
        case .duration(let duration): now - asOf < duration
        case .never: false
        case .session: isOfSession
        case .untilMidnight:
            CalendarDay(containing: asOf, in: zone) == CalendarDay(containing: now, in: zone)
        case .forever: true
        }
    }
}
