public import SanguineModel

/// A type that can index values: something countable, such as days or numbers.
///
/// Each index has a position, which is one more than that of the previous index.
public protocol RangeIndex: Comparable, Hashable, Codable, Sendable {
    /// The index's number, in the order of the indices and without gaps.
    var position: Int { get }

    /// Creates the index with this number.
    init(position: Int)
}

extension Int: RangeIndex {
    /// The number itself.
    public var position: Int { self }

    /// Creates an index that is the number itself.
    public init(position: Int) { self = position }
}

extension CalendarDay: RangeIndex {
    /// The number of days since January 1, 1970.
    public var position: Int { daysSince1970 }

    /// Creates the day that is this many days after January 1, 1970.
    public init(position: Int) { self.init(daysSince1970: position) }
}

extension RangeIndex {
    /// Returns the positions of the indices from the first to the last, or `nil` if they overflow.
    static func positions(_ range: ClosedRange<Self>) -> Range<Int>? {
        let (lower, upper) = (range.lowerBound.position, range.upperBound.position)
        guard upper < .max, lower <= upper else { return nil }
        return lower..<upper + 1
    }

    /// Returns the positions of the indices, or `nil` if there are more than the limit.
    static func positions(_ range: ClosedRange<Self>, upTo limit: Int) -> Range<Int>? {
        guard let positions = positions(range) else { return nil }
        let (count, isPast) = positions.upperBound.subtractingReportingOverflow(
            positions.lowerBound
        )
        return isPast || count > limit ? nil : positions
    }

    /// Returns the positions of the indices without the largest number, which cannot be known.
    static func clampedPositions(_ range: ClosedRange<Self>) -> Range<Int> {
        let lower = range.lowerBound.position
        return positions(range) ?? lower..<Int.max
    }

    /// Returns the indices at the positions; there must be at least one.
    static func indices(_ range: Range<Int>) -> ClosedRange<Self> {
        Self(position: range.lowerBound)...Self(position: range.upperBound - 1)
    }
}
