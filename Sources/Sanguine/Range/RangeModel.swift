public import Observation

/// A range of days or numbers for a view: observable properties that follow the cache.
///
/// ```swift
/// let month = client.model(.moods, in: first...last)
/// month.show(next...lastOfNext)  // Known values are shown at once.
/// ```
///
/// Changes that happen together are applied in one turn of the main actor. Models of the same range
/// share its state, which follows the cache until the last of them is released or shows another
/// range.
@MainActor
@Observable
public final class RangeModel<Index: RangeIndex, Value: Codable & Sendable & Equatable> {
    @ObservationIgnored private let client: SanguineClient
    @ObservationIgnored private let query: RangeQuery<Index, Value>
    private var shown: FollowedRange<Index, Value>

    init(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>,
        client: SanguineClient
    ) {
        self.query = query
        self.client = client
        shown = FollowedRange.shared(range, of: query, in: client)
    }

    /// The known values of the range.
    public var state: RangeValues<Index, Value> { shown.state }

    /// The current range.
    public var range: ClosedRange<Index> { shown.range }

    /// The value at the index, if it is known and exists.
    public subscript(index: Index) -> Value? { state[index] }

    /// Shows another range; only its missing or stale values are fetched.
    public func show(_ range: ClosedRange<Index>) {
        guard range != shown.range else { return }
        // The new range is followed before the old one ends, so that shared requests are not
        // cancelled.
        shown = FollowedRange.shared(range, of: query, in: client)
    }

    /// Fetches the whole range, and returns when that has ended.
    ///
    /// The state contains the error of a failure.
    public func refresh() async {
        // Every observer gets the failure through the state, this one included.
        _ = try? await client.refresh(query, in: range)
    }
}
