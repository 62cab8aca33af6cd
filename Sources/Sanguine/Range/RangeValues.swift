/// The known values of a range of days or numbers at one moment.
public struct RangeValues<Index: RangeIndex, Value: Codable & Sendable & Equatable>: Sendable,
    Equatable
{
    /// The range of these values.
    public var range: ClosedRange<Index>
    /// The values, fresh or stale; an index that is known to have none is missing here.
    public var values: [Index: Value]
    /// The ranges without known values.
    public var missing: [ClosedRange<Index>]
    /// The ranges with known values that are stale.
    public var stale: [ClosedRange<Index>]
    /// Whether a part of the range is being fetched.
    public var isFetching: Bool
    /// The error of the last fetch in the range; `nil` after a success.
    ///
    /// Only ``SanguineClient/updates(of:in:)`` sets it.
    public var error: SanguineError?

    /// Creates the values of a range, for previews and tests.
    ///
    /// By default, none are missing or being fetched.
    public init(
        range: ClosedRange<Index>,
        values: [Index: Value],
        missing: [ClosedRange<Index>] = [],
        stale: [ClosedRange<Index>] = [],
        isFetching: Bool = false,
        error: SanguineError? = nil
    ) {
        self.range = range
        self.values = values
        self.missing = missing
        self.stale = stale
        self.isFetching = isFetching
        self.error = error
    }

    /// Whether all values of the range are known and fresh.
    public var isComplete: Bool { missing.isEmpty && stale.isEmpty }

    /// The value at the index, if it is known and exists.
    public subscript(index: Index) -> Value? { values[index] }
}

extension RangeValues {
    /// Creates the values of a range without known ones.
    static func unknown(_ range: ClosedRange<Index>, error: SanguineError? = nil) -> Self {
        RangeValues(
            range: range,
            values: [:],
            missing: [range],
            stale: [],
            isFetching: false,
            error: error
        )
    }
}
