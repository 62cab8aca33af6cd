import SanguineModel
import Synchronization

/// Who observes values that are made of records.
///
/// After a change all values that it may concern are made anew from one state of the records, in
/// one pass; then all who observe them are told, unless theirs is equal to the last. A change
/// during a pass begins it again.
///
/// Mutable state: `state`, by its mutex, never held over the app's closures.
final class RecordObservers: Sendable {
    /// Makes a value; returns what tells of it, or `nil` if it is equal to the last.
    typealias Evaluate = @Sendable (RecordsReader) -> (@Sendable () -> Void)?

    private struct Observer {
        let collections: Set<String>
        let evaluate: Evaluate
        let finish: @Sendable () -> Void
        var isDirty = true
    }

    private struct State {
        var observers: [UInt64: Observer] = [:]
        var lastNumber: UInt64 = 0
        var isRunning = false
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Whether nobody observes.
    var isEmpty: Bool { state.withLock { $0.observers.isEmpty } }

    /// Observes from now on; the first pass comes at once.
    func add(
        _ collections: Set<String>,
        in keeper: SyncKeeper,
        finish: @escaping @Sendable () -> Void,
        evaluate: @escaping Evaluate
    ) -> UInt64? {
        let number = state.withLock { state -> UInt64? in
            guard !state.isClosed else { return nil }
            state.lastNumber += 1
            state.observers[state.lastNumber] = Observer(
                collections: collections,
                evaluate: evaluate,
                finish: finish
            )
            return state.lastNumber
        }
        if number != nil { run(in: keeper) }
        return number
    }

    /// Observes no longer.
    func remove(_ number: UInt64) { state.withLock { $0.observers[number] = nil } }

    /// Records have changed; all of them if `keys` is `nil`.
    func changed(_ keys: Set<RecordKey>?, in keeper: SyncKeeper) {
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
        if mustRun { run(in: keeper) }
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

    private func run(in keeper: SyncKeeper) {
        let mustStart = state.withLock { state in
            defer { state.isRunning = true }
            return !state.isRunning
        }
        // Not here: making values is the app's code, and `perform` must not wait for it.
        if mustStart { Task { [self] in while pass(in: keeper) {} } }
    }

    /// Returns whether there may be more to do.
    private func pass(in keeper: SyncKeeper) -> Bool {
        let dirty = state.withLock { state in
            let dirty = state.observers.filter(\.value.isDirty)
            for number in dirty.keys { state.observers[number]?.isDirty = false }
            if dirty.isEmpty { state.isRunning = false }
            return dirty.sorted { $0.key < $1.key }.map(\.value)
        }
        guard !dirty.isEmpty else { return false }
        let collections = dirty.reduce(into: Set<String>()) { $0.formUnion($1.collections) }
        let tellings = keeper.reading(collections) { reader in
            dirty.compactMap { $0.evaluate(reader) }
        }
        keeper.environment.turn.gather { for tell in tellings { tell() } }
        return true
    }
}

/// A value that was made of an epoch's records.
struct RecordAnswer<Value: Sendable & Equatable>: Sendable, Equatable {
    let value: Value
    /// The number of the epoch: in a later one it is no longer shown.
    let epoch: UInt64
}

/// What an observer was told last.
///
/// Mutable state: the answer, by its mutex; it is compared outside of it, by the one pass at a
/// time.
final class LastAnswer<Value: Sendable & Equatable>: Sendable {
    private let answer = Mutex<RecordAnswer<Value>?>(nil)

    /// What was told last.
    var present: RecordAnswer<Value>? { answer.withLock { $0 } }

    /// It is told now.
    func set(_ answer: RecordAnswer<Value>) { self.answer.withLock { $0 = answer } }
}

extension SyncKeeper {
    /// What the query gives now, then every change of it.
    func updates<Value>(of query: RecordQuery<Value>) -> AsyncStream<Value> {
        let (answers, continuation) = AsyncStream.makeStream(
            of: RecordAnswer<Value>.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let number = observe(query, finish: { continuation.finish() }) { answer in
            continuation.yield(answer)
        }
        if let number {
            continuation.onTermination = { [weak self] _ in self?.observers.remove(number) }
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
        guarded.withLock { $0.epoch.number == answer.epoch }
    }

    /// Calls the closure with what the query gives, at once and after each change; under no lock.
    func observe<Value>(
        _ query: RecordQuery<Value>,
        finish: @escaping @Sendable () -> Void = {},
        _ tell: @escaping @Sendable (RecordAnswer<Value>) -> Void
    ) -> UInt64? {
        activate()
        let last = LastAnswer<Value>()
        let number = observers.add(query.collections, in: self, finish: finish) { reader in
            let answer = RecordAnswer(value: query.read(reader), epoch: reader.view.epoch)
            guard last.present != answer else { return nil }
            return {
                last.set(answer)
                tell(answer)
            }
        }
        watch()
        return number
    }
}
