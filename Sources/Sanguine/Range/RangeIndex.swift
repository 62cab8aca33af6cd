public import SanguineModel

/// What values can be indexed by: something that can be counted, such as days or numbers.
///
/// Each index has a position, one more than that of the index before it.
public protocol RangeIndex: Comparable, Hashable, Codable, Sendable {
    /// The index's number, in the order of indices and without gaps.
    var position: Int { get }

    /// The index with that number.
    init(position: Int)
}

extension Int: RangeIndex {
    /// The number itself.
    public var position: Int { self }

    /// The number itself.
    public init(position: Int) { self = position }
}

extension CalendarDay: RangeIndex {
    /// Days since January 1, 1970.
    public var position: Int { daysSince1970 }

    /// The day so many days after January 1, 1970.
    public init(position: Int) { self.init(daysSince1970: position) }
}

extension RangeIndex {
    /// The positions of the indices from the first to the last, or `nil` past all numbers.
    static func positions(_ range: ClosedRange<Self>) -> Range<Int>? {
        let (lower, upper) = (range.lowerBound.position, range.upperBound.position)
        guard upper < .max, lower <= upper else { return nil }
        return lower..<upper + 1
    }

    /// The positions of the indices, or `nil` if they are more than the limit.
    static func positions(_ range: ClosedRange<Self>, upTo limit: Int) -> Range<Int>? {
        guard let positions = positions(range) else { return nil }
        let (count, isPast) = positions.upperBound.subtractingReportingOverflow(
            positions.lowerBound
        )
        return isPast || count > limit ? nil : positions
    }

    /// The positions of the indices without the last number, at which nothing can be known.
    static func clampedPositions(_ range: ClosedRange<Self>) -> Range<Int> {
        let lower = range.lowerBound.position
        return positions(range) ?? lower..<Int.max
    }

    /// The indices at the positions; there must be one.
    static func indices(_ range: Range<Int>) -> ClosedRange<Self> {
        Self(position: range.lowerBound)...Self(position: range.upperBound - 1)
    }
}
