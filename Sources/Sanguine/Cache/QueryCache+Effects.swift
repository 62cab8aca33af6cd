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
        var notes: BaseNotes

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
                baseVersion: record.baseVersion,
                notes: record.notes
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
            if effects.contains(where: { $0.acknowledgedAt != nil }) {
                guarded.unremoved.insert(sequence)
            }
            let missing = effects.filter { effect in
                effect.acknowledgedAt == nil
                    || guarded.records[effect.query.key]?.contained.contains(sequence) != true
            }
            let number = guarded.nextNumber()
            return guarded.effects.set(missing, of: sequence, number: number)
        }
        for query in changed ?? [] { show(query) }
        for effect in effects { effect.list?.keeper()?.effectsChanged() }
        return changed != nil
    }

    /// Takes note of an operation's being gone from the outbox's file.
    func noteRemoved(_ sequence: Int64) {
        guarded.withLock { _ = $0.unremoved.remove(sequence) }
    }

    /// The cache's count: what happens from now on has higher numbers.
    func count() -> UInt64 { guarded.withLock { $0.nextNumber() } }

    /// Takes note of an operation's being sent; a base that is under way may contain it.
    func noteSent(_ sequence: Int64) {
        guarded.withLock { guarded in
            let number = guarded.nextNumber()
            guarded.effects.note(sequence, number: number) { $0.sentAt = $0.sentAt ?? number }
        }
    }

    /// Takes back that an operation was sent: it has reached nobody, and no base contains it.
    func noteUnsent(_ sequence: Int64) {
        let (doubtful, patched) = guarded.withLock { guarded in
            let number = guarded.nextNumber()
            guarded.effects.note(sequence, number: number, changesShown: true) { $0.sentAt = nil }
            let queries = guarded.effects.queries(of: sequence)
            func which(_ isMeant: (BaseNotes) -> Bool) -> [ErasedQuery] {
                queries.filter { guarded.records[$0.key].map { isMeant($0.notes) } ?? false }
            }
            return (which { $0.doubts.contains(sequence) }, which(\.isPatched))
        }
        for query in doubtful { show(query) }
        // The older part has waited for this.
        for query in patched { invalidate(query) }
    }

    /// Takes note of an operation's being done, and makes stale what it changes: fetches that are
    /// begun from now on contain it.
    ///
    /// - Parameters:
    ///   - sequence: The operation.
    ///   - conditions: Which values contain it, where that can be seen.
    /// - Returns: The queries that it changes.
    func acknowledge(
        _ sequence: Int64,
        _ conditions: [MutationRequest.Condition] = []
    ) -> [ErasedQuery] {
        let queries = guarded.withLock { guarded in
            let number = guarded.nextNumber()
            guarded.effects.note(sequence, number: number) { effect in
                effect.acknowledgedAt = number
                effect.isReached = conditions.last { $0.query.key == effect.query.key }?.isReached
            }
            guarded.unremoved.insert(sequence)
            return guarded.effects.queries(of: sequence)
        }
        for query in queries { invalidate(query) }
        return queries
    }

    /// The queries that an operation changes.
    func effectQueries(of sequence: Int64) -> [ErasedQuery] {
        guarded.withLock { $0.effects.queries(of: sequence) }
    }

    /// Makes a done operation's effect a part of the base: no fetch has brought a base with it.
    ///
    /// The value stays stale, so that the next fetch brings the authority's own. Nothing happens
    /// where a value shows by itself whether it contains the operation.
    func fold(_ sequence: Int64, into query: ErasedQuery) {
        let effect = effects(on: query.key)?.effect(of: sequence)
        guard let effect, effect.acknowledgedAt != nil, effect.isReached == nil else { return }
        if let list = effect.list { list.keeper()?.fold() } else { foldBase(of: effect) }
    }

    /// Makes an effect a part of the base that the cache has.
    func foldBase(of effect: Effect) {
        let query = effect.query
        restore(query)
        while true {
            let (ground, list) = ground(of: query)
            guard let list, list.effect(of: effect.sequence) != nil else { return }
            guard let ground else {
                let isOver = forgetEffect(of: effect.sequence, onUnknown: query, evenInUse: true)
                if isOver || guarded.withLock({ $0.isClosed }) { return }
                continue
            }
            var landing = FetchedBase(ground.base)
            if let list = effect.list {
                landing.base = list.folded(ground.base, effect)
            } else if !effect.isIn(ground.notes.doubts) {
                landing.base = effect.applied(to: ground.base)
            }
            landing.settled = [effect.sequence]
            landing.remaining = list.effects.filter { $0.sequence != effect.sequence }
            landing.notes = ground.notes
            let shown = landing.shown
            let isEqual = ground.shown.isEqual(to: shown)
            let present = authorizer.epoch
            var mustRetry = false
            change(query) { record, guarded in
                guard matches(record, ground, list, in: guarded), let held = record.state.held
                else {
                    mustRetry = true
                    return nil
                }
                let arrival = Arrival(of: query, at: held.asOf, epoch: present)
                _ = take(landing, shown, isEqual: isEqual, arrival, record, in: &guarded)
                return .nothing
            }
            guard mustRetry else { return }
        }
    }

    /// Drops a done operation's effect on what is not known: the first fetch contains it.
    ///
    /// - Parameters:
    ///   - sequence: The operation.
    ///   - query: Whose value it changes.
    ///   - evenInUse: Whether it is dropped although somebody waits for the value. Default: no.
    /// - Returns: Whether the value is not known.
    func forgetEffect(
        of sequence: Int64,
        onUnknown query: ErasedQuery,
        evenInUse: Bool = false
    ) -> Bool {
        restore(query)
        if !evenInUse, let list = effects(on: query.key)?.effect(of: sequence)?.list {
            let isKnown = guarded.withLock { guarded in
                guarded.records[query.key].map { $0.box != nil || $0.state.isInUse } ?? false
            }
            // The keeper may have rows although a refresh failed: they get the effect for good, at
            // once or when what is under way has landed.
            if !isKnown { list.keeper()?.fold() }
            return !isKnown
        }
        return change(query, creating: true) { record, guarded in
            guard record.box == nil, evenInUse || !record.state.isInUse else { return nil }
            drop([sequence], from: query.key, record, in: &guarded)
            return .nothing
        }
    }

    /// Takes an answer of an operation as the new base, and its effect out, in one step.
    ///
    /// - Returns: Whether it is known that the value contains all that was done.
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
            let landing = fetchedBase(
                box,
                of: query,
                askedAt: sent ?? 0,
                by: sequence,
                list,
                over: ground
            )
            guard let landing, landing.notes.doubts.isEmpty else { return false }
            let shown = landing.shown
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
                _ = take(landing, shown, isEqual: isEqual, arrival, record, in: &guarded)
                return effect
            }
            guard mustRetry else { return isTaken && !landing.notes.isPatched }
        }
    }

    /// What a value makes of the query's base; `nil` if the held one has to stay.
    ///
    /// Runs the app's code.
    func fetchedBase(
        _ box: ValueBox,
        of query: ErasedQuery,
        askedAt number: UInt64,
        by own: Int64? = nil,
        _ list: EffectTable.List?,
        over ground: Ground?
    ) -> FetchedBase? {
        guard let list else { return FetchedBase(box) }
        return FetchedBase(
            box,
            askedAt: number,
            of: own,
            effects: list.effects,
            held: ground.map { ($0.base, $0.notes) },
            decode: query.decode
        )
    }

    /// Takes a base over, and out the effects that it contains.
    ///
    /// Under the lock.
    ///
    /// - Returns: Whether there is anything to measure or to store.
    func take(
        _ landing: FetchedBase,
        _ shown: ValueBox,
        isEqual: Bool,
        _ arrival: Arrival,
        _ record: QueryRecord,
        in guarded: inout Guarded
    ) -> Bool {
        drop(landing.settled, from: record.key, record, in: &guarded)
        record.show(
            shown,
            of: landing.remaining.isEmpty ? nil : landing.base,
            notes: landing.notes,
            isEqual: isEqual,
            number: guarded.nextNumber()
        )
        // After a restart nobody would know what such a value may contain.
        guard landing.notes.doubts.isEmpty else { return false }
        return keep(landing.base, record, arrival, in: guarded)
    }

    /// Has the hook told of settled effects.
    func onSettled(_ hook: @escaping SettledHook) { settledHook.withLock { $0 = hook } }

    // MARK: - Showing

    /// Shows a key's base with the present effects.
    func show(_ query: ErasedQuery) {
        while true {
            let (ground, list) = ground(of: query)
            guard let ground else { return }
            let shown = list?.applied(to: ground.base, doubts: ground.notes.doubts) ?? ground.base
            let isEqual = ground.shown.isEqual(to: shown)
            var mustRetry = false
            change(query) { record, guarded in
                guard matches(record, ground, list, in: guarded) else {
                    mustRetry = true
                    return nil
                }
                let base = list == nil ? nil : ground.base
                let number = guarded.nextNumber()
                record.show(
                    shown,
                    of: base,
                    notes: ground.notes,
                    isEqual: isEqual,
                    number: number
                )
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

    /// Takes effects out that a base contains, and has the hook told.
    ///
    /// Under the lock, in the step in which the base is taken in.
    func drop(
        _ settled: [Int64],
        from key: QueryKey,
        _ record: QueryRecord,
        in guarded: inout Guarded
    ) {
        guard !settled.isEmpty else { return }
        let number = guarded.nextNumber()
        for sequence in settled { guarded.effects.remove(sequence, from: key, number: number) }
        record.contained.formUnion(settled)
        // Told like observers: outside of the lock.
        guarded.deliveries.append { [weak self] in
            guard let hook = self?.settledHook.withLock({ $0 }) else { return }
            for sequence in settled { hook(sequence) }
        }
    }
}
