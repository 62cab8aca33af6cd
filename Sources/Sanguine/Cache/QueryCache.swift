import Foundation
import SanguineModel
import Synchronization

/// The values of all queries, and the way to newer ones.
///
/// ``Entries`` has what is known; this fetches what is not, or no longer counts as fresh.
///
/// Invariant: one flight per key at a time, in a task of its own.
///
/// Mutable state: that of ``entries``, ``lists`` and ``stretches``, and a counter. Generic at its
/// rim alone: see ``ErasedQuery``.
final class QueryCache: Sendable {
    let entries: Entries
    /// What brings lists, by their keys.
    let lists = PartsTable(limit: PageLimits.listsKept)
    /// What brings values by days or numbers.
    let stretches = PartsTable(limit: RangeLimits.keepers)
    private let lastWaiter = Atomic<UInt64>(0)

    init(
        device: Partition,
        clock: any WallClock,
        zone: TimeZone = .gmt,
        memoryBytes: Int,
        metrics: ClientMetrics,
        polling: [QueryKey: Duration] = [:],
        registry: QueryRegistry = QueryRegistry(declared: [])
    ) {
        entries = Entries(
            device: device,
            clock: clock,
            zone: zone,
            memoryBytes: memoryBytes,
            metrics: metrics,
            polling: polling,
            registry: registry
        )
        entries.onStart { [weak self] in await self?.fly($0, flight: $1, $2, priority: $3) }
    }

    var clock: any WallClock { entries.clock }

    // MARK: - Reading

    /// The value in memory or, at the first use, on disk; whatever its age.
    func cached<Value>(_ query: ValueQuery<Value>) -> Value? {
        cached(query.erased)?.value(as: Value.self)
    }

    private func cached(_ query: ErasedQuery) -> ValueBox? {
        entries.comeDue(query)
        let box = entries.guarded.withLock { guarded -> ValueBox? in
            guard let entry = guarded.table[query.key], entry.serves(query),
                let box = entry.box
            else { return nil }
            guarded.table.use(entry)
            entry.metrics.hit()
            return box
        }
        return box ?? restored(query)
    }

    // What the first look-up of a value finds on disk.
    private func restored(_ query: ErasedQuery) -> ValueBox? {
        let box = entries.restoredGround(of: query).value?.shown
        let counters = entries.metrics.named(query.name)
        if box == nil { counters.miss() } else { counters.hit() }
        return box
    }

    /// Value, age and the state of the network, in one piece.
    func snapshot<Value>(of query: ValueQuery<Value>) -> ValueSnapshot<Value> {
        snapshot(of: query.erased).state(of: Value.self)
    }

    func snapshot(of query: ErasedQuery) -> Entry.Snapshot {
        entries.comeDue(query)
        entries.restore(query)
        return entries.guarded.withLock { guarded in
            guard let entry = guarded.table[query.key], entry.serves(query) else {
                return Entry.Snapshot()
            }
            return entry.snapshot
        }
    }

    /// Whether the value counts as true without asking again.
    func isFresh<Value>(_ query: ValueQuery<Value>) -> Bool {
        entries.restoredGround(of: query.erased).isFresh
    }

