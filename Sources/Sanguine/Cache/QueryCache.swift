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
/// 3. Values in memory cost at most `memoryBytes` after each event, but for entries in use.
/// 4. Every waiter is answered once: by a landing, a failure, its own cancellation, the end of the
///    epoch or the closing of the client.
///
/// Mutable state: `guarded` and all records in it, by its mutex. It is never held over an `await`,
/// over the disk, or over the app's code (fetching, decoding, comparing, resumed callers). The lock
/// of ``EntryWriter`` may be taken inside of it, never the other way round.
///
/// A class with a mutex and not an actor, because `cached` must answer at once.
final class QueryCache: Sendable {
    private struct Guarded {
        var records: [QueryKey: QueryRecord] = [:]
        var epoch: SessionEpoch
        var bytes = 0
        var uses: UInt64 = 0
        var lastNumber: UInt64 = 0  // Of flights, waiters and observers alike.
        var isClosed = false

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }
    }

    private let guarded: Mutex<Guarded>
    private let writer: EntryWriter
    private let store: ClientStore
    private let attempts: ReadAttempts
    private let authorizer: any Authorizer
    private let clock: any WallClock
    private let memoryBytes: Int

    init(
        store: ClientStore,
        attempts: ReadAttempts,
        authorizer: any Authorizer,
        clock: any WallClock,
        memoryBytes: Int
    ) {
        self.store = store
        self.attempts = attempts
        self.authorizer = authorizer
        self.clock = clock
        self.memoryBytes = memoryBytes
        writer = EntryWriter(store: store)
        let epoch = authorizer.epoch
        guarded = Mutex(Guarded(epoch: epoch))
        try? store.removeUserEntries(notOwnedBy: epoch.owner)
    }

    // MARK: - Reading

    /// The value in memory or, at the first use, on disk; whatever its age.
    func cached<Value>(_ query: Query<Value>) -> Value? {
        // Nothing under the lock knows the value's type: see `ValueBox`.
        let (box, isMissing) = guarded.withLock { guarded -> (ValueBox?, Bool) in
            guard let record = guarded.records[query.key] else {
                return (nil, query.policy.tier == .onDisk)
            }
            guarded.uses &+= 1
            record.lastUse = guarded.uses
            return (record.box, record.box == nil && !record.isLookedUp)
        }
        guard isMissing else { return box?.value(as: Value.self) }
        restore(query)
        return guarded.withLock { ($0.records[query.key] as? TypedRecord<Value>)?.value }
    }

    /// Value, age and the state of the network, in one piece.
    func snapshot<Value>(of query: Query<Value>) -> QueryState<Value> {
        _ = cached(query)
        return guarded.withLock { guarded in
            (guarded.records[query.key] as? TypedRecord<Value>)?.snapshot ?? QueryState()
        }
    }

    /// The value, fetched first unless it is fresh; always fetched if that is demanded.
    func value<Value>(
        of query: Query<Value>,
        refreshing: Bool = false
    ) async throws(SanguineError) -> Value {
        guard !Task.isCancelled else { throw .cancelled }
        if !refreshing { restore(query) }
        let waiter = guarded.withLock { $0.nextNumber() }
        let answer = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                join(query, as: waiter, continuation, refreshing: refreshing)
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
        restore(query)
        let (stream, continuation) = AsyncStream.makeStream(
            of: QueryState<Value>.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let observer = guarded.withLock { $0.nextNumber() }
        continuation.onTermination = { [weak self] _ in
            self?.change(query) { record, _ in
                (record as? TypedRecord<Value>)?.removeObserver(observer)
                return record.state.unobserve(observer)
            }
        }
        let now = clock.now()
        let isObserving = change(query, creating: true) { record, number in
            guard let record = record as? TypedRecord<Value> else { return nil }
            record.query = query
            let effect = record.state.observe(
                observer,
                isFresh: record.state.isFresh(query.policy.freshness, at: now),
                nextFlight: number
            )
            record.publish()
            record.add(continuation, as: observer)
            return effect
        }
        if !isObserving { continuation.finish() }
        return stream
    }

    /// What is held, in memory and on disk, no longer counts as fresh.
    func invalidate<Value>(_ query: Query<Value>) {
        restore(query)
        change(query) { [writer] record, number in
            if record.isOnDisk { writer.markStale(record.key.text) }
            return record.state.invalidate(nextFlight: number)
        }
    }

    // MARK: - Flights

    /// Runs one flight to its end.
    ///
    /// Called by the record's task alone.
    func fly<Value>(_ query: Query<Value>, flight: UInt64, epoch: UInt64) async {
        let requestEpoch: SessionEpoch? =
            query.policy.audience == .user ? SessionEpoch(number: epoch, account: nil) : nil
        switch await attempts.fetch(query.plan, epoch: requestEpoch, query.fetch) {
        case .success(let value):
            land(value, of: query, flight: flight, epoch: epoch)
        case .failure(let error):
            fail(query, flight: flight, epoch: epoch, with: error)
        }
    }

    private func land<Value>(_ value: Value, of query: Query<Value>, flight: UInt64, epoch: UInt64)
    {
        let present = authorizer.epoch
        guard query.policy.audience != .user || present.number == epoch else {
            return fail(query, flight: flight, epoch: epoch, with: .userChanged)
        }
        adoptAccount(present)
        let json = try? WireCoding.encode(value)
        let old = guarded.withLock { guarded -> (value: Value, version: UInt64)? in
            guard let record = guarded.records[query.key] as? TypedRecord<Value>,
                let value = record.value
            else { return nil }
            return (value, record.version)
        }
        let isEqual = old.map { $0.value == value } ?? false
        let now = clock.now()
        change(query) { [writer] record, number in
            guard let record = record as? TypedRecord<Value>,
                let effect = record.state.land(flight, epoch: epoch, at: now, nextFlight: number)
            else { return nil }
            record.flight = nil
            record.set(value, isEqual: isEqual && record.version == old?.version)
            record.isLookedUp = true
            record.cost =
                ClientLimits.entryOverheadBytes + query.key.text.utf8.count + (json?.count ?? 0)
            if record.isOnDisk, let json, json.count <= ClientLimits.diskEntryBytes {
                let entry = StoredEntry(
                    key: query.key.text,
                    audience: query.policy.audience,
                    owner: query.policy.audience == .user ? present.owner : "",
                    asOf: now,
                    // An invalidation came while the flight was under way.
                    isStale: record.state.held?.generation != record.state.generation,
                    value: json
                )
                writer.put(entry, epoch: epoch)
            }
            return effect
        } answering: { record, waiters in
            (record as? TypedRecord<Value>)?.takeAnswers(waiters, .success(value)) ?? {}
        }
        if writer.isBehind { writer.flush() }
    }

    private func fail<Value>(
        _ query: Query<Value>,
        flight: UInt64,
        epoch: UInt64,
        with error: SanguineError
    ) {
        change(query, failure: error) { record, number in
            let effect = record.state.fail(flight, epoch: epoch, error: error, nextFlight: number)
            if effect != nil { record.flight = nil }
            return effect
        }
    }

    private func join<Value>(
        _ query: Query<Value>,
        as waiter: UInt64,
        _ continuation: TypedRecord<Value>.Waiter,
        refreshing: Bool
    ) {
        let now = clock.now()
        var answer: TypedRecord<Value>.Answer?
        let hasJoined = change(query, creating: true) { record, number in
            guard let record = record as? TypedRecord<Value> else {
                answer = .failure(.conflictingQuery(name: query.name))
                return nil
            }
            record.query = query
            if !refreshing, let value = record.value,
                record.state.isFresh(query.policy.freshness, at: now)
            {
                answer = .success(value)
                return nil
            }
            record.waiters[waiter] = continuation
            return record.state.join(waiter: waiter, nextFlight: number)
        }
        if !hasJoined { continuation.resume(returning: answer ?? .failure(.closed)) }
    }

    private func leave<Value>(_ query: Query<Value>, _ waiter: UInt64) {
        change(query, failure: .cancelled) { record, _ in record.state.leave(waiter: waiter) }
    }
}

