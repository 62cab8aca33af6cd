import SanguineModel
import Synchronization

// MARK: - Effects

/// What is shown = the base, with the effects of operations that are not settled.
///
/// Effects are the app's code: they run outside of the lock, on a base and a list of effects that
/// are then compared with those that are there; if either has changed, they run again.
extension QueryCache {
    /// An entry's value, the base that it is made of, and what proves that neither has changed.
    struct Ground {
        var shown: ValueBox
        var base: ValueBox
        var version: UInt64
        var baseVersion: UInt64

        func isSame(as other: Ground) -> Bool {
            version == other.version && baseVersion == other.baseVersion
        }
    }

    /// Is told that an operation's effect on a key is over, outside of the lock.
    typealias SettledHook = @Sendable (_ sequence: Int64) -> Void

    func ground(of query: ErasedQuery) -> (ground: Ground?, list: EffectTable.List?) {
        guarded.withLock { guarded in
            let list = guarded.effects.list(of: query.key)
            guard let record = guarded.records[query.key], record.serves(query),
                let box = record.box
            else { return (nil, list) }
            let ground = Ground(
                shown: box,
                base: record.base ?? box,
                version: record.version,
                baseVersion: record.baseVersion
            )
            return (ground, list)
        }
    }

    /// The effects on a key's values; `nil` if there are none.
    func effects(on key: QueryKey) -> EffectTable.List? {
        guarded.withLock { $0.effects.list(of: key) }
    }

    /// The value without effects, restored if need be.
    func base<Value>(of query: Query<Value>) -> (value: Value, ground: Ground)? {
        _ = peek(query)
        return heldBase(of: query)
    }

    /// The value without effects, if it is in memory.
    func heldBase<Value>(of query: Query<Value>) -> (value: Value, ground: Ground)? {
        guard let ground = ground(of: query.erased).ground,
            let value = ground.base.value(as: Value.self)
        else { return nil }
        return (value, ground)
    }

    // MARK: - Operations

    /// Shows what an operation does, in the place of what it was known to do.
    ///
    /// - Returns: Whether the epoch is still that one.
    @discardableResult
    func setEffects(_ effects: [Effect], of sequence: Int64, epoch: UInt64) -> Bool {
        let changed = guarded.withLock { guarded -> [ErasedQuery]? in
            guard guarded.epoch.number == epoch, !guarded.isClosed else { return nil }
            let number = guarded.nextNumber()
            return guarded.effects.set(effects, of: sequence, number: number)
        }
        for query in changed ?? [] { show(query) }
        return changed != nil
    }

    /// Takes note of an operation's being sent; a base that is under way may have it in it.
    func noteSent(_ sequence: Int64) {
        guarded.withLock { guarded in
            let number = guarded.nextNumber()
            guarded.effects.note(sequence, number: number) { $0.sentAt = $0.sentAt ?? number }
        }
    }

    /// Takes back that an operation was sent: it has reached nobody.
    func noteUnsent(_ sequence: Int64) {
        guarded.withLock { guarded in
            let number = guarded.nextNumber()
            guarded.effects.note(sequence, number: number) { $0.sentAt = nil }
        }
    }

    /// Takes note of an operation's being done, and makes stale what it changes: fetches that are
    /// begun from now on have it in them.
    ///
    /// - Parameters:
    ///   - sequence: The operation.
    ///   - moment: The time of day.
    ///   - conditions: Which values have it in them, where that can be seen.
    /// - Returns: The queries that it changes.
    func acknowledge(
        _ sequence: Int64,
        on moment: Timestamp,
        _ conditions: [MutationRequest.Condition] = []
    ) -> [ErasedQuery] {
        let queries = guarded.withLock { guarded in
            let number = guarded.nextNumber()
            guarded.effects.note(sequence, number: number) { effect in
                effect.acknowledgedAt = number
                effect.acknowledgedOn = moment
                effect.isReached = conditions.last { $0.query.key == effect.query.key }?.isReached
            }
            return guarded.effects.queries(of: sequence)
        }
        for query in queries { invalidate(query) }
        return queries
    }

    /// The queries that an operation changes.
    func effectQueries(of sequence: Int64) -> [ErasedQuery] {
        guarded.withLock { $0.effects.queries(of: sequence) }
    }

