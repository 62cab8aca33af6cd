extension SanguineClient {
    /// Returns a list as an observable object for a view: `items`, `hasMore`, `loadNext()`.
    ///
    /// All views of the list share it.
    @MainActor
    public func model<Item>(_ list: ListQuery<Item>) -> ListModel<Item> {
        services.models.model(list.key) {
            let own = list.own.map { OwnRecordFollowing($0, of: users) }
            return ListModel(source(of: list), own: own, on: services)
        }
    }

    /// Returns the cached rows of a list, with their age and the state of its loads, at once.
    ///
    /// This never waits for the network; see ``cached(_:)->Value?``.
    public func snapshot<Item>(of list: ListQuery<Item>) -> ListSnapshot<Item> {
        source(of: list).snapshot()
    }

    /// The state of a list: the current one at once, then one element for each change.
    ///
    /// A list that is not fresh is shown and refreshed. A slow consumer gets the newest state but
    /// not those in between. The sequence ends when the client is closed.
    public func updates<Item>(of list: ListQuery<Item>) -> AsyncStream<ListSnapshot<Item>> {
        let source = source(of: list)
        let (signals, notified) = (source.signals(), LastNotified<ListSnapshot<Item>>())
        // The snapshot is taken when the consumer asks, so that it is always the newest.
        return AsyncStream {
            for await _ in signals {
                if let snapshot = notified.update(source.snapshot()) { return snapshot }
            }
            return nil
        }
    }

    /// Returns the cached rows of a list at once; `nil` if none were ever loaded.
    ///
    /// This never waits for the network; see ``cached(_:)->Value?``.
    public func cached<Item>(_ list: ListQuery<Item>) -> [Item]? {
        let snapshot = snapshot(of: list)
        return snapshot.asOf == nil && snapshot.items.isEmpty ? nil : snapshot.items
    }

    /// Returns the rows of a list; loads its first page first unless it is fresh by its policy.
    ///
    /// - Returns: All held rows, including those of later pages.
    /// - Throws: ``SanguineError``.
    @discardableResult
    public func value<Item>(of list: ListQuery<Item>) async throws(SanguineError) -> [Item] {
        let source = source(of: list)
        _ = try await queries.value(of: source.entry)
        return source.snapshot().items
    }

    /// Loads the list's first page even if it is fresh, and merges it with the held rows.
    ///
    /// This takes one request, however many pages are held; see <doc:Lists-And-Pages>. It joins a
    /// refresh in progress.
    ///
    /// - Returns: All rows that are held then.
    /// - Throws: ``SanguineError``. The held rows stay.
    @discardableResult
    public func refresh<Item>(_ list: ListQuery<Item>) async throws(SanguineError) -> [Item] {
        let source = source(of: list)
        try await source.refresh()
        return source.snapshot().items
    }

    /// Loads the page after the last held one; the first page, if there is none.
    ///
    /// Simultaneous callers share one request. A cancelled caller does not disturb the others; when
    /// the last one is cancelled, the request is cancelled too. At the list's end, this returns at
    /// once.
    ///
    /// - Parameters:
    ///   - list: The list.
    ///   - priority: The priority while requests wait. Default: the policy's.
    /// - Throws: ``SanguineError``. The held rows stay, and the next call requests the same page.
    public func loadNext<Item>(
        _ list: ListQuery<Item>,
        priority: FetchPriority? = nil
    ) async throws(SanguineError) {
        let priority = priority ?? list.policy.priority
        try await source(of: list).load(.next, priority: priority)
    }

    /// Loads the page before the first held one, if pages were dropped there.
    ///
    /// - Throws: ``SanguineError``. The held rows stay.
    public func loadPrevious<Item>(_ list: ListQuery<Item>) async throws(SanguineError) {
        try await source(of: list).load(.previous, priority: list.policy.priority)
    }

    /// Sets a list's first page as if it had just been loaded; the list starts over with it.
    ///
    /// Loads in progress start over as well, so that they do not overwrite the page.
    ///
    /// - Returns: Whether the page was stored; `false` after ``close()``.
    @discardableResult
    public func set<Item>(_ page: ListPage<Item>, for list: ListQuery<Item>) -> Bool {
        source(of: list).set(page)
    }

    /// Sets all rows of a list as if they had just been loaded; no rows follow them.
    ///
    /// For a list with more rows, set its first page: ``set(_:for:)-(ListPage<Item>,_)``.
    ///
    /// - Returns: Whether the rows were stored; `false` after ``close()``.
    @discardableResult
    public func set<Item>(_ items: [Item], for list: ListQuery<Item>) -> Bool {
        source(of: list).set(ListPage(items: items))
    }

    /// Changes the rows of a list in place; does nothing if none are loaded.
    ///
    /// ```swift
    /// client.update(.comments(of: 1)) { $0.insert(pushed, at: 0) }
    /// ```
    ///
    /// The rows keep their age. The closure changes the rows from the backend, without the effects
    /// of mutations that are not settled. Those effects are then applied to the result. Of two rows
    /// with the same id, the first one stays. Loads in progress start over, up to
    /// ``PageLimits/restarts`` times, so that they do not overwrite the change. The closure may be
    /// called again if another change comes in between.
    ///
    /// - Returns: The visible rows; `nil` if there were none to change.
    @discardableResult
    public func update<Item>(
        _ list: ListQuery<Item>,
        _ body: (inout [Item]) -> Void
    ) -> [Item]? {
        source(of: list).update(body)
    }

    /// Marks the list as stale.
    ///
    /// The list is still shown, and refreshed if it is observed.
    public func invalidate<Item>(_ list: ListQuery<Item>) {
        queries.invalidate(source(of: list).entry)
    }

    private func source<Item>(of list: ListQuery<Item>) -> ListSource<Item> {
        let source = queries.source(of: list)
        source.replaceDeclaration(list)
        return source
    }
}
