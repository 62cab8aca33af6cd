import SanguineModel
import Synchronization

extension Entries {
    /// Called outside of the lock when an operation's effect on a key has ended.
    typealias SettledHook = @Sendable (_ sequence: Int64) -> Void

    /// Returns the effects on a key's values; `nil` if there are none.
    func effects(on key: QueryKey) -> EffectTable.List? {
        guarded.withLock { $0.effects.list(of: key) }
    }

    // MARK: - Operations

    /// Replaces the effects of an operation, and shows the result.
    ///
    /// - Parameters:
    ///   - effects: The operation's effects.
    ///   - sequence: The number of the operation.
    ///   - replaced: Operations whose effects end in the same step. Default: none.
    ///   - user: The cache scope of the user who made the operation.
    /// - Returns: The keys whose shown values may have changed; none if that user is gone.
    @discardableResult
    func setEffects(
        _ effects: [Effect],
        of sequence: Int64,
        inPlaceOf replaced: [Int64] = [],
        for user: CacheScope
    ) -> [QueryKey] {
        let changed = guarded.withLock { guarded -> [ErasedQuery]? in
            guard guarded.user === user, !guarded.isClosed else { return nil }
            if effects.contains(where: { $0.acknowledgedAt != nil }) {
                guarded.unremoved.insert(sequence)
            }
            var effects = effects
            for index in effects.indices {
                effects[index].isWithheld = guarded.switches.withholds(effects[index])
            }
            let missing = effects.filter { effect in
                effect.acknowledgedAt == nil
                    || guarded.table[effect.query.key]?.contained.contains(sequence) != true
            }
            let number = guarded.nextNumber()
            var changed = guarded.effects.set(missing, of: sequence, number: number)
            for other in replaced where other != sequence {
                for query in guarded.effects.set([], of: other, number: number)
                where !changed.contains(where: { $0.key == query.key }) {
                    changed.append(query)
                }
            }
            return changed
        }
        showAgain(changed ?? [])
        return changed.map { $0.map(\.key) } ?? []
    }

    /// Records that the operation was removed from the outbox's file.
    func recordRemoval(_ sequence: Int64) {
        guarded.withLock { _ = $0.unremoved.remove(sequence) }
    }

    /// Advances and returns the cache's count: later events have higher numbers.
    func count() -> UInt64 { guarded.withLock { $0.nextNumber() } }

    /// Records that an operation is sent: a fetch in progress may return a base with it.
    func recordSend(_ sequence: Int64) {
        guarded.withLock { guarded in
            let number = guarded.nextNumber()
            guarded.effects.update(sequence, number: number) { $0.sentAt = $0.sentAt ?? number }
        }
    }

    /// Records that a sent operation did not reach the server: no base contains it.
    func recordUnsent(_ sequence: Int64) {
        let (doubtful, patched, lists) = guarded.withLock { guarded in
            let number = guarded.nextNumber()
            guarded.effects.update(sequence, number: number, changesShown: true) { $0.sentAt = nil }
            let queries = guarded.effects.queries(of: sequence)
            func which(_ isMeant: (BaseMetadata) -> Bool) -> [ErasedQuery] {
                queries.filter { guarded.table[$0.key].map { isMeant($0.notes) } ?? false }
            }
            let lists = queries.compactMap { query in
                guarded.effects.list(of: query.key)?.effect(of: sequence)?.list
            }
            return (
                which { $0.possiblyApplied.operations.contains(sequence) }, which(\.isPatched),
                lists
            )
        }
        for list in lists { list.clearPossiblyApplied(sequence) }
        for query in doubtful { show(query) }
        // The older part was kept because of this operation.
        for query in patched { invalidate(query) }
    }