// MARK: - Users

extension QueryCache {
    /// Begins an epoch: removes every value of the audience `user` from memory and disk, and ends
    /// what is under way for it.
    ///
    /// When this returns, nothing of before can be seen. An epoch that is there already, as after
    /// each refresh of a token, removes nothing: at most its account has become known.
    func adopt(_ epoch: SessionEpoch) {
        let endings = guarded.withLock { guarded -> [Ending]? in
            guard epoch.number >= guarded.epoch.number else { return nil }
            guard epoch.number > guarded.epoch.number else {
                // Of two who tell of it, the one who knows the account counts.
                if epoch.account != nil { guarded.epoch = epoch }
                return nil
            }
            guarded.epoch = epoch
            return guarded.records.values.filter { $0.audience == .user }.map { record in
                let next = epoch.account == nil ? nil : guarded.nextNumber()
                let effect = record.state.changeEpoch(to: epoch.number, nextFlight: next)
                guarded.bytes -= record.cost
                record.forget()
                record.isLookedUp = true  // Its row is about to be removed.
                guarded.bytes += record.cost
                return perform(effect, on: record, failure: .userChanged)
            }
        }
        guard let endings else { return }
        writer.removeUserEntries(before: epoch.number)
        for ending in endings { ending() }
    }

    /// Ends all that is under way, and writes what waits to be written.
    func close() {
        let endings = guarded.withLock { guarded -> [Ending] in
            guard !guarded.isClosed else { return [] }
            guarded.isClosed = true
            return guarded.records.values.flatMap { record in
                let finish = record.takeObservers()
                let effect = record.state.close()
                return [perform(effect, on: record, failure: .closed), finish]
            }
        }
        for ending in endings { ending() }
        writer.flush()
    }

    /// Returns when every value that has landed is on disk.
    func flush() { writer.flush() }

