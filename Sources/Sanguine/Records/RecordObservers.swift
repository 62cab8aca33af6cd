import SanguineModel
import Synchronization

/// The observers of values that are made from records.
///
/// After a change, all values that it may affect are computed from one state of the records, in one
/// pass. Then their observers are notified, unless the value equals the previous one. A change
/// during a pass starts another pass.
///
/// Observers follow the current user's records: when the user changes, all values are computed
/// again.
///
/// Mutable state: `state`, protected by its mutex, which is never held during the app's closures.
final class RecordObservers: Sendable {
    /// Computes a value; returns a closure that delivers it, or `nil` if it equals the last one.
    typealias Evaluate = @Sendable (RecordsReader) -> (@Sendable () -> Void)?

    private struct Observer {
        let collections: Set<String>
        let evaluate: Evaluate
        let finish: @Sendable () -> Void
        /// Updates a model with the current value.
        let applyNow: (@MainActor @Sendable () -> Void)?
        var isDirty = true
    }

    private struct State {
        var observers: [UInt64: Observer] = [:]
        var lastNumber: UInt64 = 0
        var isRunning = false
        var isClosed = false
        var current: @Sendable () -> UserRecords? = { nil }
    }

    private let state = Mutex(State())
    private let mainActorBatch: MainActorBatch

    /// - Parameter mainActorBatch: The turn of the main actor in which models change.
    init(mainActorBatch: MainActorBatch) { self.mainActorBatch = mainActorBatch }

    /// Sets the closure that returns the current user's records.
    func observe(_ current: @escaping @Sendable () -> UserRecords?) {
        state.withLock { $0.current = current }
    }

    /// The current user's records; `nil` once the client is released.
    var current: UserRecords? { state.withLock { $0.current }() }

    /// Continues with another user's records.
    func userChanged() {
        if !isEmpty {
            current?.use()
            current?.watch()
        }
        changed(nil)
    }

    /// Whether there are no observers.
    var isEmpty: Bool { state.withLock { $0.observers.isEmpty } }

    /// Adds an observer, and starts the first pass at once.
    func add(
        _ collections: Set<String>,
        finish: @escaping @Sendable () -> Void,
        applyNow: (@MainActor @Sendable () -> Void)? = nil,
        evaluate: @escaping Evaluate
    ) -> UInt64? {
        let number = state.withLock { state -> UInt64? in
            guard !state.isClosed else { return nil }
            state.lastNumber += 1
            state.observers[state.lastNumber] = Observer(
                collections: collections,
                evaluate: evaluate,
                finish: finish,
                applyNow: applyNow
            )
            return state.lastNumber
        }
        if number != nil { run() }
        return number
    }

    /// Removes an observer.
    func remove(_ number: UInt64) { state.withLock { $0.observers[number] = nil } }

    /// Computes the values of changed records; of all records if `keys` is `nil`.
    func changed(_ keys: Set<RecordKey>?) {
        guard keys?.isEmpty != true else { return }
        changed(in: keys.map { Set($0.map(\.collection)) })
    }

    /// Computes the values that read one of the collections; all values if they are `nil`.
    func changed(in collections: Set<String>?) {
        let mustRun = state.withLock { state in
            var isAny = false
            for (number, observer) in state.observers {
                if let collections, observer.collections.isDisjoint(with: collections) { continue }
                state.observers[number]?.isDirty = true
                isAny = true
            }
            return isAny
        }
        if mustRun { run() }
    }

    /// Updates the models of these records before it returns, if called on the main actor.
    ///
    /// - Parameter keys: The records. Default: `nil`, which means all.
    func applyNow(_ keys: Set<RecordKey>? = nil) {
        guard MainActorBatch.isNow else { return }
        let collections = keys.map { Set($0.map(\.collection)) }
        let models = state.withLock { state in
            state.observers.sorted { $0.key < $1.key }.map(\.value)
                .filter { observer in
                    collections.map { !observer.collections.isDisjoint(with: $0) } ?? true
                }
                .compactMap(\.applyNow)
        }
        MainActor.assumeIsolated { for apply in models { apply() } }
    }

    /// Ends all observation.
    func close() {
        let observers = state.withLock { state in
            state.isClosed = true
            defer { state.observers = [:] }
            return state.observers.values
        }
        for observer in observers { observer.finish() }
    }

    private func run() {
        let mustStart = state.withLock { state in
            defer { state.isRunning = true }
            return !state.isRunning
        }
        // In a task, because computing values runs the app's code, and `perform` must not wait for
        // it.
        if mustStart { Task { [self] in while pass() {} } }
    }

