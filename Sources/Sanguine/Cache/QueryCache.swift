import Foundation
import SanguineModel
import Synchronization

/// The entries of all queries: in memory, and of some on disk.
///
/// The shell around ``EntryState``.
///
/// Invariants:
///
/// 1. One flight per key at a time, in a task of its own.
/// 2. A record of the present user's partition holds nothing of another user's.
/// 3. Values in memory cost at most `memoryBytes` after each event, but for entries in use and for
///    values that were not measured yet.
/// 4. Every waiter is answered once: by a landing, a failure, its own cancellation, the end of the
///    user or the closing of the client.
/// 5. Observers are told of changes in their order, by one thread at a time.
///
/// Mutable state: `guarded` and all records in it, by its mutex. It is never held over an `await`,
/// over the disk, or over the app's code (fetching, decoding, comparing, resumed callers, told
/// observers). The lock of ``EntryWriter`` may be taken inside of it, never the other way round.
///
/// One table for the device's partition and the present user's: they share the memory, and whoever
/// observes an entry of a user who leaves observes the next one's in the same step.
///
/// A class with a mutex and not an actor, because `cached` must answer at once. Generic at its rim
/// alone: see ``ErasedQuery``.
final class QueryCache: Sendable {
    struct Guarded {
        var entries: EntryTable
        var marks = InvalidationMarks()
        /// What operations that are not settled do to values.
        var effects = EffectTable()
        /// The operations that are done, and that the outbox's file still has.
        var unremoved: Set<Int64> = []
        let device: Partition
        /// The present user's.
        var user: Partition
        /// The zone of the user's days.
        var zone: TimeZone
        var lastNumber: UInt64 = 0  // Of flights, observers and versions alike.
        var deliveries = DeliveryQueue()
        var isClosed = false

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }

        var writers: [EntryWriter] { [device.writer, user.writer] }