    // A guest gets an account in the middle of an epoch.
    private func adoptAccount(_ epoch: SessionEpoch) {
        guarded.withLock { guarded in
            if guarded.epoch.number == epoch.number { guarded.epoch = epoch }
        }
    }
}

// MARK: - Machinery

extension QueryCache {
    /// What is left to do outside of the lock.
    private typealias Ending = @Sendable () -> Void

    /// Plays one event on a query's record, and does what its state then asks for.
    ///
    /// - Parameters:
    ///   - query: Whose record.
    ///   - creating: Whether a record is made if there is none. Otherwise nothing happens then.
    ///   - failure: What the waiters get that the state wants answered.
    ///   - event: Plays the event; `nil` if nothing has changed. Gets the number for a new flight.
    ///   - answering: Takes the waiters out who get something else than the failure.
    /// - Returns: Whether something has changed.
    @discardableResult
    private func change<Value>(
        _ query: Query<Value>,
        creating: Bool = false,
        failure: SanguineError = .cancelled,
        _ event: (QueryRecord, _ number: UInt64) -> EntryState.Effect?,
        answering: ((QueryRecord, [UInt64]) -> Ending)? = nil
    ) -> Bool {
        let ending = guarded.withLock { guarded -> Ending? in
            guard !guarded.isClosed else { return nil }
            guard let record = record(of: query, creating: creating, in: &guarded)
            else { return nil }
            let costBefore = record.cost
            guard let effect = event(record, guarded.nextNumber()) else { return nil }
            guarded.bytes += record.cost - costBefore
            guarded.uses &+= 1
            record.lastUse = guarded.uses
            let answers = answering?(record, effect.answer)
            let rest = perform(effect, on: record, failure: failure)
            evict(from: &guarded)
            return {
                answers?()
                rest()
            }
        }
        ending?()
        return ending != nil
    }

    private func record<Value>(
        of query: Query<Value>,
        creating: Bool,
        in guarded: inout Guarded
    ) -> QueryRecord? {
        if let record = guarded.records[query.key] { return record }
        guard creating else { return nil }
        let record = TypedRecord(query, epoch: guarded.epoch.number)
        guarded.records[query.key] = record
        guarded.bytes += record.cost
        return record
    }

    // Under the lock; what it returns must be done outside of it.
    private func perform(
        _ effect: EntryState.Effect,
        on record: QueryRecord,
        failure: SanguineError
    ) -> Ending {
        var cancelled: Task<Void, Never>?
        if effect.cancel != nil {
            cancelled = record.flight
            record.flight = nil
        }
        let answers = record.takeAnswers(effect.answer, failure: failure)
        if let flight = effect.start { record.launch(flight, in: self) }
        record.publish()
        return { [cancelled] in
            cancelled?.cancel()
            answers()
        }
    }

    /// Reads the query's row, unless there is a value already or none to expect.
    private func restore<Value>(_ query: Query<Value>) {
        guard query.policy.tier == .onDisk else { return }
        let epoch = guarded.withLock { guarded -> SessionEpoch? in
            if guarded.records[query.key]?.isLookedUp == true { return nil }
            return guarded.isClosed ? nil : guarded.epoch
        }
        guard let epoch else { return }
        let entry = writer.entry(query.key.text, owner: epoch.owner)
        var value: Value?
        if let entry {
            value = try? WireCoding.decode(Value.self, from: entry.value)
            // The type has changed since: what it was is of no use any more.
            if value == nil { store.dropEntry(query.key.text) }
        }
        change(query, creating: true) { record, _ in
            guard let record = record as? TypedRecord<Value>, !record.isLookedUp,
                record.state.epoch == epoch.number || query.policy.audience != .user
            else { return nil }
            record.isLookedUp = true
            guard let entry, let value,
                record.state.restore(
                    asOf: entry.asOf,
                    isStale: entry.isStale,
                    epoch: record.state.epoch
                )
            else { return .nothing }
            record.set(value, isEqual: false)
            record.cost = ClientLimits.entryOverheadBytes + entry.cost
            return .nothing
        }
    }

    /// Forgets the entries that were not used for longest, down to nine tenths of the limit.
    private func evict(from guarded: inout Guarded) {
        guard guarded.bytes > memoryBytes else { return }
        let target = memoryBytes / 10 * 9  // Some room, or each new value would sort them again.
        let candidates = guarded.records.values
            .filter { !$0.state.isInUse }
            .sorted { $0.lastUse < $1.lastUse }
        for record in candidates {
            guard guarded.bytes > target else { return }
            guarded.records[record.key] = nil
            guarded.bytes -= record.cost
        }
    }

    /// What the values in memory cost, in bytes.
    var memoryCost: Int { guarded.withLock { $0.bytes } }

    /// How many callers wait for the query.
    func waiterCount<Value>(of query: Query<Value>) -> Int {
        guarded.withLock { $0.records[query.key]?.state.waiterCount ?? 0 }
    }
}
