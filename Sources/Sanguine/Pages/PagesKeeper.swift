import Foundation
import SanguineModel
import Synchronization

/// Keeps one list: the shell around ``PagesState``.
///
/// The rows as they are shown stand in the state. The cache holds them as one entry, whose fetch is
/// the list's refresh: so freshness, invalidation, events, polling, the disk and users are the
/// cache's business. What else is loaded is added to that entry.
///
/// Invariants:
///
/// 1. Every waiter is answered once.
/// 2. A list of the audience `user` holds nothing of a user who has left.
/// 3. The entry holds the list from its beginning, or nothing: of a list whose first pages were
///    dropped a refresh stores the beginning alone.
///
/// Mutable state: `guarded`, by its mutex, which is never held over an `await`, over the cache, or
/// over outside code.
final class PagesKeeper<Item: PageItem>: AnyPagesKeeper where Item.ID: Sendable {
    typealias State = PagesState<Item>
    typealias Look = (state: PagesSnapshot<Item>, rows: PageChange<Item>, span: PageSpan)

    /// Who is told of every change, under no lock.
    struct Observer: Sendable {
        let tell: @Sendable () -> Void
        var finish: @Sendable () -> Void = {}
    }

    /// The list as it was declared, and its entry in the cache.
    struct Declaration: Sendable {
        let pages: Pages<Item>
        let entry: Query<PageList<Item>>
    }

