import Foundation
import SanguineModel
import Synchronization

/// Caches query results and fetches new ones.
///
/// ``Entries`` holds the cached values; this class fetches values that are missing or stale.
///
/// Invariant: there is one fetch per key at a time, in its own task.
///
/// Mutable state: that of ``entries``, ``lists`` and ``ranges``, and a counter. Only the
/// outermost methods are generic: see ``ErasedQuery``.
final class QueryCache: Sendable {
    let entries: Entries
    /// The sources of lists, by key.
    let lists = PartedSources(limit: PageLimits.listsKept)
    /// The sources of values that are fetched by days or numbers, by key.
    let ranges = PartedSources(limit: RangeLimits.keepers)
    /// Logs reads; `nil` if that is off.
    let steps: StepLog?
    private let lastWaiter = Atomic<UInt64>(0)

    init(
        device: CacheScope,
        clock: any WallClock,
        zone: TimeZone = .gmt,
        memoryBytes: Int,
        metrics: ClientMetrics,
        polling: [QueryKey: Duration] = [:],
        registry: QueryRegistry = QueryRegistry(declared: [])
    ) {
        steps = metrics.steps
        entries = Entries(
            device: device,
            clock: clock,
            zone: zone,
            memoryBytes: memoryBytes,
            metrics: metrics,
            polling: polling,
            registry: registry
        )
        entries.onStart { [weak self] in await self?.runFetch($0, fetchNumber: $1, $2, priority: $3)
        }
    }

    var clock: any WallClock { entries.clock }

    // MARK: - Reading

    /// Returns the value from memory or, at the first use, from disk, regardless of its age.
    func cached<Value>(_ query: ValueQuery<Value>) -> Value? {
        cached(query.erased)?.value(as: Value.self)
    }

    /// Works like ``cached(_:)`` without the log of steps, so that a benchmark can compare both.
    func cachedWithoutSteps<Value>(_ query: ValueQuery<Value>) -> Value? {
        (inMemory(query.erased) ?? restored(query.erased))?.value(as: Value.self)
    }

    private func cached(_ query: ErasedQuery) -> ValueBox? {
        guard let box = inMemory(query) else { return restored(query) }
        if let steps { steps.log(.hit, .query(query.name, query.key)) }
        return box
    }

    // Returns the value in memory, and counts a hit.
    private func inMemory(_ query: ErasedQuery) -> ValueBox? {
        entries.applyDueChanges(query)
        return entries.guarded.withLock { guarded -> ValueBox? in
            guard let entry = guarded.table[query.key], entry.serves(query),
                let box = entry.box
            else { return nil }
            guarded.table.use(entry)
            entry.metrics.hit()
            return box
        }
    }

    // Looks the value up on disk, and counts a hit or a miss.
    private func restored(_ query: ErasedQuery) -> ValueBox? {
        let box = entries.restoredSnapshot(of: query).value?.shown
        let counters = entries.metrics.named(query.name)
        if box == nil { counters.miss() } else { counters.hit() }
        steps?.log(box == nil ? .miss : .hit, .query(query.name, query.key))
        return box
    }

    /// Returns the value, its age and the network state, all as of a single point in time.
    func snapshot<Value>(of query: ValueQuery<Value>) -> ValueSnapshot<Value> {
        snapshot(of: query.erased).state(of: Value.self)
    }

    func snapshot(of query: ErasedQuery) -> Entry.VisibleState {
        entries.applyDueChanges(query)
        entries.restore(query)
        return entries.guarded.withLock { guarded in
            guard let entry = guarded.table[query.key], entry.serves(query) else {
                return Entry.VisibleState()
            }
            return entry.snapshot
        }
    }

    /// Returns whether the value can be used without a fetch.
    func isFresh<Value>(_ query: ValueQuery<Value>) -> Bool {
        entries.restoredSnapshot(of: query.erased).isFresh
    }

    /// Returns the value, and fetches it first unless it is fresh or if `refreshing` is set.
    ///
    /// Raises a fetch in progress to the priority. Default: the policy's priority.
    nonisolated(nonsending) func value<Value>(
        of query: ValueQuery<Value>,
        refreshing: Bool = false,
        priority: FetchPriority? = nil
    ) async throws(SanguineError) -> Value {
        try query.value(
            in: await answer(to: query.erased, refreshing: refreshing, priority: priority)
        )
    }

