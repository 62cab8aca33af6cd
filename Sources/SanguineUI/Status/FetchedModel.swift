public import Sanguine

/// A model that a ``QueryView`` can show: of a value, a list, a stretch of days, or records.
@MainActor
public protocol FetchedModel: AnyObject {
    /// What is shown.
    associatedtype Content

    /// What is known; `nil` if there is nothing to show.
    var content: Content? { get }

    /// What is to be shown beside it, or in its place.
    var status: QueryStatus { get }

    /// Asks again, and returns when that has ended.
    func retry() async
}

extension ValueModel: FetchedModel {
    /// The value, fresh or not.
    public var content: Value? { value }

    /// What is to be shown beside the value, or in its place.
    public var status: QueryStatus {
        let stage: QueryStatus.Stage =
            switch phase {
            case .ready, .refreshing: .content
            case .loading: .loading
            case .failed: .failed
            case .empty: .empty
            }
        return QueryStatus(stage, error: error, asOf: asOf, isRefreshing: phase == .refreshing)
    }

    /// Fetches the value, and returns when that has ended.
    public func retry() async { await refresh() }
}

extension ListModel: FetchedModel {
    /// The rows, fresh or not; `nil` if none were ever loaded.
    public var content: [Item]? { status.stage == .content ? items : nil }

    /// What is to be shown beside the rows, or in their place.
    ///
    /// Why the next page failed is in `nextError`.
    public var status: QueryStatus {
        let stage: QueryStatus.Stage =
            switch phase {
            case .ready, .refreshing, .loadingMore: .content
            case .loading: .loading
            case .failed: .failed
            case .empty: .empty
            }
        return QueryStatus(stage, error: error, asOf: asOf, isRefreshing: phase == .refreshing)
    }
}

extension RangeModel: FetchedModel {
    /// What is known of the stretch; `nil` if nothing is.
    public var content: RangeValues<Index, Value>? { status.stage == .content ? state : nil }

    /// What is to be shown beside the values, or in their place.
    public var status: QueryStatus {
        let state = state
        let isUnknown = state.missing == [state.range]
        guard isUnknown else {
            return QueryStatus(.content, error: state.error, isRefreshing: state.isFetching)
        }
        let stage: QueryStatus.Stage =
            state.isFetching ? .loading : state.error == nil ? .empty : .failed
        return QueryStatus(stage, error: state.error)
    }

    /// Fetches the stretch, and returns when that has ended.
    public func retry() async { await refresh() }
}

extension RecordModel: FetchedModel {
    /// What the query gives.
    public var content: Value? { value }

    /// The value is always there.
    public var status: QueryStatus { QueryStatus(.content) }

    /// Does nothing: the feed brings what changes.
    public func retry() async {}
}
