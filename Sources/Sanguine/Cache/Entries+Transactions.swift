import SanguineModel
import Synchronization

/// The one way in which an entry's value changes.
///
/// What is shown = the base, with the effects of operations that are not settled. Effects are the
/// app's code, and so is the comparing of values: they run under no lock, on a snapshot of the
/// entry and its effects. What they make is taken over if neither has changed since; otherwise they
/// run again.
extension Entries {
    /// An entry and its effects as they were at one moment.
    struct Ground: Sendable {
        /// The value, and what tells it from every other.
        struct Value: Sendable {
            var shown: ValueBox
            /// What effects are applied to; `nil` where there are none.
            var bare: ValueBox?
            var version: UInt64
            var baseVersion: UInt64
            /// What else is known of the base; `nil` where there are no effects.
            var notes: BaseNotes?

            /// The value without effects.
            var base: ValueBox { bare ?? shown }
        }

        var partition: Partition
        /// Whether that is the one whose the query's values are at that moment.
        var isPresent = true
        /// `nil` if there is none.
        var value: Value?
        /// `nil` if there are no effects.
        var list: EffectTable.List?
        /// The generation that the entry is in; `nil` if there is none.
        var generation: UInt64?
        /// Whether the value counts as true without asking again; no, where nobody has asked.
        var isFresh = false
        /// Whether the key is that of a query with values of another type.
        var isConflicting = false

        var effects: [Effect] { list?.effects ?? [] }

        /// Another base in the place of the one that is there, under the same effects.
        func amended(_ base: ValueBox) -> Change {
            guard let list else { return Change(base, over: self) }
            var landing = FetchedBase(base)
            landing.remaining = list.effects
            if let notes = value?.notes { landing.notes = notes }
            let shown = list.applied(to: base, doubts: landing.notes.doubts)
            return Change(shown, of: landing, over: self)
        }

        /// A base that may have settled some of the effects.
        func taking(_ landing: FetchedBase) -> Change {
            guard list != nil else { return Change(landing.base, over: self) }
            return Change(landing.shown, of: landing, over: self)
        }
    }

    /// What a transaction makes of an entry.
    struct Change: Sendable {
        let shown: ValueBox
        /// What is known of the base; `nil` if that is what is shown, and no effects are left.
        let landing: FetchedBase?
        /// Whether it looks as before, so that no observer need be notified.
        let looksSame: Bool

        init(_ shown: ValueBox, of landing: FetchedBase? = nil, over ground: Ground) {
            self.shown = shown
            self.landing = landing
            looksSame = ground.value?.shown.looksSame(as: shown) ?? false
        }

        /// The value without effects.
        var base: ValueBox { landing?.base ?? shown }
    }

    /// Changes an entry in one step.
    ///
    /// - Parameters:
    ///   - query: Whose entry.
    ///   - creating: Whether one is made if there is none. Otherwise nothing happens then.
    ///   - answer: What those get who wait, see ``change(_:creating:answer:_:)``.
    ///   - now: When it is judged whether the value is fresh. Default: it is not judged.
    ///   - prepare: Makes a plan of what is there, under no lock; `nil` to do nothing. It is called
    ///     again if something has changed meanwhile.
    ///   - commit: Carries it out, under the lock; `nil` if nothing was done.
    /// - Returns: Whether something was done.
    @discardableResult
    func transact<Plan>(
        _ query: ErasedQuery,
        creating: Bool = false,
        answer: @autoclosure () -> Entry.Answer = .failure(.cancelled),
        judgedAt now: Timestamp? = nil,
        prepare: (Ground) -> Plan?,
        commit: (Plan, Entry, inout Guarded) -> EntryState.Actions?
    ) -> Bool {
        while true {
            let ground = ground(of: query, judgedAt: now)
            guard let plan = prepare(ground) else { return false }
            var hasChanged = false
            let isDone = change(query, creating: creating, answer: answer()) { entry, guarded in
                guard entry.serves(query) else { return nil }
                guard isPresent(ground, entry, in: guarded) else {
                    hasChanged = true
                    return nil
                }
                return commit(plan, entry, &guarded)
            }
            guard !hasChanged else { continue }
            if isDone, ground.partition.writer.isBehind { ground.partition.writer.flush() }
            return isDone
        }
    }

    /// The entry as it is.
    func ground(of query: ErasedQuery, judgedAt now: Timestamp? = nil) -> Ground {
        guarded.withLock { guarded in
            var ground = Ground(
                partition: guarded.partition(query.policy.audience),
                list: guarded.effects.list(of: query.key)
            )
            guard let entry = guarded.table[query.key] else { return ground }
            guard entry.serves(query) else {
                ground.isConflicting = true
                return ground
            }
            Self.sync(entry, with: guarded.marks)
            if entry.partition !== ground.partition {
                ground.partition = entry.partition
                ground.isPresent = false
            }
            ground.generation = entry.state.generation
            if let now {
                ground.isFresh = entry.isFresh(query.policy, at: now, in: guarded.zone)
            }
            ground.value = entry.box.map { box in
                Ground.Value(
                    shown: box,
                    bare: entry.base,
                    version: entry.version,
                    baseVersion: entry.baseVersion,
                    notes: entry.base.map { _ in entry.notes }
                )
            }
            return ground
        }
    }

    // Under the lock.
    private func isPresent(
        _ ground: Ground,
        _ entry: Entry,
        in guarded: borrowing Guarded
    ) -> Bool {
        guard entry.partition === ground.partition,
            guarded.effects.list(of: entry.key)?.version == ground.list?.version,
            ground.generation.map({ $0 == entry.state.generation }) ?? true
        else { return false }
        guard let value = ground.value else { return entry.box == nil }
        // A value that looks the same has the same version, and is another one all the same.
        return entry.box === value.shown && entry.version == value.version
            && entry.baseVersion == value.baseVersion
    }

    /// Takes over what a transaction has made, and out the effects that its base contains.
    ///
    /// Under the lock.
    ///
    /// - Parameters:
    ///   - change: What it has made.
    ///   - arrival: When its base arrived.
    ///   - size: What the value costs, if that is known without encoding it.
    ///   - entry: The entry.
    ///   - guarded: What the lock guards.
    func take(
        _ change: Change,
        _ arrival: Arrival,
        size: (@Sendable () -> Int?)? = nil,
        _ entry: Entry,
        in guarded: inout Guarded
    ) {
        if let landing = change.landing { drop(landing.settled, from: entry, in: &guarded) }
        let number = guarded.nextNumber()
        entry.landedAt = number
        entry.show(change, number: number)
        // After a restart nobody would know what such a value may contain.
        guard change.landing?.notes.doubts.isEmpty ?? true else { return }
        keep(change, entry, arrival, in: guarded, size: size)
    }

    /// Takes effects out that a base contains, and has the hook told.
    ///
    /// Under the lock, in the step in which the base is taken in.
    func drop(_ settled: [Int64], from entry: Entry, in guarded: inout Guarded) {
        guard !settled.isEmpty else { return }
        let number = guarded.nextNumber()
        for sequence in settled {
            guarded.effects.remove(sequence, from: entry.key, number: number)
        }
        entry.contained.formUnion(settled)
        // Told like observers: outside of the lock.
        guarded.deliveries.append { [weak self] in
            guard let hook = self?.settledHook.withLock({ $0 }) else { return }
            for sequence in settled { hook(sequence) }
        }
    }
}
