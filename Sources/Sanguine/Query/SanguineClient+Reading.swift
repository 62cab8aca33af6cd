extension SanguineClient {
    /// What is known of a query, at once and whatever its age; `nil` if it never had a value.
    ///
    /// It waits for no network. Only the first look-up of a value kept on disk reads one row; that
    /// waits for a write of the client's store that is under way, which is one sync of the disk,
    /// and if another process writes to the folder at most 5 seconds, after which it gives `nil`.
    public func cached<Value>(_ query: ValueQuery<Value>) -> Value? {
        queries.cached(query)
    }

    /// What is known of a query, with its age and the state of the network, at once.
    public func snapshot<Value>(of query: ValueQuery<Value>) -> ValueSnapshot<Value> {
        queries.snapshot(of: query)
    }

    /// The value, fetched first unless it is fresh by the query's policy.
    ///
    /// Any number of simultaneous callers cause one fetch. A caller whose task is cancelled
    /// disturbs no other; when the last one is, the fetch is cancelled.
    ///
    /// - Throws: ``SanguineError``. An error reaches all who wait, and is not kept: the next caller
    ///   causes a new fetch. What was cached stays; see ``cached(_:)->Value?``.
    public func value<Value>(of query: ValueQuery<Value>) async throws(SanguineError) -> Value {
        try await queries.value(of: query)
    }

    /// What is known of a query at once, then every change of it.
    ///
    /// A value that is not fresh is shown and asked for again. A reader who is slow gets the newest
    /// state and not those in between. The sequence ends when the client is closed.
    public func updates<Value>(of query: ValueQuery<Value>) -> AsyncStream<ValueSnapshot<Value>> {
        queries.updates(of: query)
    }

    /// Fetches the value although it may be fresh; joins a fetch that is under way.
    ///
    /// - Throws: As ``value(of:)-(ValueQuery<Value>)`` does.
    @discardableResult
    public func refresh<Value>(_ query: ValueQuery<Value>) async throws(SanguineError) -> Value {
        try await queries.value(of: query, refreshing: true)
    }

    /// Makes the value count as stale.
    ///
    /// It stays to be shown; who observes it gets a new one.
    ///
    /// A fetch that is under way may be from before the change: readers who ask from now on are not
    /// served by it.
    public func invalidate<Value>(_ query: ValueQuery<Value>) {
        queries.invalidate(query)
    }

    /// Makes every value stale whose query has the name and begins with the parameters.
    ///
    /// ```swift
    /// client.invalidate(all: "comments", post.id)  // on every page, in every order
    /// ```
    ///
    /// It costs the same for one value and for ten thousand. What is observed is fetched again at
    /// once, what is not when it is next asked for; on disk too.
    public func invalidate(all name: String, _ parameters: any QueryParameter...) {
        queries.invalidate(.prefix(QueryKey(name: name, parameters: parameters).text))
    }

    /// Makes every value stale whose policy has the tag.
    public func invalidate(tag: String) { queries.invalidate(.tag(tag)) }

    /// Makes every value stale whose policy depends on the thing, which has just changed.
    public func dependencyChanged(_ name: String) { queries.invalidate(.dependency(name)) }

    /// Makes every value stale.
    public func invalidateAll() {
        queries.invalidate(.everything)
    }

    /// Puts a value into the cache as if it had just been fetched: one that another answer brought.
    ///
    /// It is visible when this returns, and a fetch that is under way does not overwrite it. The
    /// balance and the quotas cannot be set: they follow the server and the calls in flight.
    ///
    /// - Returns: Whether it was taken: not for a value that the client derives, and not after
    ///   ``close()``.
    @discardableResult
    public func set<Value>(_ value: Value, for query: ValueQuery<Value>) -> Bool {
        guard !query.erased.isSourced else { return false }
        return queries.set(value, for: query)
    }

    /// Changes the cached value in place; does nothing if there is none.
    ///
    /// It stays as old as it was. A fetch that is under way does not overwrite the change; if the
    /// value was stale, it is fetched once more.
    ///
    /// What is changed is the value that the backend gave: the effects of mutations that are not
    /// settled are no part of what the body is given, and are shown over what it makes.
    ///
    /// Of two simultaneous changes each sees the other's or is seen by it; the body may be called
    /// again for that.
    ///
    /// - Returns: What is shown then: the new value with those effects. `nil` if there was none.
    @discardableResult
    public func update<Value>(_ query: ValueQuery<Value>, _ body: (inout Value) -> Void) -> Value? {
        guard !query.erased.isSourced else { return nil }
        return queries.update(query, body)
    }

    // Deprecated, and not unavailable: the compiler silently prefers the generic methods to
    // unavailable ones.

    /// Not for the balance: see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the balance follows the server and the calls in flight."
    )
    @discardableResult
    public func set(_ value: Balance, for query: ValueQuery<Balance>) -> Bool { false }

    /// Not for the quotas: see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the quotas follow the server and the calls in flight."
    )
    @discardableResult
    public func set(_ value: [Quota], for query: ValueQuery<[Quota]>) -> Bool { false }

    /// Not for the balance: see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the balance follows the server and the calls in flight."
    )
    @discardableResult
    public func update(
        _ query: ValueQuery<Balance>,
        _ body: (inout Balance) -> Void
    ) -> Balance? { nil }

    /// Not for the quotas: see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the quotas follow the server and the calls in flight."
    )
    @discardableResult
    public func update(
        _ query: ValueQuery<[Quota]>,
        _ body: (inout [Quota]) -> Void
    ) -> [Quota]? { nil }

    /// The query as an observable object for a view; the same one for all views of the query.
    @MainActor
    public func model<Value>(_ query: ValueQuery<Value>) -> ValueModel<Value> {
        device.models.model(query.key) { ValueModel(query, on: device) }
    }

    /// Calls a closure with the present state and after every change, until the result is released.
    ///
    /// ```swift
    /// let following = client.observe(.balance) { state in badge.show(state.value?.available) }
    /// ```
    ///
    /// For what is neither a view nor a task: a thousand observers cost a thousand calls, and no
    /// task has to wake. Calls come in the order of the changes, one at a time, under no lock, on
    /// the thread that made the change; so the closure returns at once, and may read and write
    /// through the client. A value that is not fresh is asked for, as it is with
    /// ``updates(of:)->AsyncStream<ValueSnapshot<Value>>``.
    ///
    /// - Parameters:
    ///   - query: What to observe.
    ///   - tell: What to call.
    /// - Returns: What keeps the observation alive.
    public func observe<Value>(
        _ query: ValueQuery<Value>,
        _ tell: @escaping @Sendable (ValueSnapshot<Value>) -> Void
    ) -> ObservationToken {
        queries.follow(query, tell)
    }
}

extension QueryCache {
    /// Calls the closure with the present state and after every change, until the result is
    /// released.
    func follow<Value>(
        _ query: ValueQuery<Value>,
        _ tell: @escaping @Sendable (ValueSnapshot<Value>) -> Void
    ) -> ObservationToken {
        let number = observe(query, .init(tell: tell, finish: {}))
        return ObservationToken { [weak self] in
            if let number { self?.unobserve(query, number) }
        }
    }
}