        func partition(_ audience: Policy.Audience) -> Partition {
            audience == .user ? user : device
        }
    }

    let guarded: Mutex<Guarded>
    private let lastWaiter = Atomic<UInt64>(0)
    let clock: any WallClock
    let metrics: ClientMetrics
    let observation: ObservationHooks
    let settledHook = Mutex<SettledHook?>(nil)
    let registry: QueryRegistry
    /// What brings lists, by their keys.
    let lists = PartsTable(limit: PageLimits.listsKept)
    /// What brings values by days or numbers.
    let stretches = PartsTable(limit: RangeLimits.keepers)

    init(
        device: Partition,
        clock: any WallClock,
        zone: TimeZone = .gmt,
        memoryBytes: Int,
        metrics: ClientMetrics,
        polling: [QueryKey: Duration] = [:],
        registry: QueryRegistry = QueryRegistry(declared: [])
    ) {
        self.registry = registry
        self.clock = clock
        self.metrics = metrics
        observation = ObservationHooks(polling: polling)
        // Until there is a user what is theirs is kept with what is the device's.
        let entries = EntryTable(limit: memoryBytes)
        guarded = Mutex(Guarded(entries: entries, device: device, user: device, zone: zone))
        begin(device)
    }

    /// The present user's partition.
    var user: Partition { guarded.withLock { $0.user } }

    /// Whose the values of the policy are.
    func partition(of policy: Policy) -> Partition {
        guarded.withLock { $0.partition(policy.audience) }
    }

    func begin(_ partition: Partition) {
        partition.writer.onMeasured { [weak self] in self?.note($0) }
        partition.writer.removeEntries(keptUntil: clock.now())
    }

    // MARK: - Reading

    /// The value in memory or, at the first use, on disk; whatever its age.
    func cached<Value>(_ query: Query<Value>) -> Value? {
        cached(query.erased)?.value(as: Value.self)
    }

    private func cached(_ query: ErasedQuery) -> ValueBox? {
        let box = guarded.withLock { guarded -> ValueBox? in
            guard let record = guarded.entries[query.key], record.serves(query),
                let box = record.box
            else { return nil }
            guarded.entries.use(record)
            record.metrics.hit()
            return box
        }
        return box ?? restored(query)
    }

    /// As ``cached(_:)``, and not counted: for the client's own look-ups.
    func peek<Value>(_ query: Query<Value>) -> Value? {
        restoredGround(of: query.erased).value?.shown.value(as: Value.self)
    }

    // What the first look-up of a value finds on disk.
    private func restored(_ query: ErasedQuery) -> ValueBox? {
        let box = restoredGround(of: query).value?.shown
        let counters = metrics.named(query.name)
        if box == nil { counters.miss() } else { counters.hit() }
        return box
    }

    /// Value, age and the state of the network, in one piece.
    func snapshot<Value>(of query: Query<Value>) -> QueryState<Value> {
        let query = query.erased
        restore(query)
        let snapshot = guarded.withLock { guarded -> QueryRecord.Snapshot? in
            guard let record = guarded.entries[query.key], record.serves(query) else { return nil }
            return record.snapshot
        }
        return snapshot?.state(of: Value.self) ?? QueryState()
    }

    /// Whether the value counts as true without asking again.
    func isFresh<Value>(_ query: Query<Value>) -> Bool { restoredGround(of: query.erased).isFresh }

    /// The value, fetched first unless it is fresh; always fetched if that is demanded.
    ///
    /// A flight that is under way is raised to the priority, which is the policy's by default.
    nonisolated(nonsending) func value<Value>(
        of query: Query<Value>,
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
    ) async -> QueryRecord.Answer {
        guard !Task.isCancelled else { return .failure(.cancelled) }
        if !refreshing { restore(query) }
        let waiter = lastWaiter.wrappingAdd(1, ordering: .relaxed).newValue
        let wanted = priority ?? query.policy.priority
        return await withWaiter { continuation in
            join(query, as: waiter, continuation, refreshing: refreshing, wanted)
        } leave: { [self] in
            leave(query, waiter)
        }
    }

    /// The present state at once, then every change; only the newest waits for a slow reader.
    func updates<Value>(of query: Query<Value>) -> AsyncStream<QueryState<Value>> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: QueryState<Value>.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let observer = TypedRecord<Value>.Observer(
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
        _ query: Query<Value>,
        _ observer: TypedRecord<Value>.Observer
    ) -> UInt64? {
        let query = query.erased
        restore(query)
        let number = guarded.withLock { $0.nextNumber() }
        let now = clock.now()
        var raised: RequestPriority?
        let isObserving = change(query, creating: true) { record, guarded in
            guard let record = record as? TypedRecord<Value> else { return nil }
            record.query = query
            raised = record.want(query.policy.priority)
            let effect = record.state.observe(
                number,
                isFresh: record.isFresh(query.policy, at: now, in: guarded.zone),
                nextFlight: guarded.nextNumber()
            )
            if let delivery = record.publish() { guarded.deliveries.append(delivery) }
            guarded.deliveries.append(record.add(observer, as: number))
            return effect
        }
        raised?.raise(to: query.policy.priority)
        return isObserving ? number : nil
    }

    func unobserve<Value>(_ query: Query<Value>, _ observer: UInt64) {
        change(query.erased) { record, _ in
            record.removeObserver(observer)
            return record.state.unobserve(observer)
        }
    }

    /// Has observers told that what an entry's source has beside the value is another; then does
    /// the rest, at once if nobody observes.
    func tellObservers(of key: QueryKey, then rest: @escaping Delivery) {
        let isObserved = guarded.withLock { guarded in
            guard let record = guarded.entries[key], record.state.isObserved else { return false }
            record.changesBeside += 1
            if let delivery = record.publish() { guarded.deliveries.append(delivery) }
            guarded.deliveries.append(rest)
            return true
        }
        if isObserved { deliver() } else { rest() }
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
        for query: Query<Value>,
        in partition: Partition? = nil
    ) -> Bool {
        let box = ValueBox.of(value)
        var partition = partition
        return set(query.erased) { ground in
            // Whoever is there at first: if they leave meanwhile, the value is not the next one's.
            partition = partition ?? ground.present
            return ground.partition === partition ? box : nil
        }
    }

    /// Sets what is made of the entry as it is; it is made again if the entry is changed or
    /// invalidated meanwhile.
    ///
    /// - Parameters:
    ///   - query: Whose value it is.
    ///   - make: Makes it, under no lock; `nil` to leave the entry as it is.
    /// - Returns: Whether it was taken.
    @discardableResult
    func set(_ query: ErasedQuery, _ make: (Ground) -> ValueBox?) -> Bool {
        let arrival = Arrival(of: query, at: clock.now())
        return transact(query, creating: true, at: arrival.asOf) { ground in
            make(ground).map { ground.amended($0) }
        } commit: { change, record, guarded in
            let effect = record.state.set(
                at: arrival.asOf,
                day: arrival.day(in: guarded.zone),
                generation: guarded.marks.next()
            )
            record.query = query
            take(change, arrival, record, in: &guarded)
            return effect
        }
    }

    /// Changes the cached value, if there is one, in one step.
    ///
    /// It is as old and as stale as it was. The body is given the value without the effects of
    /// operations, and what is returned is what is shown: the changed value with them.
    ///
    /// Of two simultaneous changes the second sees the first: its body is called once more.
    func update<Value>(_ query: Query<Value>, _ body: (inout Value) -> Void) -> Value? {
        restore(query.erased)
        var shown: ValueBox?
        let isTaken = transact(query.erased) { ground -> Change? in
            guard var value = ground.value?.base.value(as: Value.self) else { return nil }
            body(&value)
            let change = ground.amended(.of(value))
            shown = change.shown
            return change
        } commit: { change, record, guarded in
            // A flight from before must not overwrite it.
            guard let held = record.state.held,
                let effect = record.state.amend(generation: guarded.marks.next())
            else { return nil }
            take(change, Arrival(of: record.query, at: held.asOf), record, in: &guarded)
            return effect
        }
        return isTaken ? shown?.value(as: Value.self) : nil
    }

    /// Puts a fuller value in the place of the one that is in memory, without making it newer.
    ///
    /// For a list that grew at its end: its beginning is as old as it was.
    ///
    /// - Parameters:
    ///   - query: Whose value it is.
    ///   - size: What the value costs, in bytes of its JSON: asked for a value that is not stored,
    ///     so that it is not encoded for that alone.
    ///   - make: Makes the fuller value of the one without effects and of whose it is, under no
    ///     lock; `nil` to do nothing.
    func extend<Value>(
        _ query: Query<Value>,
        size: @escaping @Sendable (Value) -> Int?,
        _ make: (Value, Partition) -> Value?
    ) {
        transact(query.erased) { ground -> (change: Change, value: Value)? in
            let base = ground.value?.base.value(as: Value.self)
            guard let base, let value = make(base, ground.partition) else { return nil }
            return (ground.amended(.of(value)), value)
        } commit: { plan, record, guarded in
            guard let held = record.state.held else { return nil }
            let (change, value) = plan
            let arrival = Arrival(of: record.query, at: held.asOf)
            take(change, arrival, size: { size(value) }, record, in: &guarded)
            return .nothing
        }
    }
}
