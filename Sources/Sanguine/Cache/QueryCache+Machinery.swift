import SanguineModel
import Synchronization

extension QueryCache {
    typealias Delivery = DeliveryQueue.Delivery

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
            guard let effect = event(record, &guarded) else { return nil }
            guarded.entries.use(record)
            let ending = perform(effect, on: record, in: &guarded, answer: answer())
            let isNew = guarded.entries.list(record)
            observation.note(record, isNew: isNew, in: &guarded.deliveries)
            evict(from: &guarded)
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
    func deliver() {
        guard guarded.withLock({ $0.deliveries.begin() }) else { return }
        while true {
            let batch = guarded.withLock { $0.deliveries.next() }
            guard !batch.isEmpty else { return }
            for delivery in batch { delivery() }
        }
    }

    private func record(
        of query: ErasedQuery,
        creating: Bool,
        in guarded: inout Guarded
    ) -> QueryRecord? {
        if let record = guarded.entries[query.key] { return record }
        guard creating else { return nil }
        let record = query.record(
            guarded.partition(query.policy.audience),
            metrics: metrics.named(query.name)
        )
        guarded.entries.add(record)
        registry.saw(query.name, query.policy)
        return record
    }

    /// Forgets entries if they cost too much.
    func evict(from guarded: inout Guarded) {
        let evicted = guarded.entries.evict()
        guard !evicted.isEmpty else { return }
        for key in evicted { guarded.effects.list(of: key)?.forgetShown() }
        guarded.deliveries.append { [metrics] in
            metrics.note(.evicted(entries: evicted.count))
        }
    }

    /// What the values in memory cost, in bytes.
    var memoryCost: Int { guarded.withLock { $0.entries.bytes } }

    /// How many callers wait for the query.
    func waiterCount<Value>(of query: Query<Value>) -> Int {
        guarded.withLock { $0.entries[query.key]?.state.waiterCount ?? 0 }
    }
}
