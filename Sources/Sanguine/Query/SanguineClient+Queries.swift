extension SanguineClient {
    /// Returns the cached value of a query immediately, regardless of its age; `nil` if there is
    /// none.
    ///
    /// This never waits for the network. Only the first lookup of a value that is stored on disk
    /// reads a row. The read waits for a write to the client's store that is in progress, which
    /// takes one sync of the disk. If another process writes to the folder, it waits for at most 5
    /// seconds and then returns `nil`.
    public func cached<Value>(_ query: ValueQuery<Value>) -> Value? {
        queries.cached(query)
    }

    /// Works like ``cached(_:)`` without the log of steps, for a benchmark.
    package func cachedWithoutSteps<Value>(_ query: ValueQuery<Value>) -> Value? {
        queries.cachedWithoutSteps(query)
    }

    /// Returns the cached value of a query, with its age and the state of its fetch, at once.
    public func snapshot<Value>(of query: ValueQuery<Value>) -> ValueSnapshot<Value> {
        queries.snapshot(of: query)
    }

    /// Returns the value of a query; fetches it first unless it is fresh by the query's policy.
    ///
    /// Simultaneous callers share one fetch. A cancelled caller does not disturb the others; when
    /// the last one is cancelled, the fetch is cancelled too.
    ///
    /// - Throws: ``SanguineError``. All waiting callers get the error, which is not stored: the
    ///   next caller starts a new fetch. A cached value stays; see ``cached(_:)->Value?``.
    public func value<Value>(of query: ValueQuery<Value>) async throws(SanguineError) -> Value {
        try await queries.value(of: query)
    }

    /// The state of a query: the current one at once, then one element for each change.
    ///
    /// A value that is not fresh is shown and fetched again. A slow consumer gets the newest state
    /// but not those in between. The sequence ends when the client is closed.
    public func updates<Value>(of query: ValueQuery<Value>) -> AsyncStream<ValueSnapshot<Value>> {
        queries.updates(of: query)
    }

    /// Fetches the value even if it is fresh; joins a fetch that is in progress.
    ///
    /// - Throws: The errors of ``value(of:)-(ValueQuery<Value>)``.
    @discardableResult
    public func refresh<Value>(_ query: ValueQuery<Value>) async throws(SanguineError) -> Value {
        try await queries.value(of: query, refreshing: true)
    }

    /// Marks the value as stale.
    ///
    /// The value is still shown, and fetched again if it is observed.
    ///
    /// A fetch in progress may have read the state before the change, so it does not serve later
    /// readers.
    public func invalidate<Value>(_ query: ValueQuery<Value>) {
        queries.invalidate(query)
    }

    /// Marks all values as stale whose query has the name and whose parameters begin with these.
    ///
    /// ```swift
    /// client.invalidate(all: "comments", post.id)  // on every page, in every order
    /// ```
    ///
    /// The cost does not depend on the number of values. Observed values are fetched again at once,
    /// others at their next read. Values on disk become stale as well.
    public func invalidate(all name: String, _ parameters: any QueryParameter...) {
        queries.invalidate(.prefix(QueryKey(name: name, parameters: parameters).text))
    }

    /// Marks all values as stale whose policy has the tag.
    public func invalidate(tag: String) { queries.invalidate(.tag(tag)) }

    /// Marks all values as stale whose policy has the dependency, which has just changed.
    public func dependencyChanged(_ name: String) { queries.invalidate(.dependency(name)) }

    /// Marks all values as stale.
    public func invalidateAll() {
        queries.invalidate(.everything)
    }

    /// Stores a value as if it had just been fetched, for example one from another response.
    ///
    /// The value is visible when this method returns, and a fetch in progress does not overwrite
    /// it. The balance and the quotas cannot be set, because they follow the server and the calls
    /// in flight.
    ///
    /// - Returns: Whether the value was stored; `false` for a value that the client derives, and
    ///   after ``close()``.
    @discardableResult
    public func set<Value>(_ value: Value, for query: ValueQuery<Value>) -> Bool {
        guard !query.erased.isSourced else { return false }
        return queries.set(value, for: query)
    }

    /// Changes the cached value in place; does nothing if there is none.
    ///
    /// The value keeps its age. A fetch in progress does not overwrite the change; if the value was
    /// stale, it is fetched once more.
    ///
    /// The closure changes the value from the backend, without the effects of mutations that are
    /// not settled. Those effects are then applied to the result.
    ///
    /// Simultaneous changes are applied one after the other, so the closure may be called again.
    ///
    /// - Returns: The visible value: the new value with the effects; `nil` if there was none.
    @discardableResult
    public func update<Value>(_ query: ValueQuery<Value>, _ body: (inout Value) -> Void) -> Value? {
        guard !query.erased.isSourced else { return nil }
        return queries.update(query, body)
    }

    // Deprecated and not unavailable, because the compiler silently prefers the generic methods to
    // unavailable ones.

    /// Not available for the balance; see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the balance follows the server and the running calls."
    )
    @discardableResult
    public func set(_ value: Balance, for query: ValueQuery<Balance>) -> Bool { false }

    /// Not available for the quotas; see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the quotas follow the server and the running calls."
    )
    @discardableResult
    public func set(_ value: [Quota], for query: ValueQuery<[Quota]>) -> Bool { false }

    /// Not available for the balance; see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the balance follows the server and the running calls."
    )
    @discardableResult
    public func update(
        _ query: ValueQuery<Balance>,
        _ body: (inout Balance) -> Void
    ) -> Balance? { nil }

    /// Not available for the quotas; see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the quotas follow the server and the running calls."
    )
    @discardableResult
    public func update(
        _ query: ValueQuery<[Quota]>,
        _ body: (inout [Quota]) -> Void
    ) -> [Quota]? { nil }

    /// The query as an observable object for a view.
    ///
    /// All views of the query share it.
    @MainActor
    public func model<Value>(_ query: ValueQuery<Value>) -> ValueModel<Value> {
        services.models.model(query.key) { ValueModel(query, on: services) }
    }

    /// Calls a closure with the current state and after each change, until the token is released.
    ///
    /// ```swift
    /// let following = client.observe(.balance) { state in badge.show(state.value?.available) }
    /// ```
    ///
    /// Use this outside of views and tasks: a thousand observers cost a thousand calls, and no task
    /// has to be resumed. Calls are made in the order of the changes, one at a time, without a
    /// lock, on the thread that made the change. The closure must return quickly, and may read and
    /// write through the client. A value that is not fresh is fetched, as with
    /// ``updates(of:)->AsyncStream<ValueSnapshot<Value>>``.
    ///
    /// - Parameters:
    ///   - query: The query to observe.
    ///   - tell: The closure to call.
    /// - Returns: A token that keeps the observation alive.
    public func observe<Value>(
        _ query: ValueQuery<Value>,
        _ tell: @escaping @Sendable (ValueSnapshot<Value>) -> Void
    ) -> ObservationToken {
        queries.follow(query, tell)
    }

    // MARK: - Priorities

    /// Returns the value, and fetches it with this priority unless it is fresh.
    ///
    /// The priority of a fetch in flight is raised, never lowered: if it is queued, it moves to the
    /// position that it would have had.
    ///
    /// - Parameters:
    ///   - query: The query.
    ///   - priority: The priority, instead of the policy's ``Policy/priority``.
    /// - Returns: The value.
    /// - Throws: The errors of ``value(of:)-(ValueQuery<Value>)``.
    public func value<Value>(
        of query: ValueQuery<Value>,
        priority: FetchPriority
    ) async throws(SanguineError) -> Value {
        try await queries.value(of: query, priority: priority)
    }

    /// Fetches the value with this priority, even if it is fresh.
    ///
    /// - Parameters:
    ///   - query: The query.
    ///   - priority: The priority, instead of the policy's ``Policy/priority``.
    /// - Returns: The value.
    /// - Throws: The errors of ``value(of:)-(ValueQuery<Value>)``.
    @discardableResult
    public func refresh<Value>(
        _ query: ValueQuery<Value>,
        priority: FetchPriority
    ) async throws(SanguineError) -> Value {
        try await queries.value(of: query, refreshing: true, priority: priority)
    }

    /// Fetches a value that is likely to be needed soon; returns at once.
    ///
    /// A fresh value is not fetched. Prefetches use few slots and come last; another read of the
    /// same value raises the fetch. Failures are not reported: the read that needs the value
    /// fetches it again. The fetch ends with the client, which it does not keep alive.
    public func prefetch<Value>(_ query: ValueQuery<Value>) {
        // Captures only the part of the client that fetches, so that closing the client ends the
        // fetch.
        Task(priority: .utility) { [queries] in
            _ = try? await queries.value(of: query, priority: .prefetch)
        }
    }

    // MARK: - Ids

    /// Returns a query of an id as an observable object for a view, which follows the id.
    ///
    /// ```swift
    /// let track = client.model(of: id) { .track($0) }
    /// ```
    ///
    /// When the backend assigns a real id for a temporary one, see
    /// ``MutationContext/replaceID(_:by:)``, the model switches to the query of the real id. Until
    /// that query has a value, the former value stays.
    ///
    /// - Parameters:
    ///   - id: The id, temporary or not.
    ///   - query: Creates the query of an id.
    /// - Returns: The model, which all views share.
    @MainActor
    public func model<Value>(
        of id: String,
        _ query: @escaping (String) -> ValueQuery<Value>
    ) -> ValueModel<Value> {
        let model = model(query(id))
        model.follow(FollowedID(id, replaced: replaced, make: query))
        return model
    }

    /// Returns a list that depends on an id as an observable object for a view, which follows the
    /// id.
    ///
    /// Like ``model(of:_:)``, for example for the comments on a post that the backend has not
    /// created yet.
    ///
    /// - Parameters:
    ///   - id: The id, temporary or not.
    ///   - pages: Creates the list of an id.
    /// - Returns: The model, which all views share.
    @MainActor
    public func model<Item>(
        of id: String,
        _ pages: @escaping (String) -> ListQuery<Item>
    ) -> ListModel<Item> {
        let model = self.model(pages(id))
        let source = { [queries] (id: String) in queries.source(of: pages(id)) }
        model.follow(FollowedID(id, replaced: replaced, make: source))
        return model
    }

    private var replaced: (String) -> String? {
        { [weak users] id in users?.current.mutations.realID(of: id) }
    }
}
