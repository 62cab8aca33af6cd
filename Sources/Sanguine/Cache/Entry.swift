import Foundation
import SanguineModel

/// An entry of the cache: its state, its value and its waiting callers.
///
/// Guarded by the lock of ``Entries``: all access to it requires that lock.
// Unchecked: the compiler cannot see that the cache's lock guards it.
class Entry: @unchecked Sendable {
    typealias Answer = Result<ValueBox, SanguineError>
    typealias Waiter = CheckedContinuation<Answer, Never>

    /// The entry at one moment.
    struct VisibleState: Sendable {
        var box: ValueBox?
        var asOf: Timestamp?
        var isFetching = false
        /// See ``EntryState/currentFetch``.
        var currentFetch: UInt64?
        var error: SanguineError?

        func state<Value>(of type: Value.Type) -> ValueSnapshot<Value> {
            ValueSnapshot(
                value: box?.value(as: type),
                asOf: asOf,
                isFetching: isFetching,
                error: error
            )
        }
    }

    // The state that observers were last notified of. Versions stand for values: comparing values
    // would run the app's code under the cache's lock.
    private struct NotifiedState: Equatable {
        var version: UInt64
        var sourceChanges: UInt64
        var asOf: Timestamp?
        var isFetching: Bool
        var error: SanguineError?
    }

    let key: QueryKey
    /// The cache scope whose store holds the value, and whose requests fetch it.
    var cacheScope: CacheScope
    var state = EntryState()
    /// The revision of the source's value that is shown, if the entry has a source.
    var sourceRevision: UInt64 = 0
    var fetchTask: Task<Void, Never>?
    /// The table's use count at the last use of this entry; the smallest is evicted first.
    var lastUse: UInt64 = 0
    /// The bytes that the entry takes of the memory limit.
    var cost = ClientLimits.entryOverheadBytes
    /// Whether no lookup on disk is needed.
    var isLookedUp = false
    /// The value as it is shown, of the type of the entry's queries.
    var box: ValueBox?
    /// The value without the effects of operations, if there are any.
    var base: ValueBox?
    /// Metadata of the base, if there are effects.
    var notes = BaseMetadata()
    /// The operations that the base contains and that may still be in the outbox's file.
    var contained: Set<Int64> = []
    /// Identifies the base, as ``version`` identifies the value; stays 0 without effects.
    var baseVersion: UInt64 = 0
    /// The cache's count when the last base arrived; 0 for a base from an earlier process.
    var completedAt: UInt64 = 0
    /// Identifies the value: no other value of the key ever has this number, even after an
    /// eviction.
    var version: UInt64 = 0
    /// The number of changes of the value since it was last forgotten.
    var changes: UInt64 = 0
    /// The number of changes to the source's state other than the value.
    var sourceChanges: UInt64 = 0
    /// The number of changes when the value was last sent to be measured.
    var measuredChanges: UInt64 = 0
    /// The revision of the marks that the state reflects.
    var revision: UInt64 = 0
    /// The query that was used last: two of one key may have different policies.
    var query: ErasedQuery
    /// The callers that wait for the current fetch or the next one.
    var waiters: [UInt64: Waiter] = [:]
    /// Whether the table lists the entry as observed.
    var isListed = false
    /// The policy with which ``ObservationHooks`` reported the entry as observed.
    var reportedPolicy: Policy?
    /// The freshness that replaces that of all policies, by a switch of the server.
    var switchedFreshness: Policy.Freshness?
    /// The estimate of how often the value really changes, if its policy is adaptive.
    var adaptive = AdaptiveState()
    /// The number of changes when the source's value was last checked.
    private var changesSeen: UInt64?

    /// The priority of the current fetch.
    var fetchPriority: RequestPriority?
    /// The highest priority it was raised to here: a lower one need not lock it.
    private var raisedPriority = FetchPriority.prefetch
    /// The priority of the next fetch, if a caller has asked for one.
    var nextPriority: FetchPriority?

    /// Counts reads.
    let metrics: NamedMetrics

    private let type: ObjectIdentifier
    private var notified: NotifiedState?

    fileprivate init(_ query: ErasedQuery, _ cacheScope: CacheScope, metrics: NamedMetrics) {
        self.query = query
        self.metrics = metrics
        key = query.key
        type = query.type
        self.cacheScope = cacheScope
        isLookedUp = query.policy.tier == .inMemory
    }

    var policy: Policy { query.policy }
    var audience: Policy.Audience { query.policy.audience }

    /// Returns whether the entry's values are of the query's type.
    func serves(_ query: ErasedQuery) -> Bool { type == query.type }

    /// Returns whether the value can be used without a fetch.
    func isFresh(_ policy: Policy, at now: Timestamp, in zone: TimeZone) -> Bool {
        let adapted = policy.adaptive.map { Policy.Freshness.duration(adaptive.ttl(within: $0)) }
        let freshness = switchedFreshness ?? adapted ?? policy.freshness
        guard state.isFresh(freshness, at: now, in: zone) else { return false }
        // Under any freshness, an entry that refetches at midnight is stale after it.
        return !policy.refetchEvents.contains(.midnight)
            || state.isFresh(.untilMidnight, at: now, in: zone)
    }

    /// Records whether a fetch from the source changed the value, local effects included.
    func recordCheck(at moment: Timestamp) {
        adaptive.fetchCompleted(changed: changesSeen != nil && changesSeen != changes, at: moment)
        changesSeen = changes
    }

