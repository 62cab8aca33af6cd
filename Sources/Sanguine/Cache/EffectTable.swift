import SanguineModel
import Synchronization

/// The effect of one of the app's own operations on the values of one key.
struct Effect: Sendable {
    /// The operation's number: effects are applied in this order.
    let sequence: Int64
    /// The query of the values that it changes.
    let query: ErasedQuery
    /// Changes a value; the app's code, so never called under a lock.
    let change: @Sendable (ValueBox, Effect) -> ValueBox
    /// Merges the effect into a list; `nil` for a single value.
    var list: ListEffect?
    /// The cache's count when it was first sent; `nil` if no request can have reached the server.
    var sentAt: UInt64?
    /// The cache's count when it was acknowledged.
    var acknowledgedAt: UInt64?
    /// The name of its mutation.
    var mutation = ""
    /// Whether a switch of the server lets it be shown only after its answer.
    var isWithheld = false
    /// Tests whether a value contains it, where a value shows this; the app's code.
    var isReached: (@Sendable (ValueBox) -> Bool)?

    /// Returns the value with the effect.
    func applied(to box: ValueBox) -> ValueBox { change(box, self) }

    /// Whether values are shown without it, because it is withheld and not acknowledged.
    ///
    /// It counts in all other ways: what a fetched value contains of it does not depend on what is
    /// shown.
    var isHidden: Bool { isWithheld && acknowledgedAt == nil }
}

/// The way in which an effect on the rows of a list is merged into them.
///
/// A fetch returns one page of a list. So when an operation is applied, its effect is merged into
/// the rows of the other pages.
struct ListEffect: Sendable {
    /// Returns whether the effect was merged into a list.
    let isMerged: @Sendable (ValueBox, _ sequence: Int64) -> Bool
    /// Merges the effect into a list, unless that was done before.
    let merged: @Sendable (ValueBox, Effect) -> ValueBox
    /// Merges all applied operations into the rows that are shown.
    let merge: @Sendable () -> Void
    /// Records that no row contains the operation, because it did not reach the server.
    let clearPossiblyApplied: @Sendable (_ sequence: Int64) -> Void
}

/// The effects of all unsettled operations, by key.
///
/// Pure, except that a list remembers its last application. Invariants: the effects of a key are in
/// the order of their operations, one for each; no list is empty; `keys` maps each operation to
/// exactly the keys of its lists.
struct EffectTable: Sendable {
    /// The effects of a key, with a version that identifies the list.
    struct List: Sendable {
        private(set) var effects: [Effect] = []
        private(set) var version: UInt64 = 0
        /// Identifies the list from which this one differs only by effects at its end.
        private var stem: UInt64 = 0
        private let last: LastApplication?
        private let showsAll: Bool

        /// Effects that are applied once.
        ///
        /// - Parameters:
        ///   - effects: The effects.
        ///   - showsAll: Whether hidden ones are applied too. Default: no.
        init(effects: [Effect], showsAll: Bool = false) {
            self.effects = effects
            self.showsAll = showsAll
            last = nil
        }

        /// A list of effects that changes over time.
        fileprivate init() { (last, showsAll) = (LastApplication(), false) }

        /// Applies the effects to a base.
        ///
        /// After a new effect at the end, only that one is applied, to the value shown before.
        ///
        /// - Parameters:
        ///   - base: The base.
        ///   - possiblyApplied: The operations that the base may already contain: their effects are
        ///     left out.
        /// - Returns: The value to show.
        func applied(
            to base: ValueBox,
            possiblyApplied: PossiblyApplied = PossiblyApplied()
        ) -> ValueBox {
            guard possiblyApplied.isEmpty else {
                return effects.reduce(base) { value, effect in
                    let isLeftOut = possiblyApplied.contains(effect) || isHidden(effect)
                    return isLeftOut ? value : effect.applied(to: value)
                }
            }
            let known = last?.known(of: base, stem, atMost: effects.count)
            var shown = known?.shown ?? base
            for effect in effects[(known?.count ?? 0)...] where !isHidden(effect) {
                shown = effect.applied(to: shown)
            }
            last?.keep(shown, of: base, stem, effects.count)
            return shown
        }

        private func isHidden(_ effect: Effect) -> Bool { !showsAll && effect.isHidden }

        /// Releases the result of the last application, because the entry leaves the memory.
        func forgetShown() { last?.forget() }

        /// Returns the effect of an operation.
        func effect(of sequence: Int64) -> Effect? {
            index(of: sequence).map { effects[$0] }
        }

        fileprivate mutating func insert(_ effect: Effect, number: UInt64) {
            version = number
            guard let next = effects.last, next.sequence > effect.sequence else {
                return effects.append(effect)
            }
            stem = number
            effects.insert(effect, at: firstIndex(from: effect.sequence))
        }

