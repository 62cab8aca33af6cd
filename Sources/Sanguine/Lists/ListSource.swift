import Foundation
import SanguineModel
import Synchronization

/// The source of a list's entry: the visible rows and the loads in progress.
///
/// ``ListState`` decides, ``PartFetcher`` acts. In the cache, the list is one entry, whose fetch
/// refreshes the list. So the cache handles freshness, invalidation, observers, effects, polling,
/// the disk and users. Further pages are added to that entry.
///
/// Invariant: the entry holds the list from its beginning, or nothing. If the list's first pages
/// were dropped, a refresh stores only the beginning.
///
/// Mutable state: `declaration`, protected by its mutex, which is never held during another call.
final class ListSource<Item: PageItem>: PartedSource where Item.ID: Sendable {
    typealias State = ListState<Item>
    typealias Observed = (state: ListSnapshot<Item>, rows: PageChange<Item>, span: PageSpan)
    typealias Observer = TypedEntry<PageList<Item>>.Observer

    /// The declaration of the list, and its entry in the cache.
    private struct Declaration: Sendable {
        let pages: ListQuery<Item>
        let entry: ValueQuery<PageList<Item>>
    }

    let queries: QueryCache
    private let parts: PartFetcher<State>
    private let declaration: Mutex<Declaration>
    private var entries: Entries { queries.entries }

    init(_ pages: ListQuery<Item>, in queries: QueryCache) {
        self.queries = queries
        parts = PartFetcher(State(pageSize: pages.size), of: pages.key, pages.policy, in: queries)
        let entry = Self.entry(of: pages, queries)
        declaration = Mutex(Declaration(pages: pages, entry: entry))
        parts.onStart { [weak self] in await self?.runRequest($0, $1, $2) }
    }

    deinit { save(onlyIfWorthwhile: false) }

    /// The latest declaration of the list.
    var pages: ListQuery<Item> { declaration.withLock { $0.pages } }

    /// The list as a cache entry; fetching it refreshes the list.
    var entry: ValueQuery<PageList<Item>> { declaration.withLock { $0.entry } }

    /// Replaces the declaration; later fetches use it.
    func replaceDeclaration(_ pages: ListQuery<Item>) {
        let next = Declaration(pages: pages, entry: Self.entry(of: pages, queries))
        declaration.withLock { $0 = next }
    }

    private static func entry(
        of pages: ListQuery<Item>,
        _ queries: QueryCache,
        priority: FetchPriority? = nil
    ) -> ValueQuery<PageList<Item>> {
        ValueQuery(
            pages.name,
            key: pages.key,
            // The refresh retries its own requests, so the entry's fetch is not retried as a whole.
            policy: pages.policy.retry(.never).priority(priority ?? pages.policy.priority),
            base: pages.base,
            partsDeclaration: pages.declaration
        ) { [weak queries] request in
            request.fetchContext.settle()
            guard let queries else { throw SanguineError.closed }
            return try await queries.source(of: pages).refreshed(for: request.fetchContext)
        }
    }

    // MARK: - Reading

    /// Restores the list from the cache's entry, if it is not loaded.
    func restore() {
        guard !parts.withState({ $0.isLoaded }), let (list, owner) = entries.base(of: entry) else {
            return
        }
        parts.apply(for: owner) { $0.restore(list) ? State.Actions(hasNewBase: true) : nil }
    }

    /// Returns the state of the list at once.
    func snapshot() -> ListSnapshot<Item> {
        let (state, rows, _) = changes(since: nil)
        var snapshot = state
        rows.apply(to: &snapshot.items)
        return snapshot
    }

    /// Returns the state without the rows, the change of the rows since a span, and their current
    /// span.
    func changes(since span: PageSpan?) -> Observed {
        restore()
        let status = queries.snapshot(of: entry.erased)
        // Read before the rows: an effect ends when it is merged into them.
        let effects = entries.effects(on: entry.key)
        let (look, list) = parts.withState { state in
            let look = (Self.snapshot(of: state, status), state.change(since: span), state.span)
            return (look, state.list)
        }
        guard let effects else { return look }
        let rows = effects.applied(to: .of(list)).value(as: PageList<Item>.self)?.rows
        return (look.0, .all(rows ?? list.rows), PageSpan(era: .max))
    }