    /// The value, fetched first unless it is fresh; always fetched if that is demanded.
    ///
    /// A flight that is under way is raised to the priority, which is the policy's by default.
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
        entries.comeDue(query)
        if !refreshing { entries.restore(query) }
        let waiter = lastWaiter.wrappingAdd(1, ordering: .relaxed).newValue
        let wanted = priority ?? query.policy.priority
        return await withWaiter { continuation in
            join(query, as: waiter, continuation, refreshing: refreshing, wanted)
        } leave: { [self] in
            leave(query, waiter)
        }
    }

    /// The present state at once, then every change; only the newest waits for a slow reader.
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

    /// Tells the observer the present state at once, then every change.
    ///
    /// It is told under no lock, by one thread at a time, and must return at once.
    ///
    /// - Returns: The number to leave with, or `nil` if the client is closed or the query is in
    ///   conflict with another.
    func observe<Value>(
        _ query: ValueQuery<Value>,
        _ observer: TypedEntry<Value>.Observer
    ) -> UInt64? {
        let query = query.erased
        entries.restore(query)
        let number = entries.guarded.withLock { $0.nextNumber() }
        let now = clock.now()
        var raised: RequestPriority?
        let isObserving = entries.change(query, creating: true) { entry, guarded in
            guard let entry = entry as? TypedEntry<Value> else { return nil }
            entry.query = query
            raised = entry.want(query.policy.priority)
            let actions = entry.state.observe(
                number,
                isFresh: entry.isFresh(query.policy, at: now, in: guarded.zone),
                nextFlight: guarded.nextNumber()
            )
            if let delivery = entry.publish() { guarded.deliveries.append(delivery) }
            guarded.deliveries.append(entry.add(observer, as: number))
            return actions
        }
        raised?.raise(to: query.policy.priority)
        return isObserving ? number : nil
    }

    func unobserve<Value>(_ query: ValueQuery<Value>, _ observer: UInt64) {
        entries.change(query.erased) { entry, _ in
            entry.removeObserver(observer)
            return entry.state.unobserve(observer)
        }
    }

    // MARK: - Writing

    /// Sets a value as if a flight had brought it.
    ///
    /// A flight that is under way does not overwrite it.
    ///
    /// - Parameters:
    ///   - value: The new value.
    ///   - query: Whose value it is.
    ///   - partition: The partition for which it is true. Default: the present one.
    /// - Returns: Whether it was taken: not if its partition is gone, or the client is closed.
    @discardableResult
    func set<Value>(
        _ value: Value,
        for query: ValueQuery<Value>,
        in partition: Partition? = nil
    ) -> Bool {
        let box = ValueBox.of(value)
        var partition = partition
        return set(query.erased) { ground in
            // Whoever is there at first: if they leave meanwhile, the value is not the next one's.
            if partition == nil, ground.isPresent { partition = ground.partition }
            return ground.partition === partition ? box : nil
        }
    }

    /// Sets what is made of the entry as it is; it is made again if the entry is changed or
    /// invalidated meanwhile.
    ///
    /// - Parameters:
    ///   - query: Whose value it is.
    ///   - isJudged: Whether it matters to `make` if the value is fresh. Default: no.
    ///   - commit: Is called in the step in which the value is taken, under the lock.
    ///   - make: Makes it, under no lock; `nil` to leave the entry as it is.
    /// - Returns: Whether it was taken.
    @discardableResult
    func set(
        _ query: ErasedQuery,
        isJudged: Bool = false,
        commit: () -> Void = {},
        _ make: (Entries.Ground) -> ValueBox?
    ) -> Bool {
        let arrival = Entries.Arrival(of: query, at: clock.now())
        let judgedAt = isJudged ? arrival.asOf : nil
        return entries.transact(query, creating: true, judgedAt: judgedAt) { ground in
            make(ground).map { ground.amended($0) }
        } commit: { change, entry, guarded in
            commit()
            let actions = entry.state.set(
                at: arrival.asOf,
                day: arrival.day(in: guarded.zone),
                generation: guarded.marks.next()
            )
            if entry.query !== query { entry.query = query }
            entries.take(change, arrival, entry, in: &guarded)
            return actions
        }
    }

    /// Changes the cached value, if there is one, in one step.
    ///
    /// It is as old and as stale as it was. The body is given the value without the effects of
    /// operations, and what is returned is what is shown: the changed value with them.
    ///
    /// Of two simultaneous changes the second sees the first: its body is called once more.
    func update<Value>(_ query: ValueQuery<Value>, _ body: (inout Value) -> Void) -> Value? {
        entries.restore(query.erased)
        var shown: ValueBox?
        let isTaken = entries.transact(query.erased) { ground -> Entries.Change? in
            guard var value = ground.value?.base.value(as: Value.self) else { return nil }
            body(&value)
            let change = ground.amended(.of(value))
            shown = change.shown
            return change
        } commit: { change, entry, guarded in
            // A flight from before must not overwrite it.
            guard let held = entry.state.held,
                let actions = entry.state.amend(generation: guarded.marks.next())
            else { return nil }
            entries.take(
                change,
                Entries.Arrival(of: entry.query, at: held.asOf),
                entry,
                in: &guarded
            )
            return actions
        }
        return isTaken ? shown?.value(as: Value.self) : nil
    }

    /// Puts a fuller value in the place of the one that is in memory, without making it newer.
    ///
    /// For a list that grew at its end: its beginning is as old as it was. The effects that are a
    /// part of the fuller value end in the same step, so that a restart does not add them again.
    ///
    /// - Parameters:
    ///   - query: Whose value it is.
    ///   - size: What the value costs, in bytes of its JSON: asked for a value that is not stored,
    ///     so that it is not encoded for that alone.
    ///   - make: Makes the fuller value of the one without effects and of whose it is, under no
    ///     lock; `nil` to do nothing.
    func extend<Value>(
        _ query: ValueQuery<Value>,
        size: @escaping @Sendable (Value) -> Int?,
        _ make: (Value, Partition) -> Value?
    ) {
        entries.transact(query.erased) { ground -> (change: Entries.Change, value: Value)? in
            let base = ground.value?.base.value(as: Value.self)
            guard let base, let value = make(base, ground.partition) else { return nil }
            if ground.partition.fault == .storesUnnoted {
                return (ground.amended(.of(value)), value)
            }
            return entries.fetchedBase(.of(value), of: query.erased, askedAt: 0, over: ground)
                .map { (ground.taking($0), value) }
        } commit: { plan, entry, guarded in
            guard let held = entry.state.held else { return nil }
            let (change, value) = plan
            let arrival = Entries.Arrival(of: entry.query, at: held.asOf)
            entries.take(change, arrival, size: { size(value) }, entry, in: &guarded)
            return .nothing
        }
    }
}
