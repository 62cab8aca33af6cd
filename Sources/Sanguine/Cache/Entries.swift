import Foundation
import SanguineModel
import Synchronization

/// All that is cached: the values of entries, in memory and of some on disk, with the effects of
/// operations over them.
///
/// The shell around ``EntryState`` and ``EffectTable``. ``QueryCache`` fetches and is asked.
///
/// Invariants:
///
/// 1. An entry of the present user's partition holds nothing of another user's.
/// 2. Values in memory cost at most `memoryBytes` after each event, but for entries in use and for
///    values that were not measured yet.
/// 3. Every waiter is answered once: by a landing, a failure, its own cancellation, the end of the
///    user or the closing of the client.
/// 4. Observers are told of changes in their order, by one thread at a time.
///
/// Mutable state: `guarded` and all entries in it, by its mutex. It is never held over an `await`,
/// over the disk, or over the app's code (fetching, decoding, comparing, resumed callers, told
/// observers). The locks of ``EntryWriter`` and ``Parts`` may be taken inside of it, never the
/// other way round.
///
/// One table for the device's partition and the present user's: they share the memory, and whoever
/// observes an entry of a user who leaves observes the next one's in the same step.
///
/// A class with a mutex and not an actor, because `cached` must answer at once.
final class Entries: Sendable {
    struct Guarded {
        var table: EntryTable
        var marks = InvalidationMarks()
        /// What operations that are not settled do to values.
        var effects = EffectTable()
        /// The operations that are done, and that the outbox's file still has.
        var unremoved: Set<Int64> = []
        var device: Partition
        /// The present user's.
        var user: Partition
        /// The zone of the user's days.
        var zone: TimeZone
        var lastNumber: UInt64 = 0  // Of flights, observers and versions alike.
        var deliveries = DeliveryQueue()
        /// Runs flights.
        var pilot: Pilot?
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

    /// Runs a flight to its end.
    typealias Pilot =
        @Sendable (
            ErasedQuery, _ flight: UInt64, Partition, RequestPriority
        ) async -> Void

    let guarded: Mutex<Guarded>
    let clock: any WallClock
    let metrics: ClientMetrics
    let observation: ObservationHooks
    let settledHook = Mutex<SettledHook?>(nil)
    let registry: QueryRegistry

    init(
        device: Partition,
        clock: any WallClock,
        zone: TimeZone,
        memoryBytes: Int,
        metrics: ClientMetrics,
        polling: [QueryKey: Duration],
        registry: QueryRegistry
    ) {
        self.registry = registry
        self.clock = clock
        self.metrics = metrics
        observation = ObservationHooks(polling: polling)
        // Until there is a user what is theirs is kept with what is the device's.
        let table = EntryTable(limit: memoryBytes)
        guarded = Mutex(Guarded(table: table, device: device, user: device, zone: zone))
        begin(device)
    }

    /// Has flights run like this; called once, before the first.
    func onStart(_ pilot: @escaping Pilot) { guarded.withLock { $0.pilot = pilot } }

    /// The present user's partition.
    var user: Partition { guarded.withLock { $0.user } }

    /// The partition of what outlives users.
    var device: Partition { guarded.withLock { $0.device } }

    /// Whose the values of the policy are.
    func partition(of policy: Policy) -> Partition {
        guarded.withLock { $0.partition(policy.audience) }
    }

    /// The partition's values belong here from now on.
    func begin(_ partition: Partition) {
        partition.writer.onMeasured { [weak self] in self?.note($0) }
        partition.writer.removeEntries(keptUntil: clock.now())
    }

    /// The zone of the user's days.
    var zone: TimeZone {
        get { guarded.withLock { $0.zone } }
        set { guarded.withLock { $0.zone = newValue } }
    }

    // MARK: - One change

    /// What is left to do outside of the lock.
    struct Ending: Sendable {
        var cancelled: Task<Void, Never>?
        var answers: (waiters: [UInt64: Entry.Waiter], Entry.Answer)?

        func perform() {
            cancelled?.cancel()
            guard let (waiters, answer) = answers else { return }
            for waiter in waiters.values { waiter.resume(returning: answer) }
        }
    }