    /// Records that an operation was applied, and marks the values that it changes as stale: later
    /// fetches contain it.
    ///
    /// - Parameters:
    ///   - sequence: The number of the operation.
    ///   - conditions: Tests of whether a value contains the operation, where a value shows this.
    ///   - answered: The queries whose values came with the operation's response.
    /// - Returns: The queries that it changes.
    func acknowledge(
        _ sequence: Int64,
        _ conditions: [MutationContext.Condition] = [],
        answered: Set<QueryKey> = []
    ) -> [ErasedQuery] {
        let (queries, hidden) = guarded.withLock { guarded in
            let number = guarded.nextNumber()
            let queries = guarded.effects.queries(of: sequence)
            let hidden = queries.filter { query in
                guarded.effects.list(of: query.key)?.effect(of: sequence)?.isHidden ?? false
            }
            guarded.effects.update(
                sequence,
                number: number,
                changesShown: !hidden.isEmpty
            ) { effect in
                effect.acknowledgedAt = number
                effect.isReached = conditions.last { $0.query.key == effect.query.key }?.isReached
            }
            guarded.unremoved.insert(sequence)
            return (queries, hidden)
        }
        showAgain(hidden)
        for query in queries where !answered.contains(query.key) { invalidate(query) }
        return queries
    }

    /// Applies the switches of the server.
    func setSwitches(_ current: () -> Switches) {
        let changed = guarded.withLock { guarded in
            // Under the lock, so that of two changes the newer one stays.
            let switches = current()
            guarded.switches = switches
            for entry in guarded.table.all {
                entry.switchedFreshness = switches.freshness(of: entry.query.name)
            }
            return guarded.effects.withhold(number: guarded.nextNumber(), switches.withholds)
        }
        showAgain(changed)
    }

    /// Shows values whose effects are shown in another way now.
    private func showAgain(_ queries: [ErasedQuery]) {
        for query in queries {
            show(query)
            // The list may show more rows than the entry holds.
            if query.comesInParts { notifyObservers(of: query.key) {} }
        }
    }

    /// Returns the freshness that a switch sets for a query; `nil` if it is as declared.
    func switchedFreshness(of name: String) -> Policy.Freshness? {
        guarded.withLock { $0.switches.freshness(of: name) }
    }

    /// Returns the queries that an operation changes.
    func effectQueries(of sequence: Int64) -> [ErasedQuery] {
        guarded.withLock { $0.effects.queries(of: sequence) }
    }

    /// Merges the effect of an applied operation into the base, because no fetch has returned a
    /// base with it.
    ///
    /// The value stays stale, so that the next fetch replaces it. Nothing happens where the value
    /// itself shows whether it contains the operation.
    func mergeEffect(_ sequence: Int64, into query: ErasedQuery) {
        let effect = effects(on: query.key)?.effect(of: sequence)
        guard let effect, effect.acknowledgedAt != nil, effect.isReached == nil else { return }
        if let list = effect.list { list.merge() } else { mergeIntoBase(of: effect) }
    }

    /// Merges an effect into the cached base.
    func mergeIntoBase(of effect: Effect) {
        let query = effect.query
        restore(query)
        transact(query, creating: true) { snapshot -> (Change?, list: EffectTable.List)? in
            guard let list = snapshot.list, list.effect(of: effect.sequence) != nil else {
                return nil
            }
            guard let value = snapshot.value else { return (nil, list) }
            var fetched = FetchedBase(value.base)
            if let list = effect.list {
                fetched.base = list.merged(value.base, effect)
            } else if !(value.notes?.possiblyApplied.contains(effect) ?? false) {
                fetched.base = effect.applied(to: value.base)
            }
            fetched.settled = [effect.sequence]
            fetched.remaining = list.effects.filter { $0.sequence != effect.sequence }
            fetched.notes = value.notes ?? BaseMetadata()
            return (snapshot.adopting(fetched), list)
        } commit: { plan, entry, guarded in
            if let change = plan.0, let held = entry.state.held {
                store(change, FetchTiming(of: query, at: held.asOf), entry, in: &guarded)
            } else {
                drop([effect.sequence], from: entry, in: &guarded)
            }
            return .nothing
        }
    }