    private static func snapshot(
        of state: State,
        _ status: Entry.VisibleState
    ) -> ListSnapshot<Item> {
        var snapshot = ListSnapshot<Item>()
        snapshot.hasMore = state.hasMore
        snapshot.hasPrevious = state.hasPrevious
        snapshot.asOf = state.isLoaded ? state.asOf ?? status.asOf : nil
        snapshot.error = status.error ?? state.headError
        snapshot.nextError = state.tailError
        // The rows of a refresh are available before the entry's fetch has ended.
        let isAnswered = status.currentFetch.map(state.hasAnswered) ?? false
        let isRefreshing = state.isLoading(.refresh) || status.isFetching && !isAnswered
        let isLoadingMore = state.isLoading(.next) || state.isLoading(.previous)
        snapshot.phase =
            switch (state.isLoaded, isRefreshing) {
            case (false, true): .loading
            case (false, false): snapshot.error == nil ? .empty : .failed
            case (true, true): .refreshing
            case (true, false): isLoadingMore ? .loadingMore : .ready
            }
        return snapshot
    }

    /// A signal at once and at each change of ``snapshot()``; one signal may stand for several
    /// changes.
    ///
    /// A consumer observes the list, which is refreshed if it is not fresh.
    func signals() -> AsyncStream<Void> {
        let (stream, signal) = AsyncStream.makeStream(
            of: Void.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let observer = Observer(tell: { _ in signal.yield() }, finish: { signal.finish() })
        if let end = observe(observer) {
            signal.onTermination = { _ in end() }
        } else {
            signal.finish()
        }
        return stream
    }

    /// Notifies an observer at once and at each change of the result of ``changes(since:)``.
    ///
    /// - Parameters:
    ///   - observer: The observer.
    ///   - priority: The priority of its fetches. Default: the policy's.
    /// - Returns: A closure that ends the observation, or `nil` if the client is closed.
    func observe(
        _ observer: Observer,
        priority: FetchPriority? = nil
    ) -> (@Sendable () -> Void)? {
        let entry = Self.entry(of: pages, queries, priority: priority)
        guard let number = queries.observe(entry, observer) else { return nil }
        return { [weak queries] in queries?.unobserve(entry, number) }
    }

    /// The number of waiting callers.
    var waiterCount: Int { parts.withState { $0.waiterCount } }

    /// The load at the list's head that failed last and should be retried.
    var failedHeadLoad: ListLoad {
        let hasFailedToRefresh = queries.snapshot(of: entry).error != nil
        return hasFailedToRefresh ? .refresh : parts.withState { $0.failedHeadLoad } ?? .refresh
    }

    // MARK: - Loading

    /// Loads the next or the previous page; without a list, its first page.
    func load(_ load: ListLoad, priority: FetchPriority) async throws(SanguineError) {
        restore()
        guard parts.withState({ $0.isLoaded }) else {
            _ = try await queries.value(of: entry, priority: priority)
            return
        }
        if priority != .prefetch { queries.allowSignIn() }
        try await wait(for: load, priority: RequestPriority(priority))
        save(onlyIfWorthwhile: true)
    }

    /// Refreshes the list even if it is fresh, or joins a refresh in progress.
    ///
    /// If the fetch in progress has already delivered its rows, another fetch follows it.
    nonisolated(nonsending) func refresh(
        priority: FetchPriority? = nil
    ) async throws(SanguineError) {
        let entry = entry.erased
        let answered = parts.withState { $0.answeredFetch }
        let isEnding = queries.snapshot(of: entry).currentFetch.map { $0 <= answered } ?? false
        var answer = await queries.answer(to: entry, refreshing: true, priority: priority)
        if isEnding, parts.withState({ $0.answeredFetch }) == answered {
            answer = await queries.answer(to: entry, refreshing: true, priority: priority)
        }
        _ = try answer.get()
    }

    /// Refreshes the list and returns all of it.
    ///
    /// The cache calls this to fetch its entry.
    ///
    /// Raising the priority of the fetch raises that of the refresh.
    func refreshed(for fetchContext: FetchContext) async throws(SanguineError) -> PageList<Item> {
        let priority = fetchContext.priority
        let observer = priority.observe { [weak self] wanted in
            self?.parts.apply { $0.raise(.refresh, to: wanted) }
        }
        defer { priority.forget(observer) }
        try await wait(for: .refresh, priority: priority, fetch: fetchContext.number)
        return parts.withState { state in
            guard state.hasPrevious else { return state.list }
            var list = state.beginning
            (list.folded, list.possiblyApplied) = (state.list.folded, state.list.possiblyApplied)
            list.overtaking = state.list.overtaking
            list.revision = state.list.revision
            return list
        }
    }

    private func wait(
        for load: ListLoad,
        priority: RequestPriority,
        fetch: UInt64 = 0
    ) async throws(SanguineError) {
        try await parts.wait { _ in
        } join: { state, _, waiter in
            // The current priority: later raises reach the caller, because it has joined.
            state.join(load, waiter: waiter, priority: priority.current, fetch: fetch)
        }
    }

    /// Reports that a row is visible.
    ///
    /// - Returns: Whether the next page should be loaded ahead.
    func show(_ id: Item.ID) -> Bool {
        parts.apply { $0.show(id) }
        return parts.withState { $0.isNearEnd(id) && $0.tailError == nil && !$0.isLoading(.next) }
    }

    /// Sets the first row that the reader sees.
    func setAnchor(_ id: Item.ID?) { parts.withState { $0.setAnchor(id) } }

    /// Stores the rows that were loaded since the last save in the cache.
    ///
    /// The cost of encoding a list grows with its length. So a growing list is stored when it has
    /// grown by a quarter, or has doubled if the list is only measured; and when its source is
    /// released.
    func save(onlyIfWorthwhile: Bool) {
        let (pages, entry) = declaration.withLock { ($0.pages, $0.entry) }
        let isOnDisk = pages.policy.tier == .onDisk
        queries.extend(entry) {
            $0.estimatedBytes
        } _: { [parts] saved, owner in
            let held = saved.rows.count
            let step = onlyIfWorthwhile ? max(pages.size, isOnDisk ? held / 4 : held) : .min
            guard parts.cacheScope === owner else { return nil }
            return parts.withState { state in
                let list = state.list
                // An older list never replaces a newer one.
                guard state.isLoaded, !state.hasPrevious, list.revision > saved.revision,
                    list.rows.count - held >= step
                else { return nil }
                return list
            }
        }
    }

    // MARK: - Changes by the app

    /// Changes the rows in place; they keep their age.
    ///
    /// - Parameters:
    ///   - cacheScope: The cache scope of the rows; nothing is changed if another user is current.
    ///     Default: any.
    ///   - body: App code that changes the rows, without the effects of operations.
    /// - Returns: The visible rows; `nil` if the list is not loaded.
    func update(for cacheScope: CacheScope? = nil, _ body: (inout [Item]) -> Void) -> [Item]? {
        restore()
        let isDone = parts.transact(for: cacheScope) { state -> PageList<Item>? in
            guard state.isLoaded else { return nil }
            var rows = state.list.rows
            body(&rows)
            return state.list.arranged(rows)
        } event: { state, list in
            let actions = state.apply(list)
            return Self.numbered(&state, actions)
        }
        guard isDone else { return nil }
        save(onlyIfWorthwhile: false)
        return snapshot().items
    }

    /// Replaces all rows by a page, as if it had just been loaded.
    ///
    /// - Returns: Whether the page was stored.
    func set(_ page: ListPage<Item>) -> Bool {
        let now = queries.clock.now()
        let isTaken = parts.apply { state in
            var list = PageList<Item>(round: state.list.round + 1)
            list.runs = [PageRun(start: nil, count: 0, round: list.round)]
            list = list.arranged(page.items)
            list.next = page.following
            let actions = state.set(list, at: now)
            return Self.numbered(&state, actions)
        }
        guard isTaken else { return false }
        let (list, owner) = (parts.withState { $0.list }, parts.cacheScope)
        return queries.set(list, for: entry, in: owner)
    }

    // MARK: - Start and end

    func switchUser(to user: CacheScope, device: CacheScope?) -> Delivery {
        parts.switchUser(to: user, device: device)
    }

    var isUnderWay: Bool { parts.isUnderWay }

    func close() {
        save(onlyIfWorthwhile: false)
        parts.close()
    }
}

// MARK: - Requests

extension ListSource {
    /// Sends a request and handles its result.
    private func runRequest(
        _ request: ListRequest,
        _ priority: RequestPriority,
        _ cacheScope: CacheScope
    ) async {
        let pages = pages
        let page = PageRequest(cursor: request.cursor, limit: request.limit)
        let plan = FetchPlan(
            name: pages.name,
            policy: pages.policy.priority(request.priority),
            base: pages.base
        )
        let moment = entries.count()
        if cacheScope.fault != .foldsTooEarly {
            parts.withState { $0.sent(request.number, at: moment) }
        }
        let result = await cacheScope.attempts.fetch(plan, priority: priority) {
            try await pages.fetch($0, page)
        }
        switch result {
        case .success(let page):
            let now = queries.clock.now()
            parts.withState { $0.arrived(request.number, at: now) }
            mergeEffects()
            complete(request, page, cacheScope)
        case .failure(let error):
            let isExpired = request.cursor != nil && pages.isExpired(error, answering: page)
            parts.apply(for: cacheScope) { state in
                let actions = state.fail(request.number, error, isCursorExpired: isExpired)
                return Self.numbered(&state, actions)
            }
        }
        mergeEffects()
        if request.load == .review { save(onlyIfWorthwhile: false) }
    }

