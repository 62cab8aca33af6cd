import SanguineModel

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
    /// Who has the rows as they are shown; made if there is nobody.
    let keeper: @Sendable () -> (any AnyPagesKeeper)?
}

/// The effects of all operations that are not settled, by key.
///
/// Pure. Invariants: the effects of a key are in the order of their operations, one of each; no
/// list is empty; `keys` names exactly the keys of the lists, by operation.
struct EffectTable: Sendable {
    /// The effects of a key, with what tells this list from every other.
    struct List: Sendable {
        var effects: [Effect] = []
        var version: UInt64 = 0

        /// What is shown of a base.
        ///
        /// - Parameters:
        ///   - base: The base.
        ///   - doubts: The operations that the base may contain already: their effects wait.
        /// - Returns: The value.
        func applied(to base: ValueBox, doubts: Set<Int64> = []) -> ValueBox {
            effects.reduce(base) { value, effect in
                effect.isIn(doubts) ? value : effect.applied(to: value)
            }
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
        let known = old.first.flatMap { lists[$0.key] }?.effects.first { $0.sequence == sequence }
        for query in old { remove(sequence, from: query.key, number: number) }
        for var effect in effects {
            effect.sentAt = known?.sentAt ?? effect.sentAt
            effect.acknowledgedAt = known?.acknowledgedAt ?? effect.acknowledgedAt
            effect.isReached = known?.isReached ?? effect.isReached
            var list = lists[effect.query.key] ?? List()
            let place = list.effects.firstIndex { $0.sequence > sequence } ?? list.effects.count
            list.effects.insert(effect, at: place)
            list.version = number
            lists[effect.query.key] = list
        }
        keys[sequence] = effects.isEmpty ? nil : effects.map(\.query)
        let fresh = effects.map(\.query)
        return fresh + old.filter { query in !fresh.contains { $0.key == query.key } }
    }

    /// Changes what is known of the operation, which changes nothing that is shown.
    mutating func note(_ sequence: Int64, number: UInt64, _ change: (inout Effect) -> Void) {
        for query in queries(of: sequence) {
            guard var list = lists[query.key] else { continue }
            for place in list.effects.indices where list.effects[place].sequence == sequence {
                change(&list.effects[place])
            }
            list.version = number
            lists[query.key] = list
        }
    }

    /// Takes the operation's effect on one key out.
    mutating func remove(_ sequence: Int64, from key: QueryKey, number: UInt64) {
        guard var list = lists[key] else { return }
        list.effects.removeAll { $0.sequence == sequence }
        list.version = number
        lists[key] = list.effects.isEmpty ? nil : list
        keys[sequence]?.removeAll { $0.key == key }
        if keys[sequence]?.isEmpty == true { keys[sequence] = nil }
    }
}

extension Effect {
    /// Whether it is one of those, and was not found to have reached nobody since.
    func isIn(_ doubts: Set<Int64>) -> Bool { sentAt != nil && doubts.contains(sequence) }
}