    /// Drops the effect of an applied operation on an unknown value: the first fetch contains it.
    ///
    /// - Parameters:
    ///   - sequence: The number of the operation.
    ///   - query: The query of the value that it changes.
    ///   - evenInUse: Whether to drop it even if the value is observed or being fetched. Default:
    ///     no.
    /// - Returns: Whether the value is not known.
    func forgetEffect(
        of sequence: Int64,
        onUnknown query: ErasedQuery,
        evenInUse: Bool = false
    ) -> Bool {
        restore(query)
        if !evenInUse, let list = effects(on: query.key)?.effect(of: sequence)?.list {
            let isKnown = guarded.withLock { guarded in
                guarded.table[query.key].map { $0.box != nil || $0.state.isInUse } ?? false
            }
            // The source may have rows although a refresh failed. The effect is merged into them,
            // at once or after the fetch in progress.
            if !isKnown { list.merge() }
            return !isKnown
        }
        return apply(query, creating: true) { entry, guarded in
            guard entry.box == nil, evenInUse || !entry.state.isInUse else { return nil }
            drop([sequence], from: entry, in: &guarded)
            return .nothing
        }
    }

    /// Replaces the base with the value from an operation's response, and ends its effect, in one
    /// step.
    ///
    /// - Returns: Whether the value is known to contain all applied operations.
    func settle(
        _ sequence: Int64,
        _ query: ErasedQuery,
        with box: ValueBox,
        for user: CacheScope
    ) -> Bool {
        restore(query)
        let arrival = FetchTiming(of: query, at: clock.now())
        var isWhole = false
        let isTaken = transact(query, creating: true) { snapshot -> Change? in
            let sent = snapshot.list?.effect(of: sequence)?.sentAt
            let fetched = fetchedBase(
                box,
                of: query,
                askedAt: sent ?? 0,
                by: sequence,
                over: snapshot
            )
            guard let fetched, fetched.notes.possiblyApplied.isEmpty else { return nil }
            isWhole = !fetched.notes.isPatched
            return snapshot.adopting(fetched)
        } commit: { change, entry, guarded in
            guard guarded.user === user else { return nil }
            // A base that arrived since may be newer: a repeated request gets the first response
            // again.
            if let effect = guarded.effects.list(of: entry.key)?.effect(of: sequence),
                entry.box != nil, entry.completedAt >= effect.sentAt ?? 0
            {
                return nil
            }
            // The operation is still in the outbox's file: the row must say that it contains it.
            guarded.unremoved.insert(sequence)
            let actions = entry.state.set(
                at: arrival.asOf,
                day: arrival.day(in: guarded.zone),
                generation: guarded.marks.next()
            )
            store(change, arrival, entry, in: &guarded)
            return actions
        }
        return isTaken && isWhole
    }

    /// Returns the base that a fetched value results in; `nil` if the held base must stay.
    ///
    /// Runs the app's code.
    func fetchedBase(
        _ box: ValueBox,
        of query: ErasedQuery,
        askedAt number: UInt64,
        by own: Int64? = nil,
        over snapshot: EntrySnapshot
    ) -> FetchedBase? {
        guard let list = snapshot.list else { return FetchedBase(box) }
        return FetchedBase(
            box,
            askedAt: number,
            of: own,
            effects: list.effects,
            held: snapshot.value.map { ($0.base, $0.notes ?? BaseMetadata()) },
            decode: query.decode
        )
    }

    /// Sets the hook for effects that have ended.
    func onSettled(_ hook: @escaping SettledHook) { settledHook.withLock { $0 = hook } }

    /// Shows a key's base with the current effects.
    func show(_ query: ErasedQuery) {
        transact(query) { snapshot in
            snapshot.value.map { snapshot.replacingBase($0.base) }
        } commit: { change, entry, guarded in
            markDependents(of: entry, becoming: change, in: &guarded)
            entry.show(change, number: guarded.nextNumber())
            return .nothing
        }
    }
}
