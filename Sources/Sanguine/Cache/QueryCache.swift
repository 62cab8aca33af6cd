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
/// A class with a mutex and not an actor, because `cached` must answer at once.
final class QueryCache: Sendable {
    struct Guarded {
        var records: [QueryKey: QueryRecord] = [:]
        /// The keys of the records that somebody observes.
        var observed: Set<QueryKey> = []
        var marks = InvalidationMarks()
        var epoch: SessionEpoch
        /// The zone of the user's days.
        var zone: TimeZone
        var bytes = 0
        /// Past how many bytes entries are evicted.
        var evictAt: Int
        var uses: UInt64 = 0
        var lastNumber: UInt64 = 0  // Of flights, waiters and observers alike.
        /// What observers are still to be told, in its order.
        var deliveries: [@Sendable () -> Void] = []
        var isDelivering = false
        var isClosed = false

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }
    }

    /// Is told when an entry that is polled or follows the user's days is observed, and when it no
    /// longer is.
    typealias ObservationHook = @Sendable (QueryKey, Policy, _ isObserved: Bool) -> Void

    let guarded: Mutex<Guarded>
    private let waiters = Atomic<UInt64>(0)
    let store: ClientStore
    let authorizer: any Authorizer
    let clock: any WallClock
    let memoryBytes: Int
    let metrics: ClientMetrics
    let attempts: ReadAttempts
    let writer: EntryWriter
    let observationHook = Mutex<ObservationHook?>(nil)
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
        // Nothing under the lock knows the value's type: see `ValueBox`.
        let box = guarded.withLock { guarded -> ValueBox? in
            guard let record = guarded.records[query.key], let box = record.box else { return nil }
            guarded.uses &+= 1
            record.lastUse = guarded.uses
            record.metrics.hit()
            return box
        }
        return box?.value(as: Value.self) ?? restored(query)
    }

    /// As ``cached(_:)``, and not counted: for the client's own look-ups.
    func peek<Value>(_ query: Query<Value>) -> Value? {
        if let value = held(by: query)?.value { return value }
        restore(query)
        return held(by: query)?.value
    }

    // What the first look-up of a value finds on disk.
    private func restored<Value>(_ query: Query<Value>) -> Value? {
        let value = peek(query)
        let counters = metrics.named(query.name)
        if value == nil { counters.miss() } else { counters.hit() }
        return value
    }

    /// Value, age and the state of the network, in one piece.
    func snapshot<Value>(of query: Query<Value>) -> QueryState<Value> {
        _ = peek(query)
        return guarded.withLock { guarded in
            (guarded.records[query.key] as? TypedRecord<Value>)?.snapshot ?? QueryState()
        }
    }

    /// Whether the value counts as true without asking again.
    func isFresh<Value>(_ query: Query<Value>) -> Bool {
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
        guard !Task.isCancelled else { throw .cancelled }
        if !refreshing { restore(query) }
        let waiter = waiters.wrappingAdd(1, ordering: .relaxed).newValue
        let answer = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let wanted = priority ?? query.policy.priority
                join(query, as: waiter, continuation, refreshing: refreshing, wanted)
                // The handler below has run already if the task was cancelled before it joined.
                if Task.isCancelled { leave(query, waiter) }
            }
        } onCancel: {
            leave(query, waiter)
        }
        return try answer.get()
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
        change(query) { record, _ in
            (record as? TypedRecord<Value>)?.removeObserver(observer)
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
        let present = authorizer.epoch
        let isOthers = epoch.map { $0.number != present.number } ?? false
        guard query.policy.audience != .user || !isOthers else { return false }
        let arrival = Arrival(of: query, at: clock.now(), epoch: present)
        let old = held(by: query)
        let isEqual = old.map { $0.value == value } ?? false
        let isTaken = change(query, creating: true) { record, guarded in
            guard let record = record as? TypedRecord<Value>,
                version.map({ $0 == record.version }) ?? true,
                generation.map({ $0 == record.state.generation }) ?? true
            else { return nil }
            let isUsers = query.policy.audience == .user
            guard
                let effect = record.state.set(
                    at: arrival.asOf,
                    day: arrival.day(in: guarded.zone),
                    generation: guarded.marks.next(),
                    epoch: isUsers ? present.number : record.state.epoch
                )
            else { return nil }
            record.query = query
            record.set(
                value,
                isEqual: isEqual && record.version == old?.version,
                version: guarded.nextNumber()
            )
            keep(value, record, arrival)
            return effect
        }
        if writer.isBehind { writer.flush() }
        return isTaken
    }

    /// Changes the cached value, if there is one, in one step.
    ///
    /// It is as old and as stale as it was.
    ///
    /// Of two simultaneous changes the second sees the first: its body is called once more.
    func update<Value>(_ query: Query<Value>, _ body: (inout Value) -> Void) -> Value? {
        _ = peek(query)
        while let (old, version) = held(by: query) {
            var value = old
            body(&value)
            if patch(value, query, replacing: version, isEqual: value == old) { return value }
            // Not taken for another reason than a change: it never will be.
            guard let present = held(by: query), present.version != version else { return nil }
        }
        return nil
    }

    private func patch<Value>(
        _ value: Value,
        _ query: Query<Value>,
        replacing version: UInt64,
        isEqual: Bool
    ) -> Bool {
        let present = authorizer.epoch
        let isUsers = query.policy.audience == .user
        let isTaken = change(query) { record, guarded in
            guard let record = record as? TypedRecord<Value>, record.version == version,
                let held = record.state.held,
                let effect = record.state.amend(
                    generation: guarded.marks.next(),
                    epoch: isUsers ? present.number : record.state.epoch
                )
            else { return nil }
            record.set(value, isEqual: isEqual, version: guarded.nextNumber())
            keep(value, record, Arrival(of: query, at: held.asOf, epoch: present))
            return effect
        }
        if writer.isBehind { writer.flush() }
        return isTaken
    }

    // MARK: - Flights

    /// Runs one flight to its end.
    ///
    /// Called by the record's task alone.
    func fly<Value>(
        _ query: Query<Value>,
        flight: UInt64,
        epoch: UInt64,
        priority: RequestPriority
    ) async {
        let requestEpoch: SessionEpoch? =
            query.policy.audience == .user ? SessionEpoch(number: epoch, account: nil) : nil
        let departure = clock.now()
        let counters = query.countsFlights ? metrics.named(query.name) : nil
        let ticket = counters?.flightBegan()
        var plan = query.plan
        plan.metrics = counters
        let attempted = AttemptCount()
        plan.attempts = attempted
        let outcome = await attempts.fetch(
            plan,
            epoch: requestEpoch,
            priority: priority,
            query.fetch
        )
        if let ticket {
            counters?.flightEnded(
                ticket,
                outcome: FlightOutcome(outcome),
                attempts: attempted.value
            )
        }
        switch outcome {
        case .success(let value):
            land(value, of: query, flight: flight, epoch: epoch, departure: departure)
        case .failure(let error):
            fail(query, flight: flight, epoch: epoch, with: error)
        }
    }

    private func land<Value>(
        _ value: Value,
        of query: Query<Value>,
        flight: UInt64,
        epoch: UInt64,
        departure: Timestamp
    ) {
        let present = authorizer.epoch
        guard query.policy.audience != .user || present.number == epoch else {
            return fail(query, flight: flight, epoch: epoch, with: .userChanged)
        }
        adoptAccount(present)
        let arrival = Arrival(of: query, since: departure, at: clock.now(), epoch: present)
        let old = held(by: query)
        let isEqual = old.map { $0.value == value } ?? false
        var answer = value
        change(query) { record, guarded in
            guard let record = record as? TypedRecord<Value>,
                let effect = record.state.land(
                    flight,
                    epoch: epoch,
                    at: arrival.asOf,
                    day: arrival.day(in: guarded.zone),
                    nextFlight: guarded.nextNumber()
                )
            else { return nil }
            record.flight = nil
            if effect.isOvertaken {
                answer = record.value ?? value
            } else {
                if old?.version == record.version || old == nil, query.policy.adaptive != nil {
                    record.adaptive.landed(changed: !isEqual, at: arrival.asOf)
                }
                record.set(
                    value,
                    isEqual: isEqual && record.version == old?.version,
                    version: guarded.nextNumber()
                )
                keep(value, record, arrival)
            }
            return effect
        } answering: { record, waiters in
            (record as? TypedRecord<Value>)?.takeAnswers(waiters, .success(answer)) ?? {}
        }
        if writer.isBehind { writer.flush() }
    }

    private func fail<Value>(
        _ query: Query<Value>,
        flight: UInt64,
        epoch: UInt64,
        with error: SanguineError
    ) {
        var newer: Value?
        change(query, failure: error) { record, guarded in
            let effect = record.state.fail(
                flight,
                epoch: epoch,
                error: error,
                nextFlight: guarded.nextNumber()
            )
            guard let effect else { return nil }
            record.flight = nil
            if effect.isOvertaken { newer = record.box?.value(as: Value.self) }
            return effect
        } answering: { record, waiters in
            guard let newer, let record = record as? TypedRecord<Value> else { return {} }
            return record.takeAnswers(waiters, .success(newer))
        }
    }

    private func join<Value>(
        _ query: Query<Value>,
        as waiter: UInt64,
        _ continuation: TypedRecord<Value>.Waiter,
        refreshing: Bool,
        _ priority: FetchPriority
    ) {
        let now = clock.now()
        var answer: TypedRecord<Value>.Answer?
        var raised: RequestPriority?
        let hasJoined = change(query, creating: true) { record, guarded in
            guard let record = record as? TypedRecord<Value> else {
                answer = .failure(.conflictingQuery(name: query.name))
                return nil
            }
            record.query = query
            if !refreshing, let value = record.value,
                record.isFresh(query.policy, at: now, in: guarded.zone)
            {
                record.metrics.hit()
                guarded.uses &+= 1
                record.lastUse = guarded.uses
                answer = .success(value)
                return nil
            }
            if record.box == nil { record.metrics.miss() } else { record.metrics.staleHit() }
            record.waiters[waiter] = continuation
            raised = record.want(priority)
            return record.state.join(waiter: waiter, nextFlight: guarded.nextNumber())
        }
        if !hasJoined { continuation.resume(returning: answer ?? .failure(.closed)) }
        raised?.raise(to: priority)
    }

    private func leave<Value>(_ query: Query<Value>, _ waiter: UInt64) {
        change(query, failure: .cancelled) { record, _ in record.state.leave(waiter: waiter) }
    }
}