    nonisolated(nonsending) func answer(
        to query: ErasedQuery,
        refreshing: Bool,
        priority: FetchPriority?
    ) async -> Entry.Answer {
        guard !Task.isCancelled else { return .failure(.cancelled) }
        entries.applyDueChanges(query)
        if !refreshing || query.key == Entries.account { entries.restore(query) }
        let waiter = lastWaiter.wrappingAdd(1, ordering: .relaxed).newValue
        let wanted = priority ?? query.policy.priority
        return await withWaiter { continuation in
            join(query, as: waiter, continuation, refreshing: refreshing, wanted)
        } leave: { [self] in
            leave(query, waiter)
        }
    }

    /// Returns the current state followed by every change; a slow reader gets only the newest.
    func updates<Value>(of query: ValueQuery<Value>) -> AsyncStream<ValueSnapshot<Value>> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: ValueSnapshot<Value>.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let observer = TypedEntry<Value>.Observer(
            tell: { continuation.yield($0) },
            finish: { continuation.finish() }
        )
        if let number = observe(query, observer) {
            continuation.onTermination = { [weak self] _ in self?.unobserve(query, number) }
        } else {
            continuation.finish()
        }
        return stream
    }

    /// Notifies the observer of the current state at once, and then of every change.
    ///
    /// The observer is called with no lock held, by one thread at a time, and must return at once.
    ///
    /// - Returns: The observer's number for ``unobserve(_:_:)``, or `nil` if the client is closed
    ///   or another query uses the key with another type.
    func observe<Value>(
        _ query: ValueQuery<Value>,
        _ observer: TypedEntry<Value>.Observer
    ) -> UInt64? {
        let query = query.erased
        entries.restore(query)
        let number = entries.guarded.withLock { $0.nextNumber() }
        let now = clock.now()
        var raised: RequestPriority?
        let isObserving = entries.apply(query, creating: true) { entry, guarded in
            guard let entry = entry as? TypedEntry<Value> else { return nil }
            entries.replaceQuery(of: entry, with: query)
            raised = entry.recordPriority(query.policy.priority)
            let actions = entry.state.observe(
                number,
                isFresh: entry.isFresh(query.policy, at: now, in: guarded.zone),
                nextFetch: guarded.nextNumber()
            )
            if let delivery = entry.publish() { guarded.deliveries.append(delivery) }
            guarded.deliveries.append(entry.add(observer, as: number))
            return actions
        }
        raised?.raise(to: query.policy.priority)
        return isObserving ? number : nil
    }

    func unobserve<Value>(_ query: ValueQuery<Value>, _ observer: UInt64) {
        entries.apply(query.erased) { entry, _ in
            entry.removeObserver(observer)
            return entry.state.unobserve(observer)
        }
    }

    // MARK: - Writing

    /// Sets a value as if a fetch had returned it.
    ///
    /// A fetch in progress does not overwrite it.
    ///
    /// - Parameters:
    ///   - value: The new value.
    ///   - query: The query of the value.
    ///   - cacheScope: The cache scope that the value belongs to. Default: the current one.
    /// - Returns: Whether the value was stored: not if its cache scope is gone or the client is
    ///   closed.
    @discardableResult
    func set<Value>(
        _ value: Value,
        for query: ValueQuery<Value>,
        in cacheScope: CacheScope? = nil
    ) -> Bool {
        if query.key == Entries.account { entries.restore(query.erased) }
        let box = ValueBox.of(value)
        var cacheScope = cacheScope
        return set(query.erased) { snapshot in
            // The user at the first attempt: if they sign out in the meantime, the next user must
            // not get the value.
            if cacheScope == nil, snapshot.isCurrent { cacheScope = snapshot.cacheScope }
            return snapshot.cacheScope === cacheScope ? box : nil
        }
    }

    /// Sets a value that is computed from the entry, and computes it again if the entry is changed
    /// or invalidated in the meantime.
    ///
    /// - Parameters:
    ///   - query: The query of the value.
    ///   - isJudged: Whether `make` uses the value's freshness. Default: no.
    ///   - commit: Called under the lock, in the step that stores the value.
    ///   - make: Computes the value with no lock held; returns `nil` to leave the entry as it is.
    /// - Returns: Whether the value was stored.
    @discardableResult
    func set(
        _ query: ErasedQuery,
        isJudged: Bool = false,
        commit: () -> Void = {},
        _ make: (Entries.EntrySnapshot) -> ValueBox?
    ) -> Bool {
        let arrival = Entries.FetchTiming(of: query, at: clock.now())
        let judgedAt = isJudged ? arrival.asOf : nil
        return entries.transact(query, creating: true, judgedAt: judgedAt) { snapshot in
            make(snapshot).map { snapshot.replacingBase($0) }
        } commit: { change, entry, guarded in
            commit()
            let actions = entry.state.set(
                at: arrival.asOf,
                day: arrival.day(in: guarded.zone),
                generation: guarded.marks.next()
            )
            entries.replaceQuery(of: entry, with: query)
            entries.store(change, arrival, entry, in: &guarded)
            return actions
        }
    }

    /// Changes the cached value, if there is one, in one step.
    ///
    /// The value's age and freshness stay. The body gets the value without the effects of
    /// operations; the method returns the value as it is shown, with them.
    ///
    /// If two changes run at once, the second body is called again with the result of the first.
    func update<Value>(_ query: ValueQuery<Value>, _ body: (inout Value) -> Void) -> Value? {
        entries.restore(query.erased)
        var shown: ValueBox?
        let isTaken = entries.transact(query.erased) { snapshot -> Entries.Change? in
            guard var value = snapshot.value?.base.value(as: Value.self) else { return nil }
            body(&value)
            let change = snapshot.replacingBase(.of(value))
            shown = change.shown
            return change
        } commit: { change, entry, guarded in
            // An earlier fetch must not overwrite it.
            guard let held = entry.state.held,
                let actions = entry.state.changeInPlace(generation: guarded.marks.next())
            else { return nil }
            entries.store(
                change,
                Entries.FetchTiming(of: entry.query, at: held.asOf),
                entry,
                in: &guarded
            )
            return actions
        }
        return isTaken ? shown?.value(as: Value.self) : nil
    }

    /// Replaces the value in memory with a longer one that counts as no newer.
    ///
    /// For a list that grew at its end: its first rows are as old as before. Effects that the
    /// longer value contains end in the same step, so that a restart does not apply them again.
    ///
    /// - Parameters:
    ///   - query: The query of the value.
    ///   - size: Returns what the value costs, in bytes of its JSON. It measures a value that is
    ///     not stored, so that it need not be encoded.
    ///   - make: Makes the longer value from the value without effects and its cache scope, with no
    ///     lock held; returns `nil` to do nothing.
    func extend<Value>(
        _ query: ValueQuery<Value>,
        size: @escaping @Sendable (Value) -> Int?,
        _ make: (Value, CacheScope) -> Value?
    ) {
        entries.transact(query.erased) { snapshot -> (change: Entries.Change, value: Value)? in
            let base = snapshot.value?.base.value(as: Value.self)
            guard let base, let value = make(base, snapshot.cacheScope) else { return nil }
            if snapshot.cacheScope.fault == .storesUnnoted {
                return (snapshot.replacingBase(.of(value)), value)
            }
            return entries.fetchedBase(.of(value), of: query.erased, askedAt: 0, over: snapshot)
                .map { (snapshot.adopting($0), value) }
        } commit: { plan, entry, guarded in
            guard let held = entry.state.held else { return nil }
            let (change, value) = plan
            let arrival = Entries.FetchTiming(of: entry.query, at: held.asOf)
            entries.store(change, arrival, size: { size(value) }, entry, in: &guarded)
            return .nothing
        }
    }
}

// MARK: - Lists, ranges and closures

extension QueryCache {
    /// Returns the source of a list; creates it if there is none.
    func source<Item>(of pages: ListQuery<Item>) -> ListSource<Item> {
        let source = lists.source(pages.key) { ListSource(pages, in: self) }
        source.restore()
        return source
    }

    /// Returns the source of the range query, and creates it if there is none.
    func source<Index, Value>(of query: RangeQuery<Index, Value>) -> RangeSource<Index, Value> {
        let source = ranges.source(query.key) { RangeSource(query, in: self) }
        source.replaceQuery(query)
        return source
    }

    /// Calls a closure with the current state and after each change, until the token is released.
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
