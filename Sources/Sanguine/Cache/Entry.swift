import Foundation
import SanguineModel

/// An entry of the cache: the state that decides, and the value and the callers that it is about.
///
/// Guarded by the lock of ``Entries``: everything in here is touched only while it is held.
// Unchecked: the compiler cannot see that the cache's lock guards it.
class Entry: @unchecked Sendable {
    typealias Answer = Result<ValueBox, SanguineError>
    typealias Waiter = CheckedContinuation<Answer, Never>

    /// What is known at one moment.
    struct Snapshot: Sendable {
        var box: ValueBox?
        var asOf: Timestamp?
        var isFetching = false
        /// See ``EntryState/currentFlight``.
        var currentFlight: UInt64?
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

    // What observers were last told. Versions stand for values: comparing values would run the
    // app's code under the cache's lock.
    private struct Told: Equatable {
        var version: UInt64
        var changesBeside: UInt64
        var asOf: Timestamp?
        var isFetching: Bool
        var error: SanguineError?
    }

    let key: QueryKey
    /// Whose store has it, and whose requests bring it.
    var partition: Partition
    var state = EntryState()
    /// The revision of the source's value that is shown, where there is a source.
    var sourceRevision: UInt64 = 0
    var flight: Task<Void, Never>?
    /// The table's count of uses when this one was last used; the smallest is evicted first.
    var lastUse: UInt64 = 0
    /// What the entry costs of the memory's limit, in bytes.
    var cost = ClientLimits.entryOverheadBytes
    /// Whether there is no need to look on disk (any more).
    var isLookedUp = false
    /// The value as it is shown, of the type of the entry's queries.
    var box: ValueBox?
    /// The value without the effects of operations, where there are any.
    var base: ValueBox?
    /// What else is known of the base, where there are effects.
    var notes = BaseNotes()
    /// The operations that the base contains, and that may still be in the outbox's file.
    var contained: Set<Int64> = []
    /// Names the base, as ``version`` names the value; stays 0 where there are no effects.
    var baseVersion: UInt64 = 0
    /// The cache's count when a base came last; 0 for one that an earlier process has left.
    var landedAt: UInt64 = 0
    /// Names the value: no other value of the key, before or after an eviction, has the number.
    var version: UInt64 = 0
    /// How often the value has changed since it was forgotten.
    var changes: UInt64 = 0
    /// How often what the source has beside the value has changed.
    var changesBeside: UInt64 = 0
    /// The count of changes when the value was last sent to be measured.
    var measuredChanges: UInt64 = 0
    /// The revision of the marks that the state knows of.
    var revision: UInt64 = 0
    /// The query that was used last: two of one key may have different policies.
    var query: ErasedQuery
    /// Who waits for the flight under way or the next one.
    var waiters: [UInt64: Waiter] = [:]
    /// Whether the table lists it among those that are observed.
    var isListed = false
    /// The policy under which ``ObservationHooks`` has told that the entry is observed.
    var toldPolicy: Policy?
    /// How often the value really changes, if its policy wants to know.
    var adaptive = AdaptiveState()
    /// The count of changes when a source's value was last looked at.
    private var changesSeen: UInt64?

    /// How much the flight under way matters.
    var flightPriority: RequestPriority?
    /// How high that was raised from here: who wants it no higher need not lock it.
    private var flightWanted = FetchPriority.prefetch
    /// How much the next one matters, if anybody has said so.
    var nextPriority: FetchPriority?

    /// Where reads are counted.
    let metrics: NamedMetrics

    private let type: ObjectIdentifier
    private var told: Told?

    fileprivate init(_ query: ErasedQuery, _ partition: Partition, metrics: NamedMetrics) {
        self.query = query
        self.metrics = metrics
        key = query.key
        type = query.type
        self.partition = partition
        isLookedUp = query.policy.tier == .inMemory
    }

    var policy: Policy { query.policy }
    var audience: Policy.Audience { query.policy.audience }

    /// Whether its values are of the query's type.
    func serves(_ query: ErasedQuery) -> Bool { type == query.type }

    /// Whether the value counts as true without asking again.
    func isFresh(_ policy: Policy, at now: Timestamp, in zone: TimeZone) -> Bool {
        let adapted = policy.adaptive.map { Policy.Freshness.duration(adaptive.ttl(within: $0)) }
        guard state.isFresh(adapted ?? policy.freshness, at: now, in: zone) else { return false }
        // Whatever else it is: what is to be fetched at midnight is not fresh after it.
        return !policy.refetchEvents.contains(.midnight)
            || state.isFresh(.untilMidnight, at: now, in: zone)
    }

    /// A source was asked: its value has changed or not, the effects of this device included.
    func look(at moment: Timestamp) {
        adaptive.landed(changed: changesSeen != nil && changesSeen != changes, at: moment)
        changesSeen = changes
    }

    /// Somebody who joins wants the value that much.
    ///
    /// - Returns: What is to be raised, outside of the lock: the flight that they share.
    func want(_ priority: FetchPriority) -> RequestPriority? {
        guard state.isFetching else {
            nextPriority = priority
            return nil
        }
        nextPriority = max(nextPriority ?? priority, priority)
        guard priority > flightWanted else { return nil }
        flightWanted = priority
        return flightPriority
    }