    /// Runs a pass; returns whether there may be more to do.
    private func pass() -> Bool {
        let dirty = state.withLock { state in
            let dirty = state.observers.filter(\.value.isDirty)
            for number in dirty.keys { state.observers[number]?.isDirty = false }
            if dirty.isEmpty { state.isRunning = false }
            return dirty.sorted { $0.key < $1.key }.map(\.value)
        }
        guard !dirty.isEmpty else { return false }
        let collections = dirty.reduce(into: Set<String>()) { $0.formUnion($1.collections) }
        let tellings = current?.reading(collections) { reader in
            dirty.compactMap { $0.evaluate(reader) }
        }
        guard let tellings else { return false }
        mainActorBatch.performTogether { for tell in tellings { tell() } }
        return true
    }
}

/// A value that was made from one user's records.
struct RecordAnswer<Value: Sendable & Equatable>: Sendable, Equatable {
    let value: Value
    /// The reason why a record that the query reads is missing in the value; `nil` if all can be
    /// decoded.
    let fault: Refusal?
    /// The user's records; once they have ended, the value is no longer shown.
    let source: UserRecords
    /// The revision of the records that it was made from.
    let revision: UInt64
    /// Whether the result was made from all of the user's records.
    let isComplete: Bool

    init(_ query: RecordQuery<Value>, _ reader: RecordsReader) {
        isComplete = reader.isComplete
        (value, fault) = reader.view.capturingFailure { query.read(reader) }
        source = reader.view.source
        revision = reader.view.readRevision
    }

    static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.hasSameValue(as: rhs) && lhs.fault == rhs.fault && lhs.isComplete == rhs.isComplete
    }

    func hasSameValue(as other: Self) -> Bool {
        source === other.source && value == other.value
    }
}

/// The last answer that was delivered to an observer.
///
/// Mutable state: the answer, protected by its mutex. It is compared without holding the mutex, in
/// one pass at a time.
final class LastAnswer<Value: Sendable & Equatable>: Sendable {
    private let answer = Mutex<RecordAnswer<Value>?>(nil)

    /// The last delivered answer.
    var current: RecordAnswer<Value>? { answer.withLock { $0 } }

    /// Stores a delivered answer, unless it is older than the last one.
    func set(_ answer: RecordAnswer<Value>) {
        self.answer.withLock { last in
            if let last, last.source === answer.source, last.revision > answer.revision { return }
            last = answer
        }
    }
}

extension RecordObservers {
    /// Returns the query's current answer.
    func answer<Value>(to query: RecordQuery<Value>) -> RecordAnswer<Value>? {
        current?.reading(query.collections) { RecordAnswer(query, $0) }
    }

    /// Returns the query's current value, then every change of it.
    func updates<Value>(of query: RecordQuery<Value>) -> AsyncStream<Value> {
        let (answers, continuation) = AsyncStream.makeStream(
            of: RecordAnswer<Value>.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let notified = LastAnswer<Value>()
        let number = observe(query, finish: { continuation.finish() }) { answer in
            // Only the fault or the completeness may have changed.
            if let last = notified.current, last.hasSameValue(as: answer) { return }
            notified.set(answer)
            continuation.yield(answer)
        }
        if let number {
            continuation.onTermination = { [weak self] _ in self?.remove(number) }
        } else {
            continuation.finish()
        }
        return AsyncStream { [weak self] in
            // An answer that waited here while its user left is dropped.
            for await answer in answers where self?.isCurrent(answer) == true {
                return answer.value
            }
            return nil
        }
    }

    /// Whether the answer is made from the current user's records.
    func isCurrent(_ answer: RecordAnswer<some Sendable & Equatable>) -> Bool {
        answer.source === current && !answer.source.hasEnded
    }

    /// Calls the closure with the query's answer, at once and after each change, with no lock held.
    func observe<Value>(
        _ query: RecordQuery<Value>,
        finish: @escaping @Sendable () -> Void = {},
        applyNow: (@MainActor @Sendable (RecordAnswer<Value>) -> Void)? = nil,
        _ tell: @escaping @Sendable (RecordAnswer<Value>) -> Void
    ) -> UInt64? {
        current?.use()
        let last = LastAnswer<Value>()
        let now = applyNow.map { apply in
            { @MainActor @Sendable [weak self] in
                guard let answer = self?.answer(to: query) else { return }
                last.set(answer)
                apply(answer)
            }
        }
        let number = add(query.collections, finish: finish, applyNow: now) { reader in
            let answer = RecordAnswer(query, reader)
            guard last.current != answer else { return nil }
            return {
                last.set(answer)
                tell(answer)
            }
        }
        current?.watch()
        return number
    }
}