    /// Records the priority of a new caller or observer.
    ///
    /// - Returns: The priority of the current fetch, to be raised outside of the lock; `nil` if it
    ///   is high enough.
    func recordPriority(_ priority: FetchPriority) -> RequestPriority? {
        guard state.isFetching else {
            nextPriority = priority
            return nil
        }
        nextPriority = max(nextPriority ?? priority, priority)
        guard priority > raisedPriority else { return nil }
        raisedPriority = priority
        return fetchPriority
    }

    /// Returns the priority of the fetch that starts now.
    func consumePriority() -> RequestPriority {
        defer { nextPriority = nil }
        let wanted = nextPriority ?? policy.priority
        raisedPriority = state.isObserved ? max(wanted, policy.priority) : wanted
        let priority = RequestPriority(raisedPriority)
        fetchPriority = priority
        return priority
    }

    var snapshot: VisibleState {
        VisibleState(
            box: box,
            asOf: state.held?.asOf,
            isFetching: state.isFetching,
            currentFetch: state.currentFetch,
            error: state.error
        )
    }

    /// Stores a value.
    ///
    /// It always replaces the current one: the app's equality may ignore a part that the next
    /// change is computed from. A value that looks the same keeps the version, so that no observer
    /// is notified.
    func set(_ value: ValueBox, looksSame: Bool, version: UInt64) {
        if looksSame, cacheScope.fault == .keepsLookAlike { return }
        box = value
        guard !looksSame else { return }
        self.version = version
        changes += 1
    }

    /// Stores the shown value and its base.
    func show(_ change: Entries.Change, number: UInt64) {
        let fetched = change.fetched.flatMap { $0.remaining.isEmpty ? nil : $0 }
        if fetched != nil || base != nil {
            baseVersion = number
            base = fetched?.base
            notes = fetched?.notes ?? BaseMetadata()
        }
        set(change.shown, looksSame: change.looksSame, version: number)
    }

    /// Shows the base without the effects on it.
    func dropEffects(number: UInt64) {
        guard let base else { return }
        baseVersion = number
        self.base = nil
        notes = BaseMetadata()
        set(base, looksSame: false, version: number)
    }

    /// Clears the value and moves the entry to another user's cache scope.
    func move(to cacheScope: CacheScope) {
        self.cacheScope = cacheScope
        isLookedUp = policy.tier == .inMemory
        sourceRevision = 0
        box = nil
        base = nil
        notes = BaseMetadata()
        contained = []
        completedAt = 0
        changes = 0
        measuredChanges = 0
        (adaptive, changesSeen) = (AdaptiveState(), nil)
        version += 1
    }

    /// Starts the fetch with that number.
    func launch(_ fetchNumber: UInt64, by runner: Entries.FetchRunner?) {
        let (query, cacheScope) = (query, cacheScope)
        let priority = consumePriority()
        // Detached: the fetch belongs to all its callers, so no caller's cancellation may end it.
        self.fetchTask = Task.detached(priority: Task.currentPriority) {
            await runner?(query, fetchNumber, cacheScope, priority)
        }
    }

    /// Removes and returns waiters, which are answered outside of the lock.
    func removeWaiters(_ numbers: [UInt64]) -> [UInt64: Waiter] {
        guard numbers.count < waiters.count else {
            // Nearly always all of them: one assignment, however many there are.
            defer { waiters = [:] }
            return waiters
        }
        var taken: [UInt64: Waiter] = [:]
        for number in numbers { taken[number] = waiters.removeValue(forKey: number) }
        return taken
    }

    // MARK: - Observers

    /// Returns a notification of every observer, or `nil` if they know the current state.
    func publish() -> Delivery? {
        guard isObserved else { return nil }
        let next = stateToNotify
        guard next != notified else { return nil }
        notified = next
        return delivery(of: snapshot)
    }

    private var stateToNotify: NotifiedState {
        NotifiedState(
            version: version,
            sourceChanges: sourceChanges,
            asOf: state.held?.asOf,
            isFetching: state.isFetching,
            error: state.error
        )
    }

    /// Whether the entry has observers.
    ///
    /// The first one gets the current state when it is added.
    fileprivate var isObserved = false {
        didSet { if isObserved, !oldValue { notified = stateToNotify } }
    }

    /// Returns a notification of every observer with that state.
    fileprivate func delivery(of snapshot: VisibleState) -> Delivery { {} }

    /// Removes an observer.
    func removeObserver(_ id: UInt64) {}

    /// Removes all observers; the result ends their streams, outside of the lock.
    func removeObservers() -> Delivery { {} }
}

/// An entry whose observers are notified with values of their type.
// Unchecked for the reason above.
final class TypedEntry<Value: Codable & Sendable & Equatable>: Entry, @unchecked Sendable {
    /// Called with changes, in their order and outside of the lock.
    typealias Observer = Observers<ValueSnapshot<Value>>.Observer

    private var observers = Observers<ValueSnapshot<Value>>()

    override init(_ query: ErasedQuery, _ cacheScope: CacheScope, metrics: NamedMetrics) {
        super.init(query, cacheScope, metrics: metrics)
    }

    /// Adds an observer; returns its first notification.
    func add(_ observer: Observer, as id: UInt64) -> Delivery {
        observers.add(observer, as: id)
        isObserved = true
        return { [snapshot] in observer.deliver(snapshot.state(of: Value.self)) }
    }

    override func removeObserver(_ id: UInt64) {
        observers.remove(id)
        isObserved = !observers.isEmpty
    }

    fileprivate override func delivery(of snapshot: VisibleState) -> Delivery {
        { [crowd = observers.snapshot()] in crowd.notify(snapshot.state(of: Value.self)) }
    }

    override func removeObservers() -> Delivery {
        isObserved = false
        return observers.removeAll().finish
    }
}
