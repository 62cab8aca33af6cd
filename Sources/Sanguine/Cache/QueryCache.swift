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
/// 2. A record of the audience `user` holds nothing of an epoch other than the present one.
/// 3. Values in memory cost at most `memoryBytes` after each event, but for entries in use and for
///    values that were not measured yet.
/// 4. Every waiter is answered once: by a landing, a failure, its own cancellation, the end of the
///    epoch or the closing of the client.
/// 5. Observers are told of changes in their order, by one thread at a time.
///
/// Mutable state: `guarded` and all records in it, by its mutex. It is never held over an `await`,
/// over the disk, or over the app's code (fetching, decoding, comparing, resumed callers, told
/// observers). The lock of ``EntryWriter`` may be taken inside of it, never the other way round.
///
/// A class with a mutex and not an actor, because `cached` must answer at once. Generic at its rim
/// alone: see ``ErasedQuery``.
final class QueryCache: Sendable {
    struct Guarded {
        var records: [QueryKey: QueryRecord] = [:]
        /// The keys of the records that somebody observes.
        var observed: Set<QueryKey> = []
        var marks = InvalidationMarks()
        /// What operations that are not settled do to values.
        var effects = EffectTable()
        /// The operations that are done, and that the outbox's file still has.
        var unremoved: Set<Int64> = []
        var epoch: SessionEpoch
        /// The zone of the user's days.
        var zone: TimeZone
        var bytes = 0
        /// Past how many bytes entries are evicted.
        var evictAt: Int
        var uses: UInt64 = 0
        var lastNumber: UInt64 = 0  // Of flights, observers and versions alike.
        /// What observers are still to be told, in its order.
        var deliveries: [Delivery] = []
        var isDelivering = false
        var isClosed = false

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }

