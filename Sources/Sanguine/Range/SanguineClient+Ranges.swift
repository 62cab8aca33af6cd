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

    /// Sets the values of a stretch as if they had just been fetched: a push, or the answer of a
    /// write.
    ///
    /// An index of the stretch that is not among the values has none from now on. What is on its
    /// way does not overwrite it.
    ///
    /// - Returns: Whether it was taken: not after ``close()``, and not more than
    ///   ``RangeLimits/readSpan`` indices.
    @discardableResult
    public func set<Index, Value>(
        _ values: [Index: Value],
        for query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) -> Bool {
        queries.source(of: query).set(values, in: range)
    }

    /// Changes the value of one index in place.
    ///
    /// `nil` stands for none. Nothing is changed where it is not known whether there is one.
    /// It stays as old as it was. What is on its way does not overwrite it.
    ///
    /// - Returns: Whether it was known.
    @discardableResult
    public func update<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        at index: Index,
        _ body: (inout Value?) -> Void
    ) -> Bool {
        queries.source(of: query).update(index, body)
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
