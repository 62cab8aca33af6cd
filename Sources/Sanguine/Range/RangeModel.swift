public import Observation

/// A stretch of days or numbers for a view: observable properties that follow the cache.
///
/// ```swift
/// let month = client.model(.moods, in: first...last)
/// month.show(next...lastOfNext)  // What is known of it is there at once.
/// ```
///
/// The model stops following when it is released.
@MainActor
@Observable
public final class RangeModel<Index: RangeIndex, Value: Codable & Sendable & Equatable> {
    /// What is known of the stretch.
    public private(set) var state: RangeValues<Index, Value>

    @ObservationIgnored private let client: SanguineClient
    @ObservationIgnored private let query: RangeQuery<Index, Value>
    @ObservationIgnored private var following: Task<Void, Never>?

    init(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>,
        client: SanguineClient
    ) {
        self.query = query
        self.client = client
        state = client.cached(range, of: query)
        follow(range)
    }

    deinit { following?.cancel() }

    /// The stretch that is shown.
    public var range: ClosedRange<Index> { state.range }

    /// The value of the index, if it is known and there is one.
    public subscript(index: Index) -> Value? { state[index] }

    /// Shows another stretch; only what is not known of it is fetched.
    public func show(_ range: ClosedRange<Index>) {
        guard range != state.range else { return }
        state = client.cached(range, of: query)
        follow(range)
    }

    /// Fetches all that is shown, and returns when that has ended.
    ///
    /// A failure is in the state's error.
    public func refresh() async {
        // Every reader learns of the failure through the state, this one included.
        _ = try? await client.refresh(state.range, of: query)
    }

    private func follow(_ range: ClosedRange<Index>) {
        let updates = client.updates(of: query, in: range)
        let before = following
        following = Task { [weak self] in
            for await state in updates {
                guard let self, state.range == self.state.range else { return }
                if self.state != state { self.state = state }
            }
        }
        // After the new one has begun: what both need is not cancelled in between.
        before?.cancel()
    }
}