    /// How much the flight matters that takes off now.
    func takePriority() -> RequestPriority {
        defer { nextPriority = nil }
        let wanted = nextPriority ?? policy.priority
        flightWanted = state.isObserved ? max(wanted, policy.priority) : wanted
        let priority = RequestPriority(flightWanted)
        flightPriority = priority
        return priority
    }

    var snapshot: Snapshot {
        Snapshot(
            box: box,
            asOf: state.held?.asOf,
            isFetching: state.isFetching,
            currentFlight: state.currentFlight,
            error: state.error
        )
    }

    /// Stores a value.
    ///
    /// It always replaces the one that is there: equality is the app's word, and may ignore what
    /// the next change is computed from. A value that looks the same leaves the version as it is,
    /// so that no observer is notified.
    func set(_ value: ValueBox, looksSame: Bool, version: UInt64) {
        if looksSame, partition.fault == .keepsLookAlike { return }
        box = value
        guard !looksSame else { return }
        self.version = version
        changes += 1
    }

    /// Takes over what is shown, and the base that it is made of.
    func show(_ change: Entries.Change, number: UInt64) {
        let landing = change.landing.flatMap { $0.remaining.isEmpty ? nil : $0 }
        if landing != nil || base != nil {
            baseVersion = number
            base = landing?.base
            notes = landing?.notes ?? BaseNotes()
        }
        set(change.shown, looksSame: change.looksSame, version: number)
    }

    /// Shows the base as it is, without the effects that are over it.
    func dropEffects(number: UInt64) {
        guard let base else { return }
        baseVersion = number
        self.base = nil
        notes = BaseNotes()
        set(base, looksSame: false, version: number)
    }

    /// Forgets the value, and is another user's from now on.
    func pass(to partition: Partition) {
        self.partition = partition
        isLookedUp = policy.tier == .inMemory
        sourceRevision = 0
        box = nil
        base = nil
        notes = BaseNotes()
        contained = []
        landedAt = 0
        changes = 0
        measuredChanges = 0
        (adaptive, changesSeen) = (AdaptiveState(), nil)
        version += 1
    }

    /// Starts the flight of that number.
    func launch(_ flight: UInt64, by pilot: Entries.Pilot?) {
        let (query, partition) = (query, partition)
        let priority = takePriority()
        // Detached: the flight belongs to all its callers, so it has the cancellation of none.
        self.flight = Task.detached(priority: Task.currentPriority) {
            await pilot?(query, flight, partition, priority)
        }
    }

    /// Takes the waiters out, who are to be answered outside of the lock.
    func take(_ numbers: [UInt64]) -> [UInt64: Waiter] {
        guard numbers.count < waiters.count else {
            // All of them, as nearly always: in one piece, however many they are.
            defer { waiters = [:] }
            return waiters
        }
        var taken: [UInt64: Waiter] = [:]
        for number in numbers { taken[number] = waiters.removeValue(forKey: number) }
        return taken
    }

    // MARK: - Observers

    /// Returns what tells every observer the present state, or `nil` if they know it.
    func publish() -> Delivery? {
        guard isObserved else { return nil }
        let news = news
        guard news != told else { return nil }
        told = news
        return delivery(of: snapshot)
    }

    private var news: Told {
        Told(
            version: version,
            changesBeside: changesBeside,
            asOf: state.held?.asOf,
            isFetching: state.isFetching,
            error: state.error
        )
    }

    /// Whether there is anybody to tell.
    ///
    /// The first one is told the present state when it comes.
    fileprivate var isObserved = false {
        didSet { if isObserved, !oldValue { told = news } }
    }

    /// Returns what tells every observer that state.
    fileprivate func delivery(of snapshot: Snapshot) -> Delivery { {} }

    /// Removes an observer.
    func removeObserver(_ id: UInt64) {}

    /// Takes the observers out; the result ends their streams, outside of the lock.
    func takeObservers() -> Delivery { {} }
}

/// An entry with observers, who are told values of their type.
// Unchecked for the reason above.
final class TypedEntry<Value: Codable & Sendable & Equatable>: Entry, @unchecked Sendable {
    /// Whoever is told of changes, outside of the lock and in their order.
    typealias Observer = Observers<ValueSnapshot<Value>>.Observer

    private var observers = Observers<ValueSnapshot<Value>>()

    override init(_ query: ErasedQuery, _ partition: Partition, metrics: NamedMetrics) {
        super.init(query, partition, metrics: metrics)
    }

    /// Adds an observer; returns what tells it the present state.
    func add(_ observer: Observer, as id: UInt64) -> Delivery {
        observers.add(observer, as: id)
        isObserved = true
        return { [snapshot] in observer.hear(snapshot.state(of: Value.self)) }
    }

    override func removeObserver(_ id: UInt64) {
        observers.remove(id)
        isObserved = !observers.isEmpty
    }

    fileprivate override func delivery(of snapshot: Snapshot) -> Delivery {
        { [crowd = observers.crowd()] in crowd.tell(snapshot.state(of: Value.self)) }
    }

    override func takeObservers() -> Delivery {
        isObserved = false
        return observers.takeAll().finish
    }
}
