import SanguineModel
import Synchronization

/// The only way in which an entry's value changes.
///
/// The shown value is the base with the effects of all unsettled operations. Effects and
/// comparisons of values are the app's code: they run with no lock held, on a snapshot of the entry
/// and its effects. The result is stored if neither has changed since; otherwise they run again.
extension Entries {
    /// A snapshot of an entry and its effects.
    struct EntrySnapshot: Sendable {
        /// The value, with versions that identify it.
        struct Value: Sendable {
            var shown: ValueBox
            /// The value that effects are applied to; `nil` if there are none.
            var bare: ValueBox?
            var version: UInt64
            var baseVersion: UInt64
            /// Metadata of the base; `nil` if there are no effects.
            var notes: BaseMetadata?

            /// The value without effects.
            var base: ValueBox { bare ?? shown }
        }

        var cacheScope: CacheScope
        /// Whether the query's values belong to that cache scope at that moment.
        var isCurrent = true
        /// The value, or `nil` if there is none.
        var value: Value?
        /// The effects, or `nil` if there are none.
        var list: EffectTable.List?
        /// The entry's generation; `nil` if there is no entry.
        var generation: UInt64?
        /// Whether the value can be used without a fetch; `false` if this was not determined.
        var isFresh = false
        /// Whether the key belongs to a query with values of another type.
        var isConflicting = false

        var effects: [Effect] { list?.effects ?? [] }

        /// Returns a change that replaces the base and keeps the effects.
        func replacingBase(_ base: ValueBox) -> Change {
            guard let list else { return Change(base, over: self) }
            var fetched = FetchedBase(base)
            fetched.remaining = list.effects
            if let notes = value?.notes { fetched.notes = notes }
            let shown = list.applied(to: base, possiblyApplied: fetched.notes.possiblyApplied)
            return Change(shown, of: fetched, over: self)
        }

        /// Returns a change to a base that may have settled some of the effects.
        func adopting(_ fetched: FetchedBase) -> Change {
            guard list != nil else { return Change(fetched.base, over: self) }
            return Change(fetched.shown, of: fetched, over: self)
        }
    }

    /// The change that a transaction makes to an entry.
    struct Change: Sendable {
        let shown: ValueBox
        /// The base and what is known about it; `nil` if it is shown as it is, without effects.
        let fetched: FetchedBase?
        /// Whether the value looks the same as before, so that no observer need be notified.
        let looksSame: Bool

        init(_ shown: ValueBox, of fetched: FetchedBase? = nil, over snapshot: EntrySnapshot) {
            self.shown = shown
            self.fetched = fetched
            looksSame = snapshot.value?.shown.looksSame(as: shown) ?? false
        }

        /// The value without effects.
        var base: ValueBox { fetched?.base ?? shown }
    }

    /// Changes an entry in one step.
    ///
    /// - Parameters:
    ///   - query: The query of the entry.
    ///   - creating: Whether to create a missing entry. Otherwise nothing happens without one.
    ///   - answer: The waiters' answer, see ``apply(_:creating:answer:_:)``.
    ///   - now: The time for which freshness is determined. Default: it is not determined.
    ///   - prepare: Plans the change from a snapshot, with no lock held; returns `nil` to do
    ///     nothing. It is called again if something has changed since the snapshot.
    ///   - commit: Makes the change, under the lock; returns `nil` if nothing was done.
    /// - Returns: Whether something was done.
    @discardableResult
    func transact<Plan>(
        _ query: ErasedQuery,
        creating: Bool = false,
        answer: @autoclosure () -> Entry.Answer = .failure(.cancelled),
        judgedAt now: Timestamp? = nil,
        prepare: (EntrySnapshot) -> Plan?,
        commit: (Plan, Entry, inout Guarded) -> EntryState.Actions?
    ) -> Bool {
        while true {
            let snapshot = snapshot(of: query, judgedAt: now)
            guard let plan = prepare(snapshot) else { return false }
            var hasChanged = false
            let isDone = apply(query, creating: creating, answer: answer()) { entry, guarded in
                guard entry.serves(query) else { return nil }
                guard isCurrent(snapshot, entry, in: guarded) else {
                    hasChanged = true
                    return nil
                }
                return commit(plan, entry, &guarded)
            }
            guard !hasChanged else { continue }
            if isDone, snapshot.cacheScope.writer.isBehind { snapshot.cacheScope.writer.flush() }
            return isDone
        }
    }