        mutating func use(_ record: QueryRecord) {
            uses &+= 1
            record.lastUse = uses
        }
    }

    /// Is told when an entry that is polled or follows the user's days is observed, and when it no
    /// longer is.
    typealias ObservationHook = @Sendable (QueryKey, Policy, _ isObserved: Bool) -> Void

    let guarded: Mutex<Guarded>
    private let lastWaiter = Atomic<UInt64>(0)
    let store: ClientStore
    let authorizer: any Authorizer
    let clock: any WallClock
    let memoryBytes: Int
    let metrics: ClientMetrics
    let attempts: ReadAttempts
    let writer: EntryWriter
    let observationHook = Mutex<ObservationHook?>(nil)
    let settledHook = Mutex<SettledHook?>(nil)
    let registry: QueryRegistry

    init(
        store: ClientStore,
        attempts: ReadAttempts,
        authorizer: any Authorizer,
        clock: any WallClock,
        zone: TimeZone = .gmt,
        memoryBytes: Int,
        metrics: ClientMetrics,
        registry: QueryRegistry = QueryRegistry(declared: [])
    ) {
        self.registry = registry
        self.store = store
        self.attempts = attempts
        self.authorizer = authorizer
        self.clock = clock
        self.memoryBytes = memoryBytes
        self.metrics = metrics
        let epoch = authorizer.epoch
        guarded = Mutex(Guarded(epoch: epoch, zone: zone, evictAt: memoryBytes))
        writer = EntryWriter(store: store, delay: attempts.delay)
        try? store.removeUserEntries(notOwnedBy: epoch.owner)
        writer.onMeasured { [weak self] in self?.note($0) }
        writer.removeEntries(keptUntil: clock.now())
    }

    // MARK: - Reading

    /// The value in memory or, at the first use, on disk; whatever its age.
    func cached<Value>(_ query: Query<Value>) -> Value? {
        cached(query.erased)?.value(as: Value.self)
    }

    private func cached(_ query: ErasedQuery) -> ValueBox? {
        let box = guarded.withLock { guarded -> ValueBox? in
            guard let record = guarded.records[query.key], record.serves(query),
                let box = record.box
            else { return nil }
            guarded.use(record)
            record.metrics.hit()
            return box
        }
        return box ?? restored(query)
    }

    /// As ``cached(_:)``, and not counted: for the client's own look-ups.
    func peek<Value>(_ query: Query<Value>) -> Value? {
        peek(query.erased)?.value(as: Value.self)
    }

    private func peek(_ query: ErasedQuery) -> ValueBox? {
        if let box = held(by: query)?.box { return box }
        restore(query)
        return held(by: query)?.box
    }

    // What the first look-up of a value finds on disk.
    private func restored(_ query: ErasedQuery) -> ValueBox? {
        let box = peek(query)
        let counters = metrics.named(query.name)
        if box == nil { counters.miss() } else { counters.hit() }
        return box
    }

    /// Value, age and the state of the network, in one piece.
    func snapshot<Value>(of query: Query<Value>) -> QueryState<Value> {
        let query = query.erased
        restore(query)
        let snapshot = guarded.withLock { guarded -> QueryRecord.Snapshot? in
            guard let record = guarded.records[query.key], record.serves(query) else { return nil }
            return record.snapshot
        }
        return snapshot?.state(of: Value.self) ?? QueryState()
    }

    /// Whether the value counts as true without asking again.
    func isFresh<Value>(_ query: Query<Value>) -> Bool {
        let query = query.erased
        restore(query)
        let now = clock.now()
        return guarded.withLock { guarded in
            guard let record = guarded.records[query.key] else { return false }
            Self.sync(record, with: guarded.marks)
            return record.isFresh(query.policy, at: now, in: guarded.zone)
        }
    }

    /// The value, fetched first unless it is fresh; always fetched if that is demanded.
    ///
    /// A flight that is under way is raised to the priority, which is the policy's by default.
    func value<Value>(
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
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let wanted = priority ?? query.policy.priority
                join(query, as: waiter, continuation, refreshing: refreshing, wanted)
                // The handler below has run already if the task was cancelled before it joined.
                if Task.isCancelled { leave(query, waiter) }
            }
        } onCancel: {
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

    // MARK: - Writing

    /// Sets a value as if a flight had brought it.
    ///
    /// A flight that is under way does not overwrite it.
    ///
    /// - Parameters:
    ///   - value: The new value.
    ///   - query: Whose value it is.
    ///   - epoch: The epoch in which it was true. Default: the present one.
    ///   - version: The version of the value that it was made of. Default: any.
    ///   - generation: The generation in which it was made. Default: any.
    /// - Returns: Whether it was taken: not if its epoch is over, the value was changed or
    ///   invalidated since, or the client is closed.
    @discardableResult
    func set<Value>(
        _ value: Value,
        for query: Query<Value>,
        epoch: SessionEpoch? = nil,
        replacing version: UInt64? = nil,
        of generation: UInt64? = nil
    ) -> Bool {
        set(.of(value), for: query.erased, epoch, replacing: version, of: generation)
    }

    private func set(
        _ box: ValueBox,
        for query: ErasedQuery,
        _ epoch: SessionEpoch?,
        replacing version: UInt64?,
        of generation: UInt64?
    ) -> Bool {
        let present = authorizer.epoch
        let isUsers = query.policy.audience == .user
        guard !isUsers || epoch.map({ $0.number == present.number }) ?? true else { return false }
        let arrival = Arrival(of: query, at: clock.now(), epoch: present)
        while true {
            let (old, list) = ground(of: query)
            let shown = list?.applied(to: box) ?? box
            let isEqual = old?.shown.isEqual(to: shown) ?? false
            var (isKept, mustRetry) = (false, false)
            let isTaken = change(query, creating: true) { record, guarded in
                guard guarded.effects.list(of: query.key)?.version == list?.version else {
                    mustRetry = true
                    return nil
                }
                guard record.serves(query),
                    version.map({ $0 == record.version }) ?? true,
                    generation.map({ $0 == record.state.generation }) ?? true,
                    let effect = record.state.set(
                        at: arrival.asOf,
                        day: arrival.day(in: guarded.zone),
                        generation: guarded.marks.next(),
                        epoch: isUsers ? present.number : record.state.epoch
                    )
                else { return nil }
                record.query = query
                record.show(
                    shown,
                    of: list == nil ? nil : box,
                    isEqual: isEqual && record.version == old?.version,
                    number: guarded.nextNumber()
                )
                isKept = keep(box, record, arrival, in: guarded)
                return effect
            }
            if isKept, writer.isBehind { writer.flush() }
            guard mustRetry else { return isTaken }
        }
    }

    /// Changes the cached value, if there is one, in one step.
    ///
    /// It is as old and as stale as it was. The body is given the value without the effects of
    /// operations, and what is returned is what is shown: the changed value with them.
    ///
    /// Of two simultaneous changes the second sees the first: its body is called once more.
    func update<Value>(_ query: Query<Value>, _ body: (inout Value) -> Void) -> Value? {
        while let (old, ground) = base(of: query) {
            var value = old
            body(&value)
            let box = ValueBox.of(value)
            if let shown = replace(box, query.erased, ground, isEqual: value == old) {
                return shown.value(as: Value.self)
            }
            // Not taken for another reason than a change: it never will be.
            guard let present = self.ground(of: query.erased).ground, !present.isSame(as: ground)
            else { return nil }
        }
        return nil
    }

    /// Puts another value in the place of the one that is held, as old and as stale as that.
    ///
    /// - Parameters:
    ///   - box: The other value.
    ///   - query: Whose value it is.
    ///   - ground: The value that it was made of.
    ///   - epoch: The number of the epoch in which it was true. Default: the present one.
    ///   - isEqual: Whether it equals the one that is held.
    ///   - isChange: Whether a flight from before must not overwrite it. Default: yes.
    ///   - size: What it costs, if that is known without encoding it.
    /// - Returns: What is shown then; `nil` if there was no value of that version and epoch.
    func replace(
        _ box: ValueBox,
        _ query: ErasedQuery,
        _ ground: Ground,
        epoch: UInt64? = nil,
        isEqual: Bool = false,
        isChange: Bool = true,
        size: (@Sendable () -> Int?)? = nil
    ) -> ValueBox? {
        let present = authorizer.epoch
        let isUsers = query.policy.audience == .user
        guard !isUsers || epoch ?? present.number == present.number else { return nil }
        let list = effects(on: query.key)
        let shown = list?.applied(to: box, doubts: ground.notes.doubts) ?? box
        let looksSame = list == nil ? isEqual : ground.shown.isEqual(to: shown)
        var (isKept, mustRetry) = (false, false)
        let isTaken = change(query) { record, guarded in
            guard guarded.effects.list(of: query.key)?.version == list?.version else {
                mustRetry = true
                return nil
            }
            guard record.serves(query), matches(record, ground, list, in: guarded),
                let held = record.state.held,
                !isUsers || record.state.epoch == present.number
            else { return nil }
            var effect = EntryState.Effect.nothing
            if isChange {
                let generation = guarded.marks.next()
                let epoch = record.state.epoch
                guard let amended = record.state.amend(generation: generation, epoch: epoch)
                else { return nil }
                effect = amended
            }
            let base = list == nil ? nil : box
            let number = guarded.nextNumber()
            record.show(
                shown,
                of: base,
                notes: ground.notes,
                isEqual: looksSame,
                number: number
            )
            let arrival = Arrival(of: query, at: held.asOf, epoch: present)
            isKept = keep(box, record, arrival, in: guarded, size: size)
            return effect
        }
        if isKept, writer.isBehind { writer.flush() }
        guard mustRetry else { return isTaken ? shown : nil }
        return replace(
            box,
            query,
            ground,
            epoch: epoch,
            isEqual: isEqual,
            isChange: isChange,
            size: size
        )
    }
}
