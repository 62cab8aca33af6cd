extension SanguineClient {
    /// A list as an observable object for a view, the same one for all views of the list: `items`,
    /// `hasMore`, `loadNext()`.
    @MainActor
    public func pages<Item>(_ pages: Pages<Item>) -> PagesModel<Item> {
        device.models.model(pages.key) { PagesModel(source(of: pages), on: device) }
    }

    /// What is known of a list, with its age and the state of the network, at once.
    ///
    /// It waits for no network; see ``cached(_:)->Value?``.
    public func snapshot<Item>(of pages: Pages<Item>) -> PagesSnapshot<Item> {
        source(of: pages).snapshot()
    }

    /// What is known of a list at once, then every change of it.
    ///
    /// A list that is not fresh is shown and refreshed. A reader who is slow gets the newest state
    /// and not those in between. The sequence ends when the client is closed.
    public func updates<Item>(of pages: Pages<Item>) -> AsyncStream<PagesSnapshot<Item>> {
        let source = source(of: pages)
        let signals = source.signals()
        // The snapshot is taken when the reader asks, so that it is always the newest.
        return AsyncStream {
            for await _ in signals { return source.snapshot() }
            return nil
        }
    }

    /// Loads the list's first page unless it is fresh by its policy.
    ///
    /// - Throws: ``SanguineError``.
    public func load<Item>(_ pages: Pages<Item>) async throws(SanguineError) {
        let source = source(of: pages)
        _ = try await queries.value(of: source.entry)
    }

    /// Loads the list's first page although it may be fresh, and joins it with what is held.
    ///
    /// One request, however many pages are held; see <doc:Lists-And-Pages>. Joins a refresh that is
    /// under way.
    ///
    /// - Throws: ``SanguineError``. What is held stays.
    public func refresh<Item>(_ pages: Pages<Item>) async throws(SanguineError) {
        let source = source(of: pages)
        _ = try await queries.value(of: source.entry, refreshing: true)
    }

    /// Loads the page after the last one that is held; the first one, if there is none.
    ///
    /// Any number of simultaneous callers cause one request. A caller whose task is cancelled
    /// disturbs no other; when the last one is, the request is cancelled. At the list's end it
    /// returns at once.
    ///
    /// - Parameters:
    ///   - pages: The list.
    ///   - priority: What goes first when requests wait. Default: the policy's.
    /// - Throws: ``SanguineError``. What is held stays, and the next call asks for the same page.
    public func loadNext<Item>(
        _ pages: Pages<Item>,
        priority: FetchPriority? = nil
    ) async throws(SanguineError) {
        let priority = priority ?? pages.policy.priority
        try await source(of: pages).load(.next, priority: priority)
    }

    /// Loads the page before the first one that is held, if pages were dropped there.
    ///
    /// - Throws: ``SanguineError``. What is held stays.
    public func loadPrevious<Item>(_ pages: Pages<Item>) async throws(SanguineError) {
        try await source(of: pages).load(.previous, priority: pages.policy.priority)
    }

    /// Makes the list count as stale.
    ///
    /// It stays to be shown; who observes it gets a fresh one.
    public func invalidate<Item>(_ pages: Pages<Item>) {
        queries.invalidate(source(of: pages).entry)
    }

    private func source<Item>(of pages: Pages<Item>) -> PagesSource<Item> {
        let source = queries.source(of: pages)
        source.take(pages)
        return source
    }
}