    /// Returns a snapshot of the entry.
    func snapshot(of query: ErasedQuery, judgedAt now: Timestamp? = nil) -> EntrySnapshot {
        guarded.withLock { guarded in
            var snapshot = EntrySnapshot(
                cacheScope: guarded.cacheScope(query.policy.audience),
                list: guarded.effects.list(of: query.key)
            )
            guard let entry = guarded.table[query.key] else { return snapshot }
            guard entry.serves(query) else {
                snapshot.isConflicting = true
                return snapshot
            }
            Self.sync(entry, with: guarded.marks)
            if entry.cacheScope !== snapshot.cacheScope {
                snapshot.cacheScope = entry.cacheScope
                snapshot.isCurrent = false
            }
            snapshot.generation = entry.state.generation
            if let now {
                snapshot.isFresh = entry.isFresh(query.policy, at: now, in: guarded.zone)
            }
            snapshot.value = entry.box.map { box in
                EntrySnapshot.Value(
                    shown: box,
                    bare: entry.base,
                    version: entry.version,
                    baseVersion: entry.baseVersion,
                    notes: entry.base.map { _ in entry.notes }
                )
            }
            return snapshot
        }
    }

    // Called under the lock.
    private func isCurrent(
        _ snapshot: EntrySnapshot,
        _ entry: Entry,
        in guarded: borrowing Guarded
    ) -> Bool {
        guard entry.cacheScope === snapshot.cacheScope,
            guarded.effects.list(of: entry.key)?.version == snapshot.list?.version,
            snapshot.generation.map({ $0 == entry.state.generation }) ?? true
        else { return false }
        guard let value = snapshot.value else { return entry.box == nil }
        // A value that looks the same keeps its version, although it is another value.
        return entry.box === value.shown && entry.version == value.version
            && entry.baseVersion == value.baseVersion
    }

    /// Stores the result of a transaction, and ends the effects that its base contains.
    ///
    /// Called under the lock.
    ///
    /// - Parameters:
    ///   - change: The result.
    ///   - arrival: When its base arrived.
    ///   - size: The cost of the value, if that is known without encoding it.
    ///   - entry: The entry.
    ///   - guarded: The state that the lock guards.
    func store(
        _ change: Change,
        _ arrival: FetchTiming,
        size: (@Sendable () -> Int?)? = nil,
        _ entry: Entry,
        in guarded: inout Guarded
    ) {
        if let fetched = change.fetched { drop(fetched.settled, from: entry, in: &guarded) }
        markDependents(of: entry, becoming: change, in: &guarded)
        let number = guarded.nextNumber()
        entry.completedAt = number
        entry.show(change, number: number)
        // After a restart it would be unknown what such a value may contain.
        guard change.fetched?.notes.possiblyApplied.isEmpty ?? true else { return }
        keep(change, entry, arrival, in: guarded, size: size)
    }

    /// Ends the effects that a base contains, and queues a call of the hook.
    ///
    /// Called under the lock, in the step that stores the base.
    func drop(_ settled: [Int64], from entry: Entry, in guarded: inout Guarded) {
        guard !settled.isEmpty else { return }
        let number = guarded.nextNumber()
        for sequence in settled {
            guarded.effects.remove(sequence, from: entry.key, number: number)
        }
        entry.contained.formUnion(settled)
        // Called like observers: outside of the lock.
        guarded.deliveries.append { [weak self] in
            guard let hook = self?.settledHook.withLock({ $0 }) else { return }
            for sequence in settled { hook(sequence) }
        }
    }
}