    struct Guarded {
        var declaration: Declaration
        var state: State
        /// Whose rows these are.
        var partition: Partition
        var tasks: [UInt64: Task<Void, Never>] = [:]
        /// How much the requests under way matter.
        var priorities: [UInt64: RequestPriority] = [:]
        var waiters: [UInt64: CheckedContinuation<SanguineError?, Never>] = [:]
        var observers: [UInt64: Observer] = [:]
        /// When requests under way were sent, by the cache's count.
        var sent: [UInt64: UInt64] = [:]
        /// What operations mean for the rows, see ``PageList``.
        var folded: Set<Int64> = []
        var doubts: [Item.ID: Set<Int64>] = [:]
        var lastNumber: UInt64 = 0
        var isClosed: Bool

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }
    }

    let queries: QueryCache
    let guarded: Mutex<Guarded>
    private weak let registry: PagesRegistry?

    init(
        _ pages: Pages<Item>,
        queries: QueryCache,
        registry: PagesRegistry,
        isClosed: Bool
    ) {
        self.queries = queries
        self.registry = registry
        guarded = Mutex(
            Guarded(
                declaration: Declaration(
                    pages: pages,
                    entry: Self.entry(of: pages, registry, queries)
                ),
                state: State(pageSize: pages.size),
                partition: queries.partition(of: pages.policy),
                isClosed: isClosed
            )
        )
    }

    deinit { save(onlyIfWorthwhile: false) }

    /// The list as it was declared last.
    var pages: Pages<Item> { declaration.pages }

    /// The list as an entry of the cache; fetching it refreshes the list.
    var entry: Query<PageList<Item>> { declaration.entry }

    private var declaration: Declaration { guarded.withLock { $0.declaration } }

    /// The list is declared anew: from now on it is fetched like this.
    func take(_ pages: Pages<Item>) {
        guard let registry else { return }
        let declaration = Declaration(pages: pages, entry: Self.entry(of: pages, registry, queries))
        guarded.withLock { $0.declaration = declaration }
    }

    private static func entry(
        of pages: Pages<Item>,
        _ registry: PagesRegistry,
        _ queries: QueryCache,
        priority: FetchPriority? = nil
    ) -> Query<PageList<Item>> {
        Query(
            pages.name,
            key: pages.key,
            // The refresh's own requests are tried again, not all of it.
            policy: pages.policy.retry(.never).priority(priority ?? pages.policy.priority),
            base: pages.base
        ) { [weak registry, weak queries] request in
            request.flight.settle()
            guard let registry, let queries else { throw SanguineError.closed }
            return try await registry.keeper(of: pages, in: queries).refreshed(request.priority)
        }
    }

    // MARK: - Reading

    /// Takes the cache's entry over, if nothing is known yet.
    func restore() {
        let (isNeeded, partition) = guarded.withLock { guarded in
            (!guarded.state.isLoaded && !guarded.isClosed, guarded.partition)
        }
        guard isNeeded, let (list, ground) = queries.base(of: entry),
            ground.partition === partition
        else { return }
        change { guarded in
            guard guarded.partition === partition, guarded.state.restore(list) else { return nil }
            (guarded.folded, guarded.doubts) = (list.folded, list.doubts)
            return State.Effect()
        }
    }

    /// What is known, at once.
    func snapshot() -> PagesSnapshot<Item> {
        let (state, rows, _) = look(since: nil)
        var snapshot = state
        rows.apply(to: &snapshot.items)
        return snapshot
    }

    /// What is known but for the rows; what has become of them since then; and what they are now.
    func look(since span: PageSpan?) -> Look {
        restore()
        let status = queries.snapshot(of: entry)
        // Before the rows: an effect ends when it is a part of them.
        let effects = queries.effects(on: entry.key)
        let (look, list) = glance(status, since: span)
        guard let effects else { return look }
        let rows = effects.applied(to: .of(list)).value(as: PageList<Item>.self)?.rows
        return (look.state, .all(rows ?? list.rows), PageSpan(era: .max))
    }

    // As `look(since:)`, without what operations do to the rows.
    private func glance(
        _ status: QueryState<PageList<Item>>,
        since span: PageSpan?
    ) -> (look: Look, list: PageList<Item>) {
        guarded.withLock { guarded in
            let state = guarded.state
            var snapshot = PagesSnapshot<Item>()
            snapshot.hasMore = state.hasMore
            snapshot.hasPrevious = state.hasPrevious
            snapshot.asOf = state.isLoaded ? status.asOf : nil
            snapshot.error = status.error ?? state.headError
            snapshot.nextError = state.tailError
            let isRefreshing = status.isFetching || state.isLoading(.refresh)
            let isLoadingMore = state.isLoading(.next) || state.isLoading(.previous)
            snapshot.phase =
                switch (state.isLoaded, isRefreshing) {
                case (false, true): .loading
                case (false, false): snapshot.error == nil ? .empty : .failed
                case (true, true): .refreshing
                case (true, false): isLoadingMore ? .loadingMore : .ready
                }
            let look = (snapshot, state.change(since: span), state.span)
            return (look, guarded.noted(state.list))
        }
    }

    /// A signal at once and at every change of ``snapshot()``; one stands for all that are missed.
    ///
    /// Who takes them observes the list: it is refreshed if it is not fresh.
    func signals() -> AsyncStream<Void> {
        let (stream, signal) = AsyncStream.makeStream(
            of: Void.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let observer = Observer(tell: { signal.yield() }, finish: { signal.finish() })
        if let end = observe(observer) {
            signal.onTermination = { _ in end() }
        } else {
            signal.finish()
        }
        return stream
    }

    /// Tells the observer at once and at every change of what ``look(since:)`` gives.
    ///
    /// - Parameters:
    ///   - observer: Who is told.
    ///   - priority: How much it wants the list. Default: the policy's.
    /// - Returns: What ends it, or `nil` if the client is closed.
    func observe(
        _ observer: Observer,
        priority: FetchPriority? = nil
    ) -> (@Sendable () -> Void)? {
        guard let registry else { return nil }
        let entry = Self.entry(of: pages, registry, queries, priority: priority)
        let number = guarded.withLock { guarded in
            let number = guarded.nextNumber()
            guarded.observers[number] = observer
            return number
        }
        let observation = queries.observe(
            entry,
            TypedRecord<PageList<Item>>.Observer(
                tell: { _ in observer.tell() },
                finish: observer.finish
            )
        )
        guard let observation else {
            guarded.withLock { $0.observers[number] = nil }
            return nil
        }
        return { [weak self, weak queries] in
            queries?.unobserve(entry, observation)
            self?.guarded.withLock { $0.observers[number] = nil }
        }
    }

    /// How many callers wait.
    var waiterCount: Int { guarded.withLock { $0.state.waiterCount } }

    /// How many readers take signals.
    var observerCount: Int { guarded.withLock { $0.observers.count } }

    /// What failed last at the list's head, and is to be tried again.
    var failedHeadLoad: PagesLoad {
        let hasFailedToRefresh = queries.snapshot(of: entry).error != nil
        let load = guarded.withLock { $0.state.failedHeadLoad }
        return hasFailedToRefresh ? .refresh : load ?? .refresh
    }

    // MARK: - Loading

    /// Loads the next page, or the one before; without a list its first page.
    func load(_ load: PagesLoad, priority: FetchPriority) async throws(SanguineError) {
        restore()
        guard guarded.withLock({ $0.state.isLoaded }) else {
            _ = try await queries.value(of: entry, priority: priority)
            return
        }
        try await wait(for: load, priority: RequestPriority(priority))
        save(onlyIfWorthwhile: true)
    }

    /// Refreshes the list, and returns all of it.
    ///
    /// What the cache calls to fetch its entry.
    ///
    /// What raises the priority raises the refresh.
    func refreshed(_ priority: RequestPriority) async throws(SanguineError) -> PageList<Item> {
        let observer = priority.observe { [weak self] wanted in
            self?.change { $0.state.raise(.refresh, to: wanted) }
        }
        defer { priority.forget(observer) }
        try await wait(for: .refresh, priority: priority)
        return guarded.withLock { guarded in
            guard guarded.state.hasPrevious else { return guarded.noted(guarded.state.list) }
            var list = guarded.noted(guarded.state.beginning)
            list.revision = guarded.state.list.revision
            return list
        }
    }

    /// A row is shown.
    ///
    /// - Returns: Whether the next page should be loaded ahead.
    func show(_ id: Item.ID) -> Bool {
        var isNearEnd = false
        change { guarded in
            let effect = guarded.state.show(id)
            isNearEnd =
                guarded.state.isNearEnd(id) && guarded.state.tailError == nil
                && !guarded.state.isLoading(.next)
            return effect
        }
        return isNearEnd
    }

    /// The first row that the reader sees.
    func setAnchor(_ id: Item.ID?) { guarded.withLock { $0.state.setAnchor(id) } }

    private func wait(
        for load: PagesLoad,
        priority: RequestPriority
    ) async throws(SanguineError) {
        let waiter = guarded.withLock { $0.nextNumber() }
        let error: SanguineError? = await withWaiter { continuation in
            let first = priority.current
            join(load, as: waiter, continuation, first)
            // It may have been raised just before it joined.
            let wanted = priority.current
            if wanted > first { change { $0.state.raise(load, to: wanted) } }
        } leave: { [self] in
            leave(waiter)
        }
        if let error { throw error }
    }

    private func join(
        _ load: PagesLoad,
        as waiter: UInt64,
        _ continuation: CheckedContinuation<SanguineError?, Never>,
        _ priority: FetchPriority
    ) {
        let hasJoined = change { guarded in
            guarded.waiters[waiter] = continuation
            return guarded.state.join(load, waiter: waiter, priority: priority)
        }
        if !hasJoined { continuation.resume(returning: .closed) }
    }

    private func leave(_ waiter: UInt64) {
        change { $0.state.leave(waiter: waiter) }
    }

    /// Has the cache take over the rows that were loaded since it last did.
    ///
    /// Encoding a list costs as much as it is long. So a list that grows page by page is taken over
    /// when it has grown by a quarter, or doubled if it is only measured; and when its keeper goes.
    ///
    /// What the cache has is looked at before the list is, and is taken over only if the cache
    /// still has that: so no list replaces a newer one.
    func save(onlyIfWorthwhile: Bool) {
        let entry = entry
        let isOnDisk = entry.policy.tier == .onDisk
        while let (saved, ground) = queries.heldBase(of: entry) {
            let held = saved.rows.count
            let step = onlyIfWorthwhile ? max(pages.size, isOnDisk ? held / 4 : held) : .min
            let unsaved = guarded.withLock { guarded -> PageList<Item>? in
                let list = guarded.state.list
                guard guarded.partition === ground.partition, guarded.state.isLoaded,
                    !guarded.state.hasPrevious,
                    list.revision > saved.revision, list.rows.count - held >= step
                else { return nil }
                return guarded.noted(list)
            }
            guard let list = unsaved else { return }
            if queries.amend(
                list,
                for: entry,
                replacing: ground,
                size: { list.estimatedBytes }
            ) {
                return
            }
            // Refused for another reason than a change: it always will be.
            let present = queries.heldBase(of: entry)?.ground
            guard let present, !present.hasSameValue(as: ground) else { return }
        }
    }

    // MARK: - Life

    func change(to user: Partition) {
        guard pages.policy.audience == .user else { return }
        change { guarded in
            guard guarded.partition !== user else { return nil }
            guarded.partition = user
            (guarded.folded, guarded.doubts, guarded.sent) = ([], [:], [:])
            return guarded.state.reset(.userChanged)
        }
    }

    func close() {
        let observers = guarded.withLock { $0.observers.values.map { $0 } }
        save(onlyIfWorthwhile: false)
        change { guarded in
            guarded.isClosed = true
            return guarded.state.reset(.closed)
        }
        for observer in observers { observer.finish() }
    }
}

