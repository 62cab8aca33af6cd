/// What is known of a stretch of days or numbers at one moment.
public struct RangeValues<Index: RangeIndex, Value: Codable & Sendable & Equatable>: Sendable,
    Equatable
{
    /// The stretch that this is about.
    public var range: ClosedRange<Index>
    /// The values, fresh or not; an index that is known to have none is not there.
    public var values: [Index: Value]
    /// The stretches of which nothing is known.
    public var missing: [ClosedRange<Index>]
    /// The stretches that are known and no longer fresh.
    public var stale: [ClosedRange<Index>]
    /// Whether something of the stretch is being fetched.
    public var isFetching: Bool
    /// Why the last fetch failed that touched the stretch; `nil` after one that succeeded.
    ///
    /// Only ``SanguineClient/updates(of:in:)`` tells it.
    public var error: SanguineError?

    /// Creates the state of a stretch, for previews and tests.
    ///
    /// Default: nothing missing, nothing under way.
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

    /// Whether everything is known and fresh.
    public var isComplete: Bool { missing.isEmpty && stale.isEmpty }

    /// The value of the index, if it is known and there is one.
    public subscript(index: Index) -> Value? { values[index] }
}

extension RangeValues {
    /// A stretch of which nothing is known.
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
