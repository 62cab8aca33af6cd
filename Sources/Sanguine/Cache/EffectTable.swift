import SanguineModel
import Synchronization

/// What one of the app's own operations does to the values of one key.
struct Effect: Sendable {
    /// The operation's number: effects are applied in its order.
    let sequence: Int64
    /// Whose values are changed.
    let query: ErasedQuery
    /// Changes a value; the app's code, so never called under a lock.
    let change: @Sendable (ValueBox, Effect) -> ValueBox
    /// How it becomes a part of a list; `nil` for a single value.
    var list: ListEffect?
    /// The cache's count at the first sending that may have been done; `nil` if there is none.
    var sentAt: UInt64?
    /// The cache's count when it was acknowledged.
    var acknowledgedAt: UInt64?
    /// Whether a value contains it, where that can be seen; the app's code.
    var isReached: (@Sendable (ValueBox) -> Bool)?

    /// The value with the effect.
    func applied(to box: ValueBox) -> ValueBox { change(box, self) }
}

/// How an effect on the rows of a list becomes a part of them.
///
/// A fetch brings one page of a list. So what an operation has done to the others is laid into
/// their rows, *folded*, when it is done.
struct ListEffect: Sendable {
    /// Whether it was folded into a list.
    let isFolded: @Sendable (ValueBox, _ sequence: Int64) -> Bool
    /// Folds it into a list, if it was not.
    let folded: @Sendable (ValueBox, Effect) -> ValueBox
    /// Folds all that is done into the rows as they are shown.
    let fold: @Sendable () -> Void
    /// No row contains what that operation, which has reached nobody, does.
    let dispel: @Sendable (_ sequence: Int64) -> Void
}

/// The effects of all operations that are not settled, by key.
///
/// Pure but for what a list remembers of its last application. Invariants: the effects of a key
/// are in the order of their operations, one of each; no list is empty; `keys` names exactly the
/// keys of the lists, by operation.
struct EffectTable: Sendable {
    /// The effects of a key, with what tells this list from every other.
    struct List: Sendable {
        private(set) var effects: [Effect] = []
        private(set) var version: UInt64 = 0
        /// Names the list from which this one differs by effects at its end alone.
        private var stem: UInt64 = 0
        private let last: LastApplication?

        /// Effects that are applied once.
        init(effects: [Effect]) {
            self.effects = effects
            last = nil
        }

        /// Effects that come and go.
        fileprivate init() { last = LastApplication() }

        /// What is shown of a base.
        ///
        /// After an effect at the end only that one is applied, to what was shown before.
        ///
        /// - Parameters:
        ///   - base: The base.
        ///   - doubts: The operations that the base may contain already: their effects wait.
        /// - Returns: The value.
        func applied(to base: ValueBox, doubts: Doubts = Doubts()) -> ValueBox {
            guard doubts.isEmpty else {
                return effects.reduce(base) { value, effect in
                    doubts.contains(effect) ? value : effect.applied(to: value)
                }
            }
            let known = last?.known(of: base, stem, atMost: effects.count)
            var shown = known?.shown ?? base
            for effect in effects[(known?.count ?? 0)...] { shown = effect.applied(to: shown) }
            last?.keep(shown, of: base, stem, effects.count)
            return shown
        }

        /// Forgets what was applied last: an entry leaves the memory.
        func forgetShown() { last?.forget() }

        /// The effect of an operation.
        func effect(of sequence: Int64) -> Effect? {
            place(of: sequence).map { effects[$0] }
        }

        fileprivate mutating func insert(_ effect: Effect, number: UInt64) {
            version = number
            guard let next = effects.last, next.sequence > effect.sequence else {
                return effects.append(effect)
            }
            stem = number
            effects.insert(effect, at: firstPlace(from: effect.sequence))
        }

        fileprivate mutating func remove(_ sequence: Int64, number: UInt64) {
            version = number
            guard let place = place(of: sequence) else { return }
            stem = number
            effects.remove(at: place)
        }

        fileprivate mutating func note(
            _ sequence: Int64,
            number: UInt64,
            changesShown: Bool,
            _ change: (inout Effect) -> Void
        ) {
            version = number
            if changesShown { stem = number }
            if let place = place(of: sequence) { change(&effects[place]) }
        }

        private func place(of sequence: Int64) -> Int? {
            let place = firstPlace(from: sequence)
            return place < effects.count && effects[place].sequence == sequence ? place : nil
        }

        /// Where the first effect is that is not before the operation's.
        private func firstPlace(from sequence: Int64) -> Int {
            effects.partitioningIndex { $0.sequence >= sequence }
        }
    }

    private var lists: [QueryKey: List] = [:]
    private var keys: [Int64: [ErasedQuery]] = [:]

    /// The effects of the key; none, nearly always.
    func list(of key: QueryKey) -> List? { lists.isEmpty ? nil : lists[key] }

