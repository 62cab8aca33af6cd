import SanguineModel

/// What the app's own operations do to the values of one key: the pending part of what is shown.
struct Effect: Sendable {
    /// The operation's number: effects are applied in its order.
    let sequence: Int64
    /// Whose values are changed.
    let query: ErasedQuery
    /// Changes a value; the app's code, so never called under a lock.
    let apply: @Sendable (ValueBox) -> ValueBox
    /// The cache's count when the operation was sent for the first time; `nil` if it never was.
    var sentAt: UInt64?
    /// The cache's count when it was acknowledged.
    var acknowledgedAt: UInt64?
    /// The time of day of it, to be compared with rows of earlier processes.
    var acknowledgedOn: Timestamp?
    /// Whether a value has it in it, where that can be seen; the app's code.
    var isReached: (@Sendable (ValueBox) -> Bool)?
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
        func applied(to base: ValueBox) -> ValueBox {
            effects.reduce(base) { value, effect in effect.apply(value) }
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
            effect.acknowledgedOn = known?.acknowledgedOn ?? effect.acknowledgedOn
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

extension EffectTable.List {
    /// What is to become of a value that was asked for at that count of the cache.
    struct Verdict {
        /// The effects that the value has in it: they are over.
        var settled: [Int64] = []
        /// Those that are still to be applied to it.
        var remaining: [Effect] = []
        /// Whether it may or may not have one of them in it.
        var isAmbiguous = false
    }

    /// Judges a value that was asked for at that count, `except` for the operation that brought it.
    ///
    /// What was acknowledged before is in the value; what was not sent yet is not. What was under
    /// way meanwhile may be or not: applied to it, it would be shown twice, and left out, not at
    /// all. Where a value shows by itself what it has in it, that counts.
    func verdict(
        on value: ValueBox,
        of number: UInt64,
        except own: Int64? = nil
    ) -> Verdict {
        var verdict = Verdict()
        for effect in effects {
            let isOver =
                effect.isReached.map { $0(value) }
                ?? (effect.acknowledgedAt.map { $0 < number } == true)
            if isOver || effect.sequence == own {
                verdict.settled.append(effect.sequence)
            } else {
                verdict.remaining.append(effect)
                if effect.isReached == nil, effect.sentAt != nil { verdict.isAmbiguous = true }
            }
        }
        return verdict
    }

    /// Judges a row that an earlier process has written.
    ///
    /// One that arrived after the acknowledgement and is not stale was asked for after it: the
    /// acknowledgement makes stale whatever is under way.
    func verdict(onRowOf moment: Timestamp, isStale: Bool) -> Verdict {
        var verdict = Verdict()
        for effect in effects {
            if !isStale, let on = effect.acknowledgedOn, on < moment {
                verdict.settled.append(effect.sequence)
            } else {
                verdict.remaining.append(effect)
            }
        }
        return verdict
    }
}