        fileprivate mutating func remove(_ sequence: Int64, number: UInt64) {
            version = number
            guard let index = index(of: sequence) else { return }
            stem = number
            effects.remove(at: index)
        }

        fileprivate mutating func update(
            _ sequence: Int64,
            number: UInt64,
            changesShown: Bool,
            _ change: (inout Effect) -> Void
        ) {
            version = number
            if changesShown { stem = number }
            if let index = index(of: sequence) { change(&effects[index]) }
        }

        private func index(of sequence: Int64) -> Int? {
            let index = firstIndex(from: sequence)
            return index < effects.count && effects[index].sequence == sequence ? index : nil
        }

        /// Returns the index of the first effect that is not before the operation's.
        private func firstIndex(from sequence: Int64) -> Int {
            effects.partitioningIndex { $0.sequence >= sequence }
        }
    }

    private var lists: [QueryKey: List] = [:]
    private var keys: [Int64: [ErasedQuery]] = [:]

    /// Returns the effects of the key; nearly always none.
    func list(of key: QueryKey) -> List? { lists.isEmpty ? nil : lists[key] }

    /// Returns the queries that the operation changes.
    func queries(of sequence: Int64) -> [ErasedQuery] { keys[sequence] ?? [] }

    /// Replaces the operation's effects.
    ///
    /// - Returns: The queries whose shown values may have changed.
    mutating func set(
        _ effects: [Effect],
        of sequence: Int64,
        number: UInt64
    ) -> [ErasedQuery] {
        let old = queries(of: sequence)
        // The operation's progress is kept across a change of its effects.
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

    /// Changes what is known about the operation; `changesShown` says whether this changes values.
    mutating func update(
        _ sequence: Int64,
        number: UInt64,
        changesShown: Bool = false,
        _ change: (inout Effect) -> Void
    ) {
        for query in queries(of: sequence) {
            lists[query.key]?
                .update(sequence, number: number, changesShown: changesShown, change)
        }
    }

    /// Decides again which effects are withheld.
    ///
    /// - Returns: The queries whose shown values may have changed.
    mutating func withhold(
        number: UInt64,
        _ isWithheld: (Effect) -> Bool
    ) -> [ErasedQuery] {
        var changed: [QueryKey: ErasedQuery] = [:]
        for key in Array(lists.keys) {
            for effect in lists[key]?.effects ?? [] where isWithheld(effect) != effect.isWithheld {
                changed[key] = effect.query
                lists[key]?
                    .update(effect.sequence, number: number, changesShown: true) {
                        $0.isWithheld.toggle()
                    }
            }
        }
        return Array(changed.values)
    }

    /// Removes the operation's effect on one key.
    mutating func remove(_ sequence: Int64, from key: QueryKey, number: UInt64) {
        guard lists[key] != nil else { return }
        lists[key]?.remove(sequence, number: number)
        if lists[key]?.effects.isEmpty == true { lists[key] = nil }
        keys[sequence]?.removeAll { $0.key == key }
        if keys[sequence]?.isEmpty == true { keys[sequence] = nil }
    }
}

/// The last result of applying a list of effects to a base, so that one more effect costs one
/// application.
///
/// Shared by all copies of a list; it is only a cache.
///
/// Mutable state: `state`, protected by its mutex.
private final class LastApplication: Sendable {
    private struct State {
        // Weak: a released base is never looked up again.
        weak var base: ValueBox?
        var shown: ValueBox?
        var stem: UInt64 = 0
        var count = 0
    }

    private let state = Mutex(State())

    /// Returns the number of effects that were applied to the base, and the result.
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
            // If two threads apply it at once, the result with more effects stays.
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
    /// Returns the index of the first effect that meets the condition, which holds for all effects
    /// after it.
    fileprivate func partitioningIndex(where isSecondHalf: (Effect) -> Bool) -> Int {
        var range = startIndex..<endIndex
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            if isSecondHalf(self[middle]) {
                range = range.lowerBound..<middle
            } else {
                range = middle + 1..<range.upperBound
            }
        }
        return range.lowerBound
    }
}

/// The operations that a base may contain: their effects are not applied to it.
///
/// Each is stored with the request that the base may contain. An operation that turns out not to
/// have reached the server is not in any base, even after it is sent again.
struct PossiblyApplied: Sendable, Equatable {
    /// The cache's count at the request; 0 if that was in an earlier process.
    private var sendings: [Int64: UInt64] = [:]

    /// Creates the set of operations that an earlier process sent.
    init(_ operations: Set<Int64> = []) {
        for operation in operations { sendings[operation] = 0 }
    }

    /// Creates the set of the effects' operations.
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
    /// The cache's count when it was first sent and may have been done; `nil` if it has not reached
    /// the server, 0 if an earlier process sent it.
    var sending: UInt64? { sentAt ?? acknowledgedAt.map { _ in 0 } }
}
