extension SanguineClient {
    /// The values of a stretch; only what is missing or stale is fetched first.
    ///
    /// Gaps that lie close together are asked for in one request. Simultaneous readers share the
    /// requests for what they have in common, and each waits only for those that it needs. A reader
    /// whose task is cancelled disturbs no other; a request that nobody needs any more ends.
    ///
    /// - Returns: The values by index; an index that is not there has none.
    /// - Throws: ``SanguineError``: of a request that this reader needs;
    ///   ``SanguineError/rangeTooLong(limit:)`` past ``RangeLimits/readSpan``.
    public func value<Index, Value>(
        of query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) async throws(SanguineError) -> [Index: Value] {
        try await queries.source(of: query).values(range, refreshing: false)
    }

    /// What is known of a stretch, at once and whatever its age.
    ///
    /// It waits for no network, and for the disk as ``cached(_:)-(ValueQuery<Value>)`` does.
    public func cached<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) -> RangeValues<Index, Value> {
        queries.source(of: query).snapshot(range)
    }

    /// What is known of a stretch at once, then every change of it.
    ///
    /// What is missing or stale is fetched. A reader who is slow gets the newest state and not
    /// those in between. The sequence ends when the client is closed.
    public func updates<Index, Value>(
        of query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) -> AsyncStream<RangeValues<Index, Value>> {
        queries.source(of: query).updates(range)
    }

    /// Fetches all of a stretch although it may be fresh; joins what is under way.
    ///
    /// - Throws: As ``value(of:in:)`` does.
    @discardableResult
    public func refresh<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) async throws(SanguineError) -> [Index: Value] {
        try await queries.source(of: query).values(range, refreshing: true)
    }

    /// Makes the values of a stretch count as stale; whoever watches it gets new ones.
    ///
    /// For all of a query, and for many queries, see ``invalidate(all:_:)``.
    public func invalidate<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) {
        queries.source(of: query).invalidate(range)
    }

    /// The stretch as an observable object for a view.
    ///
    /// Views of the same stretch share what is followed; each may show another one for itself.
    @MainActor
    public func model<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) -> RangeModel<Index, Value> {
        RangeModel(query, in: range, client: self)
    }
}
