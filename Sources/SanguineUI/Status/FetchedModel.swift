public import Sanguine

/// A model that a ``QueryView`` can show: of a value, a list, a range, or records.
@MainActor
public protocol FetchedModel: AnyObject {
    /// The type of the content.
    associatedtype Content

    /// The known content, or `nil` if there is nothing to show.
    var content: Content? { get }

    /// The state to show with the content, or instead of it.
    var status: QueryStatus { get }

    /// Fetches again, and returns when the fetch has ended.
    func retry() async
}

extension ValueModel: FetchedModel {
    /// The value, whether or not it is fresh.
    public var content: Value? { value }

    /// The state to show with the value, or instead of it.
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

    /// Fetches the value, and returns when the fetch has ended.
    public func retry() async { await refresh() }
}

extension ListModel: FetchedModel {
    /// The rows, whether or not they are fresh, or `nil` if none were ever loaded.
    public var content: [Item]? { status.stage == .content ? items : nil }

    /// The state to show with the rows, or instead of them.
    ///
    /// If the next page failed, `nextError` contains the error.
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
    /// The known values of the range, or `nil` if none are known.
    public var content: RangeValues<Index, Value>? { status.stage == .content ? state : nil }

    /// The state to show with the values, or instead of them.
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

    /// Fetches the range, and returns when the fetch has ended.
    public func retry() async { await refresh() }
}

extension RecordModel: FetchedModel {
    /// The result of the query.
    public var content: Value? { value }

    /// Always ``QueryStatus/Stage/content``, because the value is always available.
    public var status: QueryStatus { QueryStatus(.content) }

    /// Does nothing, because changes arrive through the feed.
    public func retry() async {}
}
