import Foundation
import SanguineModel

/// The known values of a range query: one entry of the cache.
struct RangeContents<Value: Codable & Sendable & Equatable>: Codable, Sendable, Equatable {
    var coverage = RangeCoverage()
    /// The values by position; a known position without an entry has no value.
    var values: [Int: Value] = [:]
    /// Increases with each change, so that consecutive changes can be distinguished.
    var revision: UInt64 = 0

    /// Adds the values that a request has returned.
    mutating func add(
        _ brought: [Int: Value],
        _ request: RangeState.RangeRequest,
        asOf: Timestamp,
        day: LocalDay? = nil,
        keeping recent: [Range<Int>]
    ) {
        let (current, old) = (request.current, request.wanted.subtracting(request.current))
        coverage.insert(request.wanted.intersection(current), asOf: asOf, day: day)
        coverage.insert(old, asOf: asOf, day: day, isStale: true)
        for range in request.wanted.ranges {
            for position in range { values[position] = brought[position] }
        }
        forget(coverage.trim(to: RangeLimits.indices, keeping: recent))
    }

    /// Sets the values of the positions, all of which are known afterwards.
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

    /// Removes positions that have expired.
    ///
    /// - Parameters:
    ///   - policy: Determines how long a position may be shown.
    ///   - now: The current time.
    ///   - inUse: The watched positions, which may be shown for longer.
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
    /// Whether the positions may be used without another request.
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