    /// Plays one event on a query's entry, and does what its state then asks for.
    ///
    /// - Parameters:
    ///   - query: Whose entry.
    ///   - creating: Whether one is made if there is none. Otherwise nothing happens then.
    ///   - answer: What the waiters get that the state wants answered; asked for after the event,
    ///     under the lock. Default: that they gave up.
    ///   - event: Plays the event; `nil` if nothing has changed.
    /// - Returns: Whether something has changed.
    @discardableResult
    func change(
        _ query: ErasedQuery,
        creating: Bool = false,
        answer: @autoclosure () -> Entry.Answer = .failure(.cancelled),
        _ event: (Entry, inout Guarded) -> EntryState.Actions?
    ) -> Bool {
        var mustDeliver = false
        let ending = guarded.withLock { guarded -> Ending? in
            guard !guarded.isClosed,
                let entry = entry(of: query, creating: creating, in: &guarded)
            else { return nil }
            Self.sync(entry, with: guarded.marks)
            guard let actions = event(entry, &guarded) else { return nil }
            guarded.table.use(entry)
            let ending = perform(actions, on: entry, in: &guarded, answer: answer())
            let isNew = guarded.table.list(entry)
            observation.note(entry, isNew: isNew, in: &guarded.deliveries)
            evict(from: &guarded)
            mustDeliver = !guarded.deliveries.isEmpty
            return ending
        }
        guard let ending else { return false }
        ending.perform()
        if mustDeliver { deliver() }
        return true
    }

    /// Lets an entry know what was invalidated since it was last used.
    static func sync(_ entry: Entry, with marks: InvalidationMarks) {
        guard entry.revision != marks.revision else { return }
        entry.revision = marks.revision
        let demand = marks.demand(key: entry.key.text, policy: entry.policy)
        if demand > 0 { entry.state.note(generation: demand) }
    }

    // Under the lock; what it returns must be done outside of it.
    func perform(
        _ actions: EntryState.Actions,
        on entry: Entry,
        in guarded: inout Guarded,
        answer: @autoclosure () -> Entry.Answer
    ) -> Ending {
        if let delivery = entry.publish() { guarded.deliveries.append(delivery) }
        var ending = Ending()
        if actions.cancel != nil {
            ending.cancelled = entry.flight
            entry.flight = nil
        }
        if !actions.answer.isEmpty {
            ending.answers = (entry.take(actions.answer), answer())
        }
        if let flight = actions.start { entry.launch(flight, by: guarded.pilot) }
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

    private func entry(
        of query: ErasedQuery,
        creating: Bool,
        in guarded: inout Guarded
    ) -> Entry? {
        if let entry = guarded.table[query.key] { return entry }
        guard creating else { return nil }
        let entry = query.entry(
            guarded.partition(query.policy.audience),
            metrics: metrics.named(query.name)
        )
        guarded.table.add(entry)
        registry.saw(query.name, query.policy)
        return entry
    }

    /// Forgets entries if they cost too much.
    func evict(from guarded: inout Guarded) {
        let evicted = guarded.table.evict()
        guard !evicted.isEmpty else { return }
        for key in evicted { guarded.effects.list(of: key)?.forgetShown() }
        guarded.deliveries.append { [metrics] in
            metrics.note(.evicted(entries: evicted.count))
        }
    }

    /// Plays an event on several entries in one step, and does something before anybody is told.
    func changeSeveral(
        before work: () -> Void = {},
        _ event: (inout Guarded) -> [Ending]
    ) {
        let endings = guarded.withLock { $0.isClosed ? [] : event(&$0) }
        work()
        for ending in endings { ending.perform() }
        deliver()
    }

    /// Has observers told that what an entry's source has beside the value is another; then does
    /// the rest, at once if nobody observes.
    func tellObservers(of key: QueryKey, then rest: @escaping Delivery) {
        let isObserved = guarded.withLock { guarded in
            guard let entry = guarded.table[key], entry.state.isObserved else { return false }
            entry.changesBeside += 1
            if let delivery = entry.publish() { guarded.deliveries.append(delivery) }
            guarded.deliveries.append(rest)
            return true
        }
        if isObserved { deliver() } else { rest() }
    }

    /// What the values in memory cost, in bytes.
    var memoryCost: Int { guarded.withLock { $0.table.bytes } }

    /// How many callers wait for the query.
    func waiterCount<Value>(of query: ValueQuery<Value>) -> Int {
        guarded.withLock { $0.table[query.key]?.state.waiterCount ?? 0 }
    }
}
