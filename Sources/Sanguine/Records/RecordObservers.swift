import SanguineModel
import Synchronization

/// Who observes values that are made of records.
///
/// After a change all values that it may concern are made anew from one state of the records, in
/// one pass; then all who observe them are told, unless theirs is equal to the last. A change
/// during a pass begins it again.
///
/// They observe the present user's records, whoever that is: when the user changes, all values are
/// made anew.
///
/// Mutable state: `state`, by its mutex, never held over the app's closures.
final class RecordObservers: Sendable {
    /// Makes a value; returns what tells of it, or `nil` if it is equal to the last.
    typealias Evaluate = @Sendable (RecordsReader) -> (@Sendable () -> Void)?

    private struct Observer {
        let collections: Set<String>
        let evaluate: Evaluate
        let finish: @Sendable () -> Void
        /// Has a model take over what is known now.
        let applyNow: (@MainActor @Sendable () -> Void)?
        var isDirty = true
    }

    private struct State {
        var observers: [UInt64: Observer] = [:]
        var lastNumber: UInt64 = 0
        var isRunning = false
        var isClosed = false
        var present: @Sendable () -> UserRecords? = { nil }
    }

    private let state = Mutex(State())
    private let turn: MainTurn

    /// - Parameter turn: Where models change.
    init(turn: MainTurn) { self.turn = turn }

    /// Says where the present user's records are found.
    func observe(_ present: @escaping @Sendable () -> UserRecords?) {
        state.withLock { $0.present = present }
    }

    /// The present user's records; `nil` once the client is gone.
    var present: UserRecords? { state.withLock { $0.present }() }

    /// Another user is there.
    func userChanged() {
        if !isEmpty {
            present?.use()
            present?.watch()
        }
        changed(nil)
    }

    /// Whether nobody observes.
    var isEmpty: Bool { state.withLock { $0.observers.isEmpty } }

    /// Observes from now on; the first pass comes at once.
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

    /// Observes no longer.
    func remove(_ number: UInt64) { state.withLock { $0.observers[number] = nil } }

    /// Records have changed; all of them if `keys` is `nil`.
    func changed(_ keys: Set<RecordKey>?) {
        let mustRun = state.withLock { state in
            guard !state.observers.isEmpty, keys?.isEmpty != true else { return false }
            let collections = keys.map { Set($0.map(\.collection)) }
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

    /// Has the models that records concern follow before this returns, if the main actor calls.
    ///
    /// - Parameter keys: The records. Default: all.
    func applyNow(_ keys: Set<RecordKey>? = nil) {
        guard MainTurn.isNow else { return }
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
        // Not here: making values is the app's code, and `perform` must not wait for it.
        if mustStart { Task { [self] in while pass() {} } }
    }

    /// Returns whether there may be more to do.
    private func pass() -> Bool {
        let dirty = state.withLock { state in
            let dirty = state.observers.filter(\.value.isDirty)
            for number in dirty.keys { state.observers[number]?.isDirty = false }
            if dirty.isEmpty { state.isRunning = false }
            return dirty.sorted { $0.key < $1.key }.map(\.value)
        }
        guard !dirty.isEmpty else { return false }
        let collections = dirty.reduce(into: Set<String>()) { $0.formUnion($1.collections) }
        let tellings = present?.reading(collections) { reader in
            dirty.compactMap { $0.evaluate(reader) }
        }
        guard let tellings else { return false }
        turn.gather { for tell in tellings { tell() } }
        return true
    }
}

/// A value that was made of one user's records.
struct RecordAnswer<Value: Sendable & Equatable>: Sendable, Equatable {
    let value: Value
    /// Why a record that the query reads is not in the value; `nil` if all can be read.
    let fault: Refusal?
    /// Whose records: when they are gone it is no longer shown.
    let source: UserRecords
    /// The number of the state of the records that it was made of.
    let revision: UInt64

    init(_ query: RecordQuery<Value>, _ reader: RecordsReader) {
        (value, fault) = reader.view.noting { query.read(reader) }
        source = reader.view.source
        revision = reader.view.readRevision
    }

    static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.hasSameValue(as: rhs) && lhs.fault == rhs.fault
    }

    func hasSameValue(as other: Self) -> Bool {
        source === other.source && value == other.value
    }
}

/// What an observer was told last.
///
/// Mutable state: the answer, by its mutex; it is compared outside of it, by the one pass at a
/// time.
final class LastAnswer<Value: Sendable & Equatable>: Sendable {
    private let answer = Mutex<RecordAnswer<Value>?>(nil)

    /// What was told last.
    var present: RecordAnswer<Value>? { answer.withLock { $0 } }

    /// It is told now; one that was made before the last one says nothing new.
    func set(_ answer: RecordAnswer<Value>) {
        self.answer.withLock { last in
            if let last, last.source === answer.source, last.revision > answer.revision { return }
            last = answer
        }
    }
}

extension RecordObservers {
    /// What the query gives now.
    func answer<Value>(to query: RecordQuery<Value>) -> RecordAnswer<Value>? {
        present?.reading(query.collections) { RecordAnswer(query, $0) }
    }

    /// What the query gives now, then every change of it.
    func updates<Value>(of query: RecordQuery<Value>) -> AsyncStream<Value> {
        let (answers, continuation) = AsyncStream.makeStream(
            of: RecordAnswer<Value>.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let told = LastAnswer<Value>()
        let number = observe(query, finish: { continuation.finish() }) { answer in
            // Only the fault may be another one.
            if let last = told.present, last.hasSameValue(as: answer) { return }
            told.set(answer)
            continuation.yield(answer)
        }
        if let number {
            continuation.onTermination = { [weak self] _ in self?.remove(number) }
        } else {
            continuation.finish()
        }
        return AsyncStream { [weak self] in
            // What was made for a user who has left while it lay here is nobody's.
            for await answer in answers where self?.isPresent(answer) == true {
                return answer.value
            }
            return nil
        }
    }

    /// Whether the answer is one of the present user's.
    func isPresent(_ answer: RecordAnswer<some Sendable & Equatable>) -> Bool {
        answer.source === present && !answer.source.hasEnded
    }

    /// Calls the closure with what the query gives, at once and after each change; under no lock.
    func observe<Value>(
        _ query: RecordQuery<Value>,
        finish: @escaping @Sendable () -> Void = {},
        applyNow: (@MainActor @Sendable (RecordAnswer<Value>) -> Void)? = nil,
        _ tell: @escaping @Sendable (RecordAnswer<Value>) -> Void
    ) -> UInt64? {
        present?.use()
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
            guard last.present != answer else { return nil }
            return {
                last.set(answer)
                tell(answer)
            }
        }
        present?.watch()
        return number
    }
}