    /// Drops a done operation's effect on what nobody knows or wants to know: the first fetch has
    /// it in it.
    ///
    /// - Returns: Whether it is so.
    func forgetEffect(of sequence: Int64, onUnknown query: ErasedQuery) -> Bool {
        restore(query)
        return guarded.withLock { guarded in
            let record = guarded.records[query.key]
            guard record.map({ $0.box == nil && !$0.state.isInUse }) ?? true else { return false }
            let number = guarded.nextNumber()
            guarded.effects.remove(sequence, from: query.key, number: number)
            return true
        }
    }

    /// Takes an answer of an operation as the new base, and its effect out, in one step.
    ///
    /// - Returns: Whether it is known that the value has all in it that was done.
    func settle(
        _ sequence: Int64,
        _ query: ErasedQuery,
        with box: ValueBox,
        epoch: UInt64
    ) -> Bool {
        restore(query)
        while true {
            let (ground, list) = ground(of: query)
            let sent = list?.effect(of: sequence)?.sentAt
            let verdict = list?.verdict(on: box, of: sent ?? 0, except: sequence)
            guard verdict?.isAmbiguous != true else { return false }
            let view = EffectTable.List(effects: verdict?.remaining ?? [])
            let shown = view.applied(to: box)
            let isEqual = ground?.shown.isEqual(to: shown) ?? false
            let present = authorizer.epoch
            guard present.number == epoch else { return false }
            let arrival = Arrival(of: query, at: clock.now(), epoch: present)
            var mustRetry = false
            let isTaken = change(query, creating: true) { record, guarded in
                guard record.serves(query) else { return nil }
                guard matches(record, ground, list, in: guarded) else {
                    mustRetry = true
                    return nil
                }
                let effect = record.state.set(
                    at: arrival.asOf,
                    day: arrival.day(in: guarded.zone),
                    generation: guarded.marks.next(),
                    epoch: query.policy.audience == .user ? epoch : record.state.epoch
                )
                guard let effect else { return nil }
                drop(verdict?.settled ?? [], from: query.key, in: &guarded)
                let number = guarded.nextNumber()
                let base = view.effects.isEmpty ? nil : box
                record.show(shown, of: base, isEqual: isEqual, number: number)
                _ = keep(box, record, arrival)
                return effect
            }
            guard mustRetry else { return isTaken }
        }
    }

    /// Has the hook told of settled effects.
    func onSettled(_ hook: @escaping SettledHook) { settledHook.withLock { $0 = hook } }

    // MARK: - Showing

    /// Shows a key's base with the present effects.
    func show(_ query: ErasedQuery) {
        while true {
            let (ground, list) = ground(of: query)
            guard let ground else { return }
            let shown = list?.applied(to: ground.base) ?? ground.base
            let isEqual = ground.shown.isEqual(to: shown)
            var mustRetry = false
            change(query) { record, guarded in
                guard matches(record, ground, list, in: guarded) else {
                    mustRetry = true
                    return nil
                }
                let base = list == nil ? nil : ground.base
                let number = guarded.nextNumber()
                record.show(shown, of: base, isEqual: isEqual, number: number)
                return .nothing
            }
            guard mustRetry else { return }
        }
    }

    /// Whether the entry and its effects are what they were.
    ///
    /// Under the lock.
    func matches(
        _ record: QueryRecord,
        _ ground: Ground?,
        _ list: EffectTable.List?,
        in guarded: borrowing Guarded
    ) -> Bool {
        guard guarded.effects.list(of: record.key)?.version == list?.version else { return false }
        guard let ground else { return record.box == nil }
        return record.version == ground.version && record.baseVersion == ground.baseVersion
    }

    /// Takes effects out that a base has in it, and has the hook told.
    ///
    /// Under the lock, in the step in which the base is taken in.
    func drop(_ settled: [Int64], from key: QueryKey, in guarded: inout Guarded) {
        guard !settled.isEmpty else { return }
        let number = guarded.nextNumber()
        for sequence in settled { guarded.effects.remove(sequence, from: key, number: number) }
        // Told like observers: outside of the lock.
        guarded.deliveries.append { [weak self] in
            guard let hook = self?.settledHook.withLock({ $0 }) else { return }
            for sequence in settled { hook(sequence) }
        }
    }
}
