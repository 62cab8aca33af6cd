extension SanguineClient {
    /// Returns the values of a range, after it has fetched only the missing and stale ones.
    ///
    /// Nearby gaps are fetched in one request. Concurrent readers share requests for common
    /// indices, and each waits only for the requests it needs. Cancelling the task of one reader
    /// does not affect the others; a request that is no longer needed by any reader is cancelled.
    ///
    /// - Returns: The values by index; an index without a value is missing.
    /// - Throws: ``SanguineError``: of a request that this reader needs;
    ///   ``SanguineError/rangeTooLong(limit:)`` beyond ``RangeLimits/readSpan``.
    public func value<Index, Value>(
        of query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) async throws(SanguineError) -> [Index: Value] {
        try await queries.source(of: query).values(range, refreshing: false)
    }

    /// Returns the known values of a range at once, regardless of their age.
    ///
    /// It does not wait for the network, but may wait for the disk like
    /// ``cached(_:)-(ValueQuery<Value>)``.
    public func cached<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) -> RangeValues<Index, Value> {
        queries.source(of: query).snapshot(range)
    }

    /// Returns the known values of a range at once, then every change of them.
    ///
    /// Missing and stale values are fetched. A slow reader gets the newest state and skips those in
    /// between. The sequence ends when the client is closed.
    public func updates<Index, Value>(
        of query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) -> AsyncStream<RangeValues<Index, Value>> {
        queries.source(of: query).updates(range)
    }

    /// Fetches a whole range even if it is fresh; joins running requests.
    ///
    /// - Throws: The errors of ``value(of:in:)``.
    @discardableResult
    public func refresh<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) async throws(SanguineError) -> [Index: Value] {
        try await queries.source(of: query).values(range, refreshing: true)
    }

    /// Sets the values of a range as if they had just been fetched, such as from a push or the
    /// response to a write.
    ///
    /// An index of the range without a value here has none afterwards. Running requests do not
    /// overwrite the values.
    ///
    /// - Returns: Whether the values were set: `false` after ``close()``, and for more than
    ///   ``RangeLimits/readSpan`` indices.
    @discardableResult
    public func set<Index, Value>(
        _ values: [Index: Value],
        for query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) -> Bool {
        queries.source(of: query).set(values, in: range)
    }

    /// Changes the value at one index in place.
    ///
    /// `nil` means that there is no value. An unknown index is not changed. The value keeps its
    /// age, and running requests do not overwrite it.
    ///
    /// - Returns: Whether the index was known.
    @discardableResult
    public func update<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        at index: Index,
        _ body: (inout Value?) -> Void
    ) -> Bool {
        queries.source(of: query).update(index, body)
    }

    /// Marks the values of a range as stale, and fetches the watched ones.
    ///
    /// For all of a query, and for many queries, see ``invalidate(all:_:)``.
    public func invalidate<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) {
        queries.source(of: query).invalidate(range)
    }

    /// Returns an observable object for a view that shows this range.
    ///
    /// Views of the same range share its state; each may switch to another range.
    @MainActor
    public func model<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) -> RangeModel<Index, Value> {
        RangeModel(query, in: range, client: self)
    }
}