// MARK: - Machinery

extension PagesKeeper {
    /// Plays one event, and does what the state then asks for.
    ///
    /// - Returns: Whether something has changed.
    @discardableResult
    func change(_ event: (inout Guarded) -> State.Effect?) -> Bool {
        // Not under the lock; a request is sent later than this, if at all.
        let moment = queries.count()
        let ending = guarded.withLock { guarded -> (@Sendable () -> Void)? in
            guard !guarded.isClosed, let effect = event(&guarded) else { return nil }
            return perform(effect, at: moment, in: &guarded)
        }
        ending?()
        return ending != nil
    }

    // Under the lock; what it returns must be done outside of it.
    private func perform(
        _ effect: State.Effect,
        at moment: UInt64,
        in guarded: inout Guarded
    ) -> @Sendable () -> Void {
        let cancelled = effect.cancel.compactMap { guarded.tasks.removeValue(forKey: $0) }
        let answers = effect.answer.compactMap { answer in
            guarded.waiters.removeValue(forKey: answer.waiter).map { ($0, answer.error) }
        }
        if effect.hasNewList { guarded.state.list.revision = PageRevision.next() }
        for number in effect.cancel {
            guarded.priorities[number] = nil
            guarded.sent[number] = nil
        }
        let raised = effect.raise.compactMap { raise in
            guarded.priorities[raise.number].map { ($0, raise.priority) }
        }
        for request in effect.start {
            let partition = guarded.partition
            guarded.sent[request.number] = guarded.sent[request.number] ?? moment
            let priority = RequestPriority(request.priority)
            guarded.priorities[request.number] = priority
            // Detached: the load belongs to all its callers, so it has the cancellation of none.
            guarded.tasks[request.number] = Task.detached(priority: Task.currentPriority) {
                [weak self] in
                await self?.fly(request, priority, partition)
            }
        }
        let observers = Array(guarded.observers.values)
        return {
            for task in cancelled { task.cancel() }
            for (request, priority) in raised { request.raise(to: priority) }
            // Observers first: a model's turn of the main actor then comes before that of a caller
            // who waits there, and who finds in the model what it has waited for.
            for observer in observers { observer.tell() }
            for (waiter, error) in answers { waiter.resume(returning: error) }
        }
    }

    /// Runs one request to its end.
    private func fly(
        _ request: PagesRequest,
        _ priority: RequestPriority,
        _ partition: Partition
    ) async {
        let pages = pages
        let page = PageRequest(cursor: request.cursor, limit: request.limit)
        let plan = FetchPlan(
            name: pages.name,
            policy: pages.policy.priority(request.priority),
            base: pages.base
        )
        let result = await partition.attempts.fetch(plan, priority: priority) {
            try await pages.fetch($0, page)
        }
        switch result {
        case .success(let page):
            fold()
            land(request, page, partition)
        case .failure(let error):
            change { guarded in
                guard guarded.partition === partition else { return nil }
                guarded.forget(request)
                return guarded.state.fail(
                    request.number,
                    error,
                    isCursorExpired: request.cursor != nil
                        && pages.isExpired(error, answering: page)
                )
            }
        }
        fold()
        if request.load == .review { save(onlyIfWorthwhile: false) }
    }
}
