import SanguineModel
import Synchronization

extension QueryCache {
    /// Tells observers something, outside of the lock.
    typealias Delivery = @Sendable () -> Void

    /// What is left to do outside of the lock.
    struct Ending: Sendable {
        var cancelled: Task<Void, Never>?
        var answers: (waiters: [UInt64: QueryRecord.Waiter], QueryRecord.Answer)?

        func perform() {
            cancelled?.cancel()
            guard let (waiters, answer) = answers else { return }
            for waiter in waiters.values { waiter.resume(returning: answer) }
        }
    }

    /// Plays one event on a query's record, and does what its state then asks for.
    ///
    /// - Parameters:
    ///   - query: Whose record.
    ///   - creating: Whether a record is made if there is none. Otherwise nothing happens then.
    ///   - answer: What the waiters get that the state wants answered; asked for after the event,
    ///     under the lock. Default: that they gave up.
    ///   - event: Plays the event; `nil` if nothing has changed.
    /// - Returns: Whether something has changed.
    @discardableResult
    func change(
        _ query: ErasedQuery,
        creating: Bool = false,
        answer: @autoclosure () -> QueryRecord.Answer = .failure(.cancelled),
        _ event: (QueryRecord, inout Guarded) -> EntryState.Effect?
    ) -> Bool {
        var mustDeliver = false
        let ending = guarded.withLock { guarded -> Ending? in
            guard !guarded.isClosed,
                let record = record(of: query, creating: creating, in: &guarded)
            else { return nil }
            Self.sync(record, with: guarded.marks)
            let costBefore = record.cost
            guard let effect = event(record, &guarded) else { return nil }
            guarded.bytes += record.cost - costBefore
            guarded.use(record)
            let ending = perform(effect, on: record, in: &guarded, answer: answer())
            noteObservation(of: record, in: &guarded)
            if guarded.bytes > guarded.evictAt { evict(from: &guarded) }
            mustDeliver = !guarded.deliveries.isEmpty
            return ending
        }
        guard let ending else { return false }
        ending.perform()
        if mustDeliver { deliver() }
        return true
    }

    /// Lets a record know what was invalidated since it was last used.
    static func sync(_ record: QueryRecord, with marks: InvalidationMarks) {
        guard record.revision != marks.revision else { return }
        record.revision = marks.revision
        let demand = marks.demand(key: record.key.text, policy: record.policy)
        if demand > 0 { record.state.note(generation: demand) }
    }

    // Under the lock; what it returns must be done outside of it.
    func perform(
        _ effect: EntryState.Effect,
        on record: QueryRecord,
        in guarded: inout Guarded,
        answer: @autoclosure () -> QueryRecord.Answer
    ) -> Ending {
        if let delivery = record.publish() { guarded.deliveries.append(delivery) }
        var ending = Ending()
        if effect.cancel != nil {
            ending.cancelled = record.flight
            record.flight = nil
        }
        if !effect.answer.isEmpty {
            ending.answers = (record.take(effect.answer), answer())
        }
        if let flight = effect.start { record.launch(flight, in: self) }
        return ending
    }

    /// Tells observers what they are to be told, unless another thread is at it.
    ///
    /// That thread then tells this, too: so observers hear of changes in their order, and a change
    /// that an observer makes is told after the one that it was told of.
    func deliver() {
        let mayBegin = guarded.withLock { guarded in
            guard !guarded.deliveries.isEmpty, !guarded.isDelivering else { return false }
            guarded.isDelivering = true
            return true
        }
        guard mayBegin else { return }
        while true {
            let batch = guarded.withLock { guarded in
                defer { guarded.deliveries.removeAll(keepingCapacity: true) }
                if guarded.deliveries.isEmpty { guarded.isDelivering = false }
                return guarded.deliveries
            }
            guard !batch.isEmpty else { return }
            for delivery in batch { delivery() }
        }
    }

    // Two queries of one key may have different policies; the one used last counts.
    private func noteObservation(of record: QueryRecord, in guarded: inout Guarded) {
        let isObserved = record.state.isObserved
        if isObserved != record.isListed {
            record.isListed = isObserved
            if isObserved {
                guarded.observed.insert(record.key)
                if FeedCarrier.keys.contains(record.key) {
                    guarded.deliveries.append { [weak self] in
                        self?.carriedHook.withLock { $0 }?()
                    }
                }
            } else {
                guarded.observed.remove(record.key)
            }
        }
        guard isObserved || record.toldPolicy != nil else { return }
        var policy = record.policy
        policy.polling = policy.polling ?? polling[record.key]
        let isFollowed = isObserved && (policy.polling != nil || policy.followsDays)
        let next = isFollowed ? policy : nil
        guard
            next?.polling != record.toldPolicy?.polling
                || next?.followsDays != record.toldPolicy?.followsDays
        else { return }
        // Told like observers: in order, and outside of the lock.
        guarded.deliveries.append { [key = record.key, old = record.toldPolicy, weak self] in
            let hook = self?.observationHook.withLock { $0 }
            if let old { hook?(key, old, false) }
            if let next { hook?(key, next, true) }
        }
        record.toldPolicy = next
    }

    private func record(
        of query: ErasedQuery,
        creating: Bool,
        in guarded: inout Guarded
    ) -> QueryRecord? {
        if let record = guarded.records[query.key] { return record }
        guard creating else { return nil }
        let record = query.record(
            guarded.partition(query.policy.audience),
            metrics: metrics.named(query.name)
        )
        guarded.records[query.key] = record
        guarded.bytes += record.cost
        registry.saw(query.name, query.policy)
        return record
    }

    /// Forgets the entries that were not used for longest, down to nine tenths of the limit.
    func evict(from guarded: inout Guarded) {
        guard guarded.bytes > guarded.evictAt else { return }
        let target = memoryBytes / 10 * 9  // Some room, or each new value would sort them again.
        let candidates = guarded.records.values
            .filter { !$0.state.isInUse }
            .sorted { $0.lastUse < $1.lastUse }
        var evicted = 0
        for record in candidates {
            guard guarded.bytes > target else { break }
            guarded.records[record.key] = nil
            guarded.effects.list(of: record.key)?.forgetShown()
            guarded.bytes -= record.cost
            evicted += 1
        }
        // What is in use cannot go: then it is tried again when a tenth more has come.
        guarded.evictAt =
            guarded.bytes > target
            ? guarded.bytes + memoryBytes / 10 : memoryBytes
        guard evicted > 0 else { return }
        guarded.deliveries.append { [metrics, evicted] in metrics.note(.evicted(entries: evicted)) }
    }

    /// What the values in memory cost, in bytes.
    var memoryCost: Int { guarded.withLock { $0.bytes } }

    /// How many callers wait for the query.
    func waiterCount<Value>(of query: Query<Value>) -> Int {
        guarded.withLock { $0.records[query.key]?.state.waiterCount ?? 0 }
    }
}
