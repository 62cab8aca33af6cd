import Foundation
import SanguineModel
import Synchronization

/// Holds the cached values, in memory and partly on disk, and applies the effects of operations.
///
/// Executes the decisions of ``EntryState`` and ``EffectTable``. ``QueryCache`` serves callers and
/// fetches.
///
/// Invariants:
///
/// 1. An entry of the current user's cache scope holds no other user's data.
/// 2. Values in memory cost at most `memoryBytes` after each event, except for entries in use and
///    values that are not measured yet.
/// 3. Every waiter is answered once: by a completed or failed fetch, its own cancellation, a change
///    of the user or the closing of the client.
/// 4. Observers are notified of changes in their order, by one thread at a time.
///
/// Mutable state: `guarded` and all entries in it, by its mutex. It is never held during an
/// `await`, disk access or the app's code (fetching, decoding, comparing, resumed callers, notified
/// observers). The locks of ``EntryWriter`` and ``PartFetcher`` may be taken inside it, never the
/// other way round.
///
/// One table holds the device's cache scope and the current user's: they share the memory. When the
/// user changes, observers of the previous user's entries move to the next user's in the same step.
///
/// A class with a mutex and not an actor, because `cached` must answer at once.
final class Entries: Sendable {
    struct Guarded {
        var table: EntryTable
        var marks = InvalidationMarks()
        /// The effects of unsettled operations on values.
        var effects = EffectTable()
        /// The operations that were applied but are still in the outbox's file.
        var unremoved: Set<Int64> = []
        var device: CacheScope
        /// The current user's.
        var user: CacheScope
        /// The zone of the user's days.
        var zone: TimeZone
        /// The switches of the server.
        var switches = Switches()
        var lastNumber: UInt64 = 0  // Of fetches, observers and versions alike.
        var deliveries = DeliveryQueue()
        /// Runs fetches.
        var runner: FetchRunner?
        var isClosed = false

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }

        var writers: [EntryWriter] { [device.writer, user.writer] }

