import Foundation
import SanguineModel
import Synchronization

extension QueryCache {
    /// What is held, in memory and on disk, no longer counts as fresh.
    func invalidate<Value>(_ query: Query<Value>) { invalidate(query.erased) }

    func invalidate(_ query: ErasedQuery) {
        // In one step, for rows and memory: between two a landing would write a fresh old row.
        let (writer, mark) = guarded.withLock { guarded in
            _ = guarded.marks.invalidate()
            let writer = guarded.partition(query.policy.audience).writer
            let isOnDisk = query.policy.tier == .onDisk && !query.isSourced
            let mark = isOnDisk ? writer.markStale(.key(query.key.text)) : nil
            guarded.entries[query.key]?.state.note(generation: guarded.marks.generation)
            return (writer, mark)
        }
        if let mark { writer.journal(mark) }
        change(query) { record, guarded in
            record.state.invalidate(
                generation: record.state.generation,
                nextFlight: guarded.nextNumber()
            )
        }
        if writer.isBehind { writer.flush() }
    }

    /// Everything that the scope covers no longer counts as fresh, in memory and on disk.
    ///
    /// Costs the same however many entries there are: see ``InvalidationMarks``. What is observed
    /// is fetched again at once.
    func invalidate(_ scope: InvalidationMarks.Scope) {
        var marks: [(writer: EntryWriter, mark: EntryWriter.Mark)] = []
        changeSeveral {
            for (writer, mark) in marks { writer.journal(mark) }
        } _: { guarded in
            // In one step with the memory: between two a landing would write a fresh old row.
            marks = guarded.writers.map { ($0, $0.markStale(scope)) }
            let generation = guarded.marks.mark(scope)
            if guarded.marks.isFull {
                for record in guarded.entries.all { Self.sync(record, with: guarded.marks) }
                guarded.marks.forget()
            }
            return refetch(in: &guarded, generation: generation) { record in
                scope.covers(key: record.key.text, policy: record.policy)
            }
        }
        for (writer, _) in marks where writer.isBehind { writer.flush() }
    }

    /// Entries whose policy names the event no longer count as fresh; observed ones are fetched.
    ///
    /// Entries on disk alone are not touched: they are judged when they are read. Nor is, at a
    /// midnight, what was fetched since.
    func invalidate(event: RefetchEvents) {
        let now = clock.now()
        changeSeveral { guarded in
            let zone = guarded.zone
            func isMeant(_ record: QueryRecord) -> Bool {
                let events = record.policy.refetchEvents.intersection(event)
                guard events == .midnight else { return !events.isEmpty }
                return record.state.isFetching
                    || !record.state.isFresh(.untilMidnight, at: now, in: zone)
            }
            let generation = guarded.marks.invalidate()
            for record in guarded.entries.all where isMeant(record) {
                record.state.note(generation: generation)
            }
            return refetch(in: &guarded, generation: generation, where: isMeant)
        }
    }

    /// Fetches an observed entry again although it may be fresh, as polling does.
    func refetch(_ key: QueryKey) {
        changeSeveral { guarded in
            guard let record = guarded.entries[key] else { return [] }
            let effect = record.state.refetch(nextFlight: guarded.nextNumber())
            return [perform(effect, on: record, in: &guarded, answer: .failure(.cancelled))]
        }
    }

    /// Plays an event on several entries in one step, and does something before anybody is told.
    private func changeSeveral(
        before work: () -> Void = {},
        _ event: (inout Guarded) -> [Ending]
    ) {
        let endings = guarded.withLock { $0.isClosed ? [] : event(&$0) }
        work()
        for ending in endings { ending.perform() }
        deliver()
    }

    /// Whether anybody observes one of the entries.
    func isObserved(anyOf keys: Set<QueryKey>) -> Bool {
        guarded.withLock { !$0.entries.observed.isDisjoint(with: keys) }
    }

    /// The zone of the user's days.
    var zone: TimeZone {
        get { guarded.withLock { $0.zone } }
        set { guarded.withLock { $0.zone = newValue } }
    }

    /// Forgets what may no longer be shown, in memory and on disk.
    func sweep() {
        let now = clock.now()
        let writers = guarded.withLock { guarded in
            let over = guarded.entries.all.filter { record in
                !record.state.isInUse
                    && record.state.held.map { record.policy.end(of: $0.asOf) <= now } ?? false
            }
            for record in over { guarded.entries.remove(record.key) }
            return guarded.writers
        }
        for writer in writers { writer.removeEntries(keptUntil: now) }
    }

    // Under the lock.
    private func refetch(
        in guarded: inout Guarded,
        generation: UInt64,
        where isMeant: (QueryRecord) -> Bool
    ) -> [Ending] {
        guarded.entries.observed.compactMap { key in
            guard let record = guarded.entries[key], isMeant(record) else { return nil }
            let effect = record.state.invalidate(
                generation: generation,
                nextFlight: guarded.nextNumber()
            )
            return perform(effect, on: record, in: &guarded, answer: .failure(.cancelled))
        }
    }
}