    /// Stores a page, adjusted for the effects on its rows.
    private func complete(_ request: ListRequest, _ page: ListPage<Item>, _ cacheScope: CacheScope)
    {
        parts.transact(for: cacheScope) { state in
            let effects = entries.effects(on: entry.key)?.effects ?? []
            return PageMerge(page, over: state.list, effects: effects)
        } event: { state, merge in
            let actions = state.complete(request.number, merge.page)
            if actions != nil {
                state.recordPossiblyApplied(merge.possiblyApplied, in: page.items)
            }
            return Self.numbered(&state, actions)
        }
    }

    /// Merges the effects of applied operations into the rows.
    ///
    /// Operations that were done after a request in progress was sent are left out: its page may
    /// not contain their changes and would overwrite them.
    func mergeEffects() {
        var done: [Effect] = []
        let isDone = parts.transact { state -> PageList<Item>? in
            let effects = entries.effects(on: entry.key)?.effects ?? []
            let limit = state.sentAt ?? .max
            done = effects.filter { $0.acknowledgedAt.map { $0 < limit } ?? false }
            guard !done.isEmpty else { return nil }
            let new = done.filter { !state.list.folded.contains($0.sequence) }
            var folded = ValueBox.of(state.list)
            for effect in new { folded = effect.list?.merged(folded, effect) ?? folded }
            guard var folded = folded.value(as: PageList<Item>.self) else { return nil }
            // An operation without an effect need not be remembered.
            if !new.isEmpty { folded.forget(allBut: effects.map(\.sequence)) }
            return folded
        } event: { state, list in
            guard state.isLoaded, list.folded != state.list.folded else { return State.Actions() }
            let actions = state.replaceRows(list)
            return Self.numbered(&state, actions)
        }
        guard isDone else { return }
        for effect in done { entries.mergeIntoBase(of: effect) }
        save(onlyIfWorthwhile: false)
    }

    /// Records that an operation has not reached the backend: no row contains it, here or on disk.
    func clearPossiblyApplied(_ sequence: Int64) {
        let isChanged = parts.apply { state in
            let actions = state.clearPossiblyApplied(sequence)
            return Self.numbered(&state, actions)
        }
        if isChanged { save(onlyIfWorthwhile: false) }
    }

    /// Assigns a new revision to a list that has changed.
    private static func numbered(_ state: inout State, _ actions: State.Actions?) -> State.Actions?
    {
        if actions?.hasNewBase == true { state.list.revision = PageRevision.next() }
        return actions
    }
}
