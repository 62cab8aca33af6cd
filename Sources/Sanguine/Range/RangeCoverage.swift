import SanguineModel

/// The positions that are known, with or without a value, and when each was fetched.
///
/// Invariants:
///
/// 1. Spans are sorted and not empty, and no two of them overlap.
struct RangeCoverage: Hashable, Sendable {
    /// Adjacent positions that were fetched at the same time.
    struct Span: Hashable, Sendable {
        var range: Range<Int>
        var asOf: Timestamp
        /// The user's day on which they were requested, if their freshness depends on days.
        var day: LocalDay?
        /// Whether it was invalidated.
        var isStale = false
        /// Whether this process has fetched it, regardless of the user.
        var isOfSession = true

        fileprivate func isLike(_ other: Span) -> Bool {
            asOf == other.asOf && day == other.day && isStale == other.isStale
                && isOfSession == other.isOfSession
        }
    }

    private(set) var spans: [Span] = []

    /// The number of known positions.
    var count: Int { spans.reduce(0) { $0 + $1.range.count } }

    /// Returns the known positions within the bounds whose span satisfies the condition.
    func positions(in bounds: Range<Int>, where condition: (Span) -> Bool) -> RangeSet<Int> {
        var found = RangeSet<Int>()
        for span in spans where span.range.overlaps(bounds) && condition(span) {
            found.insert(contentsOf: span.range.clamped(to: bounds))
        }
        return found
    }

    /// Adds positions that have become known.
    mutating func insert(
        _ positions: RangeSet<Int>,
        asOf: Timestamp,
        day: LocalDay? = nil,
        isStale: Bool = false
    ) {
        guard !positions.isEmpty else { return }
        remove(positions)
        spans += positions.ranges.map { Span(range: $0, asOf: asOf, day: day, isStale: isStale) }
        normalize()
    }

    /// Marks the known ones of these positions as stale.
    mutating func markStale(_ positions: RangeSet<Int>) {
        for span in pieces(of: positions) where !span.isStale {
            remove(RangeSet(span.range))
            var span = span
            span.isStale = true
            spans.append(span)
        }
        normalize()
    }

    /// Marks all known positions as stale.
    mutating func markAllStale() {
        for index in spans.indices { spans[index].isStale = true }
        normalize()
    }

    /// Removes positions until at most `limit` are known.
    ///
    /// The most recently read positions stay; of the others, the most recently fetched ones.
    ///
    /// - Parameters:
    ///   - limit: The number of positions that may be known.
    ///   - recent: The ranges that were read, most recent first.
    /// - Returns: The removed positions.
    mutating func trim(to limit: Int, keeping recent: [Range<Int>]) -> RangeSet<Int> {
        guard count > limit else { return RangeSet() }
        var kept = RangeSet<Int>()
        var room = limit
        let byAge = spans.sorted { $0.asOf > $1.asOf }.map(\.range)
        for wanted in recent + byAge {
            let positions = positions(in: wanted) { _ in true }.subtracting(kept)
            for range in positions.ranges where room > 0 {
                let part = range.prefix(room)
                kept.insert(contentsOf: part.startIndex..<part.endIndex)
                room -= part.count
            }
        }
        let all = RangeSet(spans.map(\.range))
        let forgotten = all.subtracting(kept)
        forget(forgotten)
        return forgotten
    }

    /// Removes positions.
    mutating func forget(_ positions: RangeSet<Int>) {
        remove(positions)
        normalize()
    }

    // Returns the parts of spans within the positions.
    private func pieces(of positions: RangeSet<Int>) -> [Span] {
        spans.flatMap { span in
            RangeSet(span.range).intersection(positions).ranges.map { range in
                var piece = span
                piece.range = range
                return piece
            }
        }
    }

    private mutating func remove(_ positions: RangeSet<Int>) {
        spans = spans.flatMap { span -> [Span] in
            let rest = RangeSet(span.range).subtracting(positions)
            return rest.ranges.map { range in
                var piece = span
                piece.range = range
                return piece
            }
        }
    }

    private mutating func normalize() {
        spans.sort { $0.range.lowerBound < $1.range.lowerBound }
        var joined: [Span] = []
        for span in spans {
            if let last = joined.last, last.range.upperBound == span.range.lowerBound,
                last.isLike(span)
            {
                joined[joined.count - 1].range = last.range.lowerBound..<span.range.upperBound
            } else {
                joined.append(span)
            }
        }
        spans = joined
        checkInvariants()
    }

    private func checkInvariants() {
        assert(
            zip(spans, spans.dropFirst())
                .allSatisfy { $0.range.upperBound <= $1.range.lowerBound }
        )
        assert(spans.allSatisfy { !$0.range.isEmpty })
    }
}

extension RangeCoverage.Span: Codable {
    private enum Key: String, CodingKey { case from, to, asOf, day, stale }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        let from = try container.decode(Int.self, forKey: .from)
        let to = try container.decode(Int.self, forKey: .to)
        guard from < to else {
            throw DecodingError.dataCorruptedError(
                forKey: .to,
                in: container,
                debugDescription: "A span must end after it begins."
            )
        }
        range = from..<to
        asOf = try container.decode(Timestamp.self, forKey: .asOf)
        day = try container.decodeIfPresent(LocalDay.self, forKey: .day)
        isStale = try container.decode(Bool.self, forKey: .stale)
        isOfSession = false
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(range.lowerBound, forKey: .from)
        try container.encode(range.upperBound, forKey: .to)
        try container.encode(asOf, forKey: .asOf)
        try container.encodeIfPresent(day, forKey: .day)
        try container.encode(isStale, forKey: .stale)
    }
}

extension RangeCoverage: Codable {
    init(from decoder: any Decoder) throws {
        spans = try decoder.singleValueContainer().decode([Span].self)
        spans.sort { $0.range.lowerBound < $1.range.lowerBound }
        let isInOrder = zip(spans, spans.dropFirst())
            .allSatisfy { $0.range.upperBound <= $1.range.lowerBound }
        // Spans that overlap give two times for one position, and either may be wrong.
        if !isInOrder { spans = [] }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(spans)
    }
}
