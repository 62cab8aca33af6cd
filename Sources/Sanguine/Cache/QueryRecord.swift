import Foundation
import SanguineModel

/// An entry of the cache: the state that decides, and the value and the callers that it is about.
///
/// Guarded by the lock of ``QueryCache``: everything in here is touched only while it is held.
// Unchecked: the compiler cannot see that the cache's lock guards it.
class QueryRecord: @unchecked Sendable {
    let key: QueryKey
    var state: EntryState
    var flight: Task<Void, Never>?
    /// The cache's count of uses when this one was last used; the smallest is evicted first.
    var lastUse: UInt64 = 0
    /// What the entry costs of the memory's limit, in bytes.
    var cost = ClientLimits.entryOverheadBytes
    /// Whether there is no need to look on disk (any more).
    var isLookedUp = false
    /// The value, of the type of the record's queries.
    var box: ValueBox?
    /// Names the value: no other value of the key, before or after an eviction, has the number.
    var version: UInt64 = 0
    /// How often the value has changed since it was forgotten.
    var changes: UInt64 = 0
    /// The count of changes when the value was last sent to be measured.
    var measuredChanges: UInt64 = 0
    /// The revision of the marks that the state knows of.
    var revision: UInt64 = 0
    /// The policy under which the observation hook was told that the entry is observed.
    var toldPolicy: Policy?
    /// How often the value really changes, if its policy wants to know.
    var adaptive = AdaptiveState()

    /// How much the flight under way matters.
    var flightPriority: RequestPriority?
    /// How much the next one matters, if anybody has said so.
    var nextPriority: FetchPriority?

    /// Where reads are counted.
    let metrics: NamedMetrics

    init(key: QueryKey, epoch: UInt64, metrics: NamedMetrics) {
        self.key = key
        self.metrics = metrics
        state = EntryState(epoch: epoch)
    }

    var policy: Policy { preconditionFailure("A record is always a typed one.") }
    var audience: Policy.Audience { policy.audience }

    /// Whether the value counts as true without asking again.
    func isFresh(_ policy: Policy, at now: Timestamp, in zone: TimeZone) -> Bool {
        let adapted = policy.adaptive.map { Policy.Freshness.duration(adaptive.ttl(within: $0)) }
        guard state.isFresh(adapted ?? policy.freshness, at: now, in: zone) else { return false }
        // Whatever else it is: what is to be fetched at midnight is not fresh after it.
        return !policy.refetchEvents.contains(.midnight)
            || state.isFresh(.untilMidnight, at: now, in: zone)
    }

    /// Somebody who joins wants the value that much.
    ///
    /// - Returns: What is to be raised, outside of the lock: the flight that they share.
    func want(_ priority: FetchPriority) -> RequestPriority? {
        nextPriority = state.isFetching ? max(nextPriority ?? priority, priority) : priority
        return state.isFetching ? flightPriority : nil
    }

    /// How much the flight matters that takes off now.
    func takePriority() -> RequestPriority {
        defer { nextPriority = nil }
        let wanted = nextPriority ?? policy.priority
        let priority = RequestPriority(state.isObserved ? max(wanted, policy.priority) : wanted)
        flightPriority = priority
        return priority
    }

    /// Forgets the value.
    func forget() {}

    /// Returns what tells every observer the present state, or `nil` if they know it.
    func publish() -> (@Sendable () -> Void)? { nil }

    /// Starts the flight of that number.
    func launch(_ flight: UInt64, in cache: QueryCache) {}

    /// Takes the waiters out; the result answers them, outside of the lock.
    func takeAnswers(_ waiters: [UInt64], failure: SanguineError) -> @Sendable () -> Void { {} }

    /// Takes the observers out; the result ends their streams, outside of the lock.
    func takeObservers() -> @Sendable () -> Void { {} }
}

/// A record whose value has a type.
// Unchecked for the reason above.
final class TypedRecord<Value: Codable & Sendable & Equatable>: QueryRecord, @unchecked Sendable {
    typealias Answer = Result<Value, SanguineError>
    typealias Waiter = CheckedContinuation<Answer, Never>
    /// Whoever is told of changes, outside of the lock and in their order.
    struct Observer: Sendable {
        let tell: @Sendable (QueryState<Value>) -> Void
        let finish: @Sendable () -> Void
    }

    // What observers were last told. Versions stand for values: comparing values would run the
    // app's code under the cache's lock.
    private struct Told: Equatable {
        var version: UInt64
        var asOf: Timestamp?
        var isFetching: Bool
        var error: SanguineError?
    }

    var query: Query<Value>
    var value: Value? { box?.value(as: Value.self) }
    var waiters: [UInt64: Waiter] = [:]
    private var observers: [UInt64: Observer] = [:]
    private var told: Told?

    init(_ query: Query<Value>, epoch: UInt64, metrics: NamedMetrics) {
        self.query = query
        super.init(key: query.key, epoch: epoch, metrics: metrics)
        isLookedUp = query.policy.tier == .inMemory
    }

    override var policy: Policy { query.policy }

    var snapshot: QueryState<Value> {
        QueryState(
            value: value,
            asOf: state.held?.asOf,
            isFetching: state.isFetching,
            error: state.error
        )
    }

    /// Takes a value over.
    ///
    /// An equal one changes no version, so that no observer is woken for it.
    func set(_ value: Value, isEqual: Bool, version: UInt64) {
        guard !isEqual else { return }
        box = .of(value)
        self.version = version
        changes += 1
    }

    /// Adds an observer; returns what tells it the present state.
    func add(_ observer: Observer, as id: UInt64) -> @Sendable () -> Void {
        observers[id] = observer
        return { [snapshot] in observer.tell(snapshot) }
    }

    func removeObserver(_ id: UInt64) { observers[id] = nil }

    override func forget() {
        box = nil
        changes = 0
        measuredChanges = 0
        adaptive = AdaptiveState()
        version += 1
        cost = ClientLimits.entryOverheadBytes
    }

    override func publish() -> (@Sendable () -> Void)? {
        let news = Told(
            version: version,
            asOf: state.held?.asOf,
            isFetching: state.isFetching,
            error: state.error
        )
        guard news != told else { return nil }
        told = news
        guard !observers.isEmpty else { return nil }
        return { [snapshot, observers] in
            for observer in observers.values { observer.tell(snapshot) }
        }
    }

    override func launch(_ flight: UInt64, in cache: QueryCache) {
        let query = query
        let epoch = state.epoch
        let priority = takePriority()
        // Detached: the flight belongs to all its callers, so it has the cancellation of none.
        self.flight = Task.detached(priority: Task.currentPriority) { [weak cache] in
            await cache?.fly(query, flight: flight, epoch: epoch, priority: priority)
        }
    }

    override func takeAnswers(
        _ waiters: [UInt64],
        failure: SanguineError
    ) -> @Sendable () -> Void {
        takeAnswers(waiters, .failure(failure))
    }

    func takeAnswers(_ waiters: [UInt64], _ answer: Answer) -> @Sendable () -> Void {
        let taken = waiters.compactMap { self.waiters.removeValue(forKey: $0) }
        return { for waiter in taken { waiter.resume(returning: answer) } }
    }

    override func takeObservers() -> @Sendable () -> Void {
        let taken = Array(observers.values)
        observers = [:]
        return { for observer in taken { observer.finish() } }
    }
}