    /// The queries that the operation changes.
    func queries(of sequence: Int64) -> [ErasedQuery] { keys[sequence] ?? [] }

    /// Puts the operation's effects in the place of those that it had.
    ///
    /// - Returns: The queries that show something else from now on.
    mutating func set(
        _ effects: [Effect],
        of sequence: Int64,
        number: UInt64
    ) -> [ErasedQuery] {
        let old = queries(of: sequence)
        // What became of the operation stays, whatever it does.
        let known = old.first.flatMap { lists[$0.key]?.effect(of: sequence) }
        for query in old { remove(sequence, from: query.key, number: number) }
        for var effect in effects {
            effect.sentAt = known?.sentAt ?? effect.sentAt
            effect.acknowledgedAt = known?.acknowledgedAt ?? effect.acknowledgedAt
            effect.isReached = known?.isReached ?? effect.isReached
            lists[effect.query.key, default: List()].insert(effect, number: number)
        }
        keys[sequence] = effects.isEmpty ? nil : effects.map(\.query)
        let fresh = effects.map(\.query)
        return fresh + old.filter { query in !fresh.contains { $0.key == query.key } }
    }

    /// Changes what is known of the operation, and by that what is shown, if it says so.
    mutating func note(
        _ sequence: Int64,
        number: UInt64,
        changesShown: Bool = false,
        _ change: (inout Effect) -> Void
    ) {
        for query in queries(of: sequence) {
            lists[query.key]?
                .note(sequence, number: number, changesShown: changesShown, change)
        }
    }

    /// Takes the operation's effect on one key out.
    mutating func remove(_ sequence: Int64, from key: QueryKey, number: UInt64) {
        guard lists[key] != nil else { return }
        lists[key]?.remove(sequence, number: number)
        if lists[key]?.effects.isEmpty == true { lists[key] = nil }
        keys[sequence]?.removeAll { $0.key == key }
        if keys[sequence]?.isEmpty == true { keys[sequence] = nil }
    }
}

/// What a list of effects has made of a base last, so that one more effect is one application.
///
/// Shared by all copies of a list; it changes nothing of what a list is.
///
/// Mutable state: `state`, by its mutex.
private final class LastApplication: Sendable {
    private struct State {
        // Weak: a base that nobody has any more is asked for by nobody.
        weak var base: ValueBox?
        var shown: ValueBox?
        var stem: UInt64 = 0
        var count = 0
    }

    private let state = Mutex(State())

    /// How many effects were applied to the base, and what came of it.
    func known(
        of base: ValueBox,
        _ stem: UInt64,
        atMost count: Int
    ) -> (count: Int, shown: ValueBox)? {
        state.withLock { state in
            guard let shown = state.shown, state.base === base, state.stem == stem,
                state.count <= count
            else { return nil }
            return (state.count, shown)
        }
    }

    func keep(_ shown: ValueBox, of base: ValueBox, _ stem: UInt64, _ count: Int) {
        state.withLock { state in
            // Of two who apply it at the same time, the one who knows more counts.
            guard state.base !== base || state.stem != stem || state.count <= count else { return }
            state.base = base
            state.shown = shown
            state.stem = stem
            state.count = count
        }
    }

    func forget() { state.withLock { $0 = State() } }
}

extension [Effect] {
    /// Where the second half begins, of effects whose first half does not fulfil the condition.
    fileprivate func partitioningIndex(where isSecondHalf: (Effect) -> Bool) -> Int {
        var places = startIndex..<endIndex
        while !places.isEmpty {
            let middle = places.lowerBound + places.count / 2
            if isSecondHalf(self[middle]) {
                places = places.lowerBound..<middle
            } else {
                places = middle + 1..<places.upperBound
            }
        }
        return places.lowerBound
    }
}

/// The operations that a base may contain: their effects are not applied to it.
///
/// Each with the sending that the base may contain. One that is found to have reached nobody is in
/// no base, and stays in none when it is sent again.
struct Doubts: Sendable, Equatable {
    /// The cache's count at the sending; 0 if that was in an earlier process.
    private var sendings: [Int64: UInt64] = [:]

    /// Operations that an earlier process has sent.
    init(_ operations: Set<Int64> = []) {
        for operation in operations { sendings[operation] = 0 }
    }

    /// The effects' operations.
    init(_ effects: [Effect]) {
        for effect in effects { sendings[effect.sequence] = effect.sending }
    }

    var isEmpty: Bool { sendings.isEmpty }
    var operations: Set<Int64> { Set(sendings.keys) }

    mutating func remove(_ operation: Int64) { sendings[operation] = nil }

    func contains(_ effect: Effect) -> Bool {
        guard let sending = effect.sending else { return false }
        return sendings[effect.sequence] == sending
    }
}

extension Effect {
    /// The cache's count when it was first sent, so that it may have been done since; `nil` if it
    /// has reached nobody, 0 if that was in an earlier process.
    var sending: UInt64? { sentAt ?? acknowledgedAt.map { _ in 0 } }
}
