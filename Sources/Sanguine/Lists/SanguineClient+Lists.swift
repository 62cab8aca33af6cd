extension SanguineClient {
    /// A list as an observable object for a view, the same one for all views of the list: `items`,
    /// `hasMore`, `loadNext()`.
    @MainActor
    public func model<Item>(_ list: ListQuery<Item>) -> ListModel<Item> {
        device.models.model(list.key) { ListModel(source(of: list), on: device) }
    }

    /// What is known of a list, with its age and the state of the network, at once.
    ///
    /// It waits for no network; see ``cached(_:)->Value?``.
    public func snapshot<Item>(of list: ListQuery<Item>) -> ListSnapshot<Item> {
        source(of: list).snapshot()
    }

    /// What is known of a list at once, then every change of it.
    ///
    /// A list that is not fresh is shown and refreshed. A reader who is slow gets the newest state
    /// and not those in between. The sequence ends when the client is closed.
    public func updates<Item>(of list: ListQuery<Item>) -> AsyncStream<ListSnapshot<Item>> {
        let source = source(of: list)
        let (signals, notified) = (source.signals(), LastNotified<ListSnapshot<Item>>())
        // The snapshot is taken when the reader asks, so that it is always the newest.
        return AsyncStream {
            for await _ in signals {
                if let snapshot = notified.take(source.snapshot()) { return snapshot }
            }
            return nil
        }
    }

    /// The rows of a list that are known, at once; `nil` if none were ever loaded.
    ///
    /// It waits for no network; see ``cached(_:)->Value?``.
    public func cached<Item>(_ list: ListQuery<Item>) -> [Item]? {
        let snapshot = snapshot(of: list)
        return snapshot.asOf == nil && snapshot.items.isEmpty ? nil : snapshot.items
    }

    /// The rows of a list; its first page is loaded first unless it is fresh by its policy.
    ///
    /// - Returns: All rows that are held, those of later pages among them.
    /// - Throws: ``SanguineError``.
    @discardableResult
    public func value<Item>(of list: ListQuery<Item>) async throws(SanguineError) -> [Item] {
        let source = source(of: list)
        _ = try await queries.value(of: source.entry)
        return source.snapshot().items
    }

    /// Loads the list's first page although it may be fresh, and joins it with what is held.
    ///
    /// One request, however many pages are held; see <doc:Lists-And-Pages>. Joins a refresh that is
    /// under way.
    ///
    /// - Returns: All rows that are held then.
    /// - Throws: ``SanguineError``. What is held stays.
    @discardableResult
    public func refresh<Item>(_ list: ListQuery<Item>) async throws(SanguineError) -> [Item] {
        let source = source(of: list)
        try await source.refresh()
        return source.snapshot().items
    }

    /// Loads the page after the last one that is held; the first one, if there is none.
    ///
    /// Any number of simultaneous callers cause one request. A caller whose task is cancelled
    /// disturbs no other; when the last one is, the request is cancelled. At the list's end it
    /// returns at once.
    ///
    /// - Parameters:
    ///   - list: The list.
    ///   - priority: What goes first when requests wait. Default: the policy's.
    /// - Throws: ``SanguineError``. What is held stays, and the next call asks for the same page.
    public func loadNext<Item>(
        _ list: ListQuery<Item>,
        priority: FetchPriority? = nil
    ) async throws(SanguineError) {
        let priority = priority ?? list.policy.priority
        try await source(of: list).load(.next, priority: priority)
    }

    /// Loads the page before the first one that is held, if pages were dropped there.
    ///
    /// - Throws: ``SanguineError``. What is held stays.
    public func loadPrevious<Item>(_ list: ListQuery<Item>) async throws(SanguineError) {
        try await source(of: list).load(.previous, priority: list.policy.priority)
    }

    /// Sets a list's first page as if it had just been loaded: the list begins anew with it.
    ///
    /// What is under way for the list begins anew as well, so that it does not overwrite it.
    ///
    /// - Returns: Whether it was taken: not after ``close()``.
    @discardableResult
    public func set<Item>(_ page: ListPage<Item>, for list: ListQuery<Item>) -> Bool {
        source(of: list).set(page)
    }

    /// Sets all rows of a list as if they had just been loaded; none follow.
    ///
    /// Of a list that has more, set its first page: ``set(_:for:)-(ListPage<Item>,_)``.
    ///
    /// - Returns: Whether it was taken: not after ``close()``.
    @discardableResult
    public func set<Item>(_ items: [Item], for list: ListQuery<Item>) -> Bool {
        source(of: list).set(ListPage(items: items))
    }

    /// Changes the rows of a list in place; does nothing if none were loaded.
    ///
    /// ```swift
    /// client.update(.comments(of: 1)) { $0.insert(pushed, at: 0) }
    /// ```
    ///
    /// The rows are as old as they were, and are those of the backend: the effects of mutations
    /// that are not settled are no part of what the body is given, and are shown over what it
    /// makes. Of two rows of one id the first stays. What is under way for the list begins anew, up
    /// to ``PageLimits/restarts`` times, so that it does not overwrite the change. The body may be
    /// called again, if another change comes in between.
    ///
    /// - Returns: The rows that are shown then; `nil` if there were none to change.
    @discardableResult
    public func update<Item>(
        _ list: ListQuery<Item>,
        _ body: (inout [Item]) -> Void
    ) -> [Item]? {
        source(of: list).update(body)
    }

    /// Makes the list count as stale.
    ///
    /// It stays to be shown; who observes it gets a fresh one.
    public func invalidate<Item>(_ list: ListQuery<Item>) {
        queries.invalidate(source(of: list).entry)
    }

    private func source<Item>(of list: ListQuery<Item>) -> ListSource<Item> {
        let source = queries.source(of: list)
        source.take(list)
        return source
    }
}