        func cacheScope(_ audience: Policy.Audience) -> CacheScope {
            audience == .user ? user : device
        }
    }

    /// Runs a fetch to its end.
    typealias FetchRunner =
        @Sendable (
            ErasedQuery, _ fetchNumber: UInt64, CacheScope, RequestPriority
        ) async -> Void

    let guarded: Mutex<Guarded>
    let clock: any WallClock
    let metrics: ClientMetrics
    let observation: ObservationHooks
    let settledHook = Mutex<SettledHook?>(nil)
    let registry: QueryRegistry

    init(
        device: CacheScope,
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
        // Until there is a user, user data is kept in the device's cache scope.
        let table = EntryTable(limit: memoryBytes)
        guarded = Mutex(Guarded(table: table, device: device, user: device, zone: zone))
        begin(device)
    }

    /// Sets the closure that runs fetches; called once, before the first.
    func onStart(_ runner: @escaping FetchRunner) { guarded.withLock { $0.runner = runner } }

    /// The current user's cache scope.
    var user: CacheScope { guarded.withLock { $0.user } }

    /// The cache scope of the data that outlives users.
    var device: CacheScope { guarded.withLock { $0.device } }

    /// Returns the cache scope of the policy's values.
    func cacheScope(of policy: Policy) -> CacheScope {
        guarded.withLock { $0.cacheScope(policy.audience) }
    }

    /// Connects a cache scope to this cache, and removes its expired rows.
    func begin(_ cacheScope: CacheScope) {
        cacheScope.writer.onMeasured { [weak self] in self?.recordSizes($0) }
        cacheScope.writer.removeEntries(keptUntil: clock.now())
    }

    /// The zone of the user's days.
    var zone: TimeZone {
        get { guarded.withLock { $0.zone } }
        set { guarded.withLock { $0.zone = newValue } }
    }

    // MARK: - One change

    /// Work that remains to be done outside of the lock.
    struct Ending: Sendable {
        var cancelled: Task<Void, Never>?
        var answers: (waiters: [UInt64: Entry.Waiter], Entry.Answer)?

        func perform() {
            cancelled?.cancel()
            guard let (waiters, answer) = answers else { return }
            for waiter in waiters.values { waiter.resume(returning: answer) }
        }
    }

    /// Applies an event to a query's entry, and executes the resulting actions.
    ///
    /// - Parameters:
    ///   - query: The query of the entry.
    ///   - creating: Whether to create a missing entry. Otherwise nothing happens without one.
    ///   - answer: The answer of the waiters that the state releases, evaluated after the event
    ///     under the lock. Default: ``SanguineError/cancelled``.
    ///   - event: Applies the event; returns `nil` if nothing has changed.
    /// - Returns: Whether something has changed.
    @discardableResult
    func apply(
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
            observation.queueNotifications(entry, isNew: isNew, in: &guarded.deliveries)
            evict(from: &guarded)
            mustDeliver = !guarded.deliveries.isEmpty
            return ending
        }
        guard let ending else { return false }
        ending.perform()
        if mustDeliver { deliver() }
        return true
    }

    /// Applies invalidations since the entry's last use.
    static func sync(_ entry: Entry, with marks: InvalidationMarks) {
        guard entry.revision != marks.revision else { return }
        entry.revision = marks.revision
        let demand = marks.demand(key: entry.key.text, policy: entry.policy)
        if demand > 0 { entry.state.markStale(generation: demand) }
    }

    // Called under the lock; the result must be performed after the lock is released.
    func perform(
        _ actions: EntryState.Actions,
        on entry: Entry,
        in guarded: inout Guarded,
        answer: @autoclosure () -> Entry.Answer
    ) -> Ending {
        if let delivery = entry.publish() { guarded.deliveries.append(delivery) }
        var ending = Ending()
        if actions.cancel != nil {
            ending.cancelled = entry.fetchTask
            entry.fetchTask = nil
        }
        if !actions.answer.isEmpty {
            ending.answers = (entry.removeWaiters(actions.answer), answer())
        }
        if let fetchNumber = actions.start { entry.launch(fetchNumber, by: guarded.runner) }
        return ending
    }

    /// Delivers pending notifications, unless another thread is doing so.
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
            guarded.cacheScope(query.policy.audience),
            metrics: metrics.named(query.name)
        )
        entry.switchedFreshness = guarded.switches.freshness(of: query.name)
        guarded.table.add(entry)
        registry.saw(query.declaration)
        return entry
    }

    /// Replaces the query of an entry, and records it if another declaration made it.
    ///
    /// Called under the lock.
    func replaceQuery(of entry: Entry, with query: ErasedQuery) {
        guard entry.query !== query else { return }
        if !query.looksDeclared(as: entry.query) { registry.saw(query.declaration) }
        entry.query = query
    }

    /// Evicts entries if they cost too much.
    func evict(from guarded: inout Guarded) {
        let evicted = guarded.table.evict()
        guard !evicted.isEmpty else { return }
        for key in evicted { guarded.effects.list(of: key)?.forgetShown() }
        guarded.deliveries.append { [metrics] in
            metrics.notifyObserver(.evicted(entries: evicted.count))
            guard let steps = metrics.steps else { return }
            for key in evicted { steps.log(.evicted, .query(key.name, key)) }
        }
    }

    /// Applies an event to several entries in one step, and calls `work` before any notification.
    func changeSeveral(
        before work: () -> Void = {},
        _ event: (inout Guarded) -> [Ending]
    ) {
        let endings = guarded.withLock { $0.isClosed ? [] : event(&$0) }
        work()
        for ending in endings { ending.perform() }
        deliver()
    }

    /// Notifies observers of a change to a source's state other than the value, and then calls
    /// `rest`; without observers, at once.
    func notifyObservers(of key: QueryKey, then rest: @escaping Delivery) {
        let isObserved = guarded.withLock { guarded in
            guard let entry = guarded.table[key], entry.state.isObserved else { return false }
            entry.sourceChanges += 1
            if let delivery = entry.publish() { guarded.deliveries.append(delivery) }
            guarded.deliveries.append(rest)
            return true
        }
        if isObserved { deliver() } else { rest() }
    }

    // MARK: - Invalidation

    /// Work that remains to be done outside of the lock after entries were marked as stale.
    struct Marking: Sendable {
        fileprivate var marks: [(writer: EntryWriter, mark: EntryWriter.Mark)] = []
        fileprivate(set) var endings: [Ending] = []

        /// Makes the marks outlive the process.
        func journal() { for (writer, mark) in marks { writer.journal(mark) } }

        /// Writes what is pending if too much is.
        func flush() { for (writer, _) in marks where writer.isBehind { writer.flush() } }
    }

    /// Marks everything in the scope as stale, in memory and on disk, and fetches observed entries.
    ///
    /// Called under the lock.
    func mark(_ scope: InvalidationMarks.Scope, in guarded: inout Guarded) -> Marking {
        var marking = Marking()
        // In one step with the memory: between two steps, a fetch could write an old row as fresh.
        marking.marks = guarded.writers.compactMap { writer in
            writer.markStale(scope).map { (writer, $0) }
        }
        let generation = guarded.marks.mark(scope)
        if guarded.marks.isFull {
            for entry in guarded.table.all { Self.sync(entry, with: guarded.marks) }
            guarded.marks.forget()
        }
        marking.endings = refetch(in: &guarded, generation: generation) { entry in
            scope.covers(key: entry.key.text, policy: entry.policy)
        }
        return marking
    }

    /// Fetches observed entries again.
    ///
    /// Called under the lock.
    func refetch(
        in guarded: inout Guarded,
        generation: UInt64,
        where isMeant: (Entry) -> Bool
    ) -> [Ending] {
        guarded.table.observed.compactMap { key in
            guard let entry = guarded.table[key], isMeant(entry) else { return nil }
            let actions = entry.state.invalidate(
                generation: generation,
                nextFetch: guarded.nextNumber()
            )
            return perform(actions, on: entry, in: &guarded, answer: .failure(.cancelled))
        }
    }

    /// Marks values as stale that depend on a setting of the account which a change alters.
    ///
    /// Called under the lock, in the step that shows the change: then no reader finds new settings
    /// together with a fresh value of the old ones.
    func markDependents(of entry: Entry, becoming change: Change, in guarded: inout Guarded) {
        guard entry.key == Self.account, !change.looksSame,
            let old = entry.box?.value(as: Account.self),
            let new = change.shown.value(as: Account.self)
        else { return }
        for name in SettingDependency.changed(from: old.settings, to: new.settings) {
            let marking = mark(.dependency(name), in: &guarded)
            guarded.deliveries.append {
                marking.journal()
                for ending in marking.endings { ending.perform() }
                marking.flush()
            }
        }
    }

    /// The entry whose changes mark others as stale.
    ///
    /// It must be restored before it changes.
    static let account = ValueQuery<Account>.account.key

    // MARK: - Reports

    /// The keys that are being fetched.
    var fetching: [QueryKey] {
        guarded.withLock { $0.table.all.filter(\.state.isFetching).map(\.key) }
    }

    /// Whether notifications of observers are pending.
    var isTelling: Bool { guarded.withLock { !$0.deliveries.isIdle } }

    /// Whether values are to be written to disk.
    var isWriting: Bool { guarded.withLock { $0.writers }.contains(where: \.isWriting) }

    /// The cost of the values in memory, in bytes.
    var memoryCost: Int { guarded.withLock { $0.table.bytes } }

    /// Returns the entries in memory at one moment, for a report.
    func survey() -> CacheSurvey {
        let now = clock.now()
        return guarded.withLock { guarded in
            let (marks, zone) = (guarded.marks, guarded.zone)
            return CacheSurvey(of: guarded.table.all) { entry in
                Self.sync(entry, with: marks)
                return entry.isFresh(entry.policy, at: now, in: zone)
            }
        }
    }

    /// Returns the number of callers that wait for the query.
    func waiterCount<Value>(of query: ValueQuery<Value>) -> Int {
        guarded.withLock { $0.table[query.key]?.state.waiterCount ?? 0 }
    }
}
