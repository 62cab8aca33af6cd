import SanguineModel

/// Which positions are known, and since when: with a value or without one.
///
/// Invariants:
///
/// 1. Spans are in order, not empty, and no position is in two of them.
struct RangeCoverage: Hashable, Sendable {
    /// Neighbouring positions that are known from the same moment.
    struct Span: Hashable, Sendable {
        var range: Range<Int>
        var asOf: Timestamp
        /// The user's day on which they were asked for, if their freshness goes by days.
        var day: LocalDay?
        /// Whether it was invalidated.
        var isStale = false
        /// Whether this process fetched it, and not one before, whoever was signed in then.
        var isOfSession = true

        fileprivate func isLike(_ other: Span) -> Bool {
            asOf == other.asOf && day == other.day && isStale == other.isStale
                && isOfSession == other.isOfSession
        }
    }

    private(set) var spans: [Span] = []

    /// How many positions are known.
    var count: Int { spans.reduce(0) { $0 + $1.range.count } }

    /// The known positions for whose span the condition holds, within the bounds.
    func positions(in bounds: Range<Int>, where condition: (Span) -> Bool) -> RangeSet<Int> {
        var found = RangeSet<Int>()
        for span in spans where span.range.overlaps(bounds) && condition(span) {
            found.insert(contentsOf: span.range.clamped(to: bounds))
        }
        return found
    }

    /// Takes over that the positions are known now.
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

    /// What is known of the positions no longer counts as fresh.
    mutating func markStale(_ positions: RangeSet<Int>) {
        for span in pieces(of: positions) where !span.isStale {
            remove(RangeSet(span.range))
            var span = span
            span.isStale = true
            spans.append(span)
        }
        normalize()
    }

    /// All that is known no longer counts as fresh.
    mutating func markAllStale() {
        for index in spans.indices { spans[index].isStale = true }
        normalize()
    }

    /// Forgets positions until at most so many are known.
    ///
    /// What was read last stays; of the rest, what is newest.
    ///
    /// - Parameters:
    ///   - limit: How many positions may be known.
    ///   - recent: What was read, the last first.
    /// - Returns: The positions that it forgot.
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

    /// The positions are no longer known.
    mutating func forget(_ positions: RangeSet<Int>) {
        remove(positions)
        normalize()
    }

    // The parts of spans that lie in the positions.
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
                debugDescription: "A span ends after it begins."
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
        // Two moments for one position: what of it is true cannot be told.
        if !isInOrder { spans = [] }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(spans)
    }
}
