public import Observation

/// A stretch of days or numbers for a view: observable properties that follow the cache.
///
/// ```swift
/// let month = client.model(.moods, in: first...last)
/// month.show(next...lastOfNext)  // What is known of it is there at once.
/// ```
///
/// All changes of one moment come in one turn of the main actor. Models that show the same stretch
/// share what they follow, and it is followed until the last of them is released or shows another.
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
        shown = client.followed(range, of: query)
    }

    /// What is known of the stretch.
    public var state: RangeValues<Index, Value> { shown.state }

    /// The stretch that is shown.
    public var range: ClosedRange<Index> { shown.range }

    /// The value of the index, if it is known and there is one.
    public subscript(index: Index) -> Value? { state[index] }

    /// Shows another stretch; only what is not known of it is fetched.
    public func show(_ range: ClosedRange<Index>) {
        guard range != shown.range else { return }
        // The new one has begun when the old one ends: what both need is not cancelled in between.
        shown = client.followed(range, of: query)
    }

    /// Fetches all that is shown, and returns when that has ended.
    ///
    /// A failure is in the state's error.
    public func refresh() async {
        // Every reader learns of the failure through the state, this one included.
        _ = try? await client.refresh(query, in: range)
    }
}
