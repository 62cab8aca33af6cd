import Foundation
import SanguineModel
import Synchronization

extension QueryCache {
    /// Marks the query's value as stale, in memory and on disk.
    func invalidate<Value>(_ query: ValueQuery<Value>) { entries.invalidate(query.erased) }

    /// Marks everything in the scope as stale, in memory and on disk.
    ///
    /// Costs the same however many entries there are: see ``InvalidationMarks``. Observed entries
    /// are fetched again at once.
    func invalidate(_ scope: InvalidationMarks.Scope) {
        var marking = Entries.Marking()
        entries.changeSeveral {
            marking.journal()
        } _: { guarded in
            marking = entries.mark(scope, in: &guarded)
            return marking.endings
        }
        marking.flush()
    }

    /// Marks entries whose policy names the event as stale, and fetches observed ones.
    ///
    /// Entries that are only on disk do not change: they are checked when they are read. At
    /// midnight, values fetched since then stay fresh.
    func invalidate(event: RefetchEvents) {
        let now = clock.now()
        entries.changeSeveral { guarded in
            let zone = guarded.zone
            func isMeant(_ entry: Entry) -> Bool {
                let events = entry.policy.refetchEvents.intersection(event)
                guard events == .midnight else { return !events.isEmpty }
                return entry.state.isFetching
                    || !entry.state.isFresh(.untilMidnight, at: now, in: zone)
            }
            let generation = guarded.marks.invalidate()
            for entry in guarded.table.all where isMeant(entry) {
                entry.state.markStale(generation: generation)
            }
            return entries.refetch(in: &guarded, generation: generation, where: isMeant)
        }
    }

    /// Fetches an observed entry again even if it is fresh, as polling does.
    func refetch(_ key: QueryKey) {
        entries.changeSeveral { guarded in
            guard let entry = guarded.table[key] else { return [] }
            let actions = entry.state.refetch(nextFetch: guarded.nextNumber())
            return [entries.perform(actions, on: entry, in: &guarded, answer: .failure(.cancelled))]
        }
    }

    /// Returns whether one of the entries is observed.
    func isObserved(anyOf keys: Set<QueryKey>) -> Bool {
        entries.guarded.withLock { !$0.table.observed.isDisjoint(with: keys) }
    }

    /// The collections of the published records that are observed.
    var observedCollections: Set<String> {
        entries.guarded.withLock { guarded in
            guarded.table.observed.reduce(into: []) { names, key in
                guard let policy = guarded.table[key]?.policy else { return }
                names.formUnion(PublishedRecords.collections(of: policy))
            }
        }
    }

    /// Removes entries that may no longer be shown, in memory and on disk.
    func sweep() {
        let now = clock.now()
        let writers = entries.guarded.withLock { guarded in
            let over = guarded.table.all.filter { entry in
                !entry.state.isInUse
                    && entry.state.held.map { entry.policy.end(of: $0.asOf) <= now } ?? false
            }
            for entry in over { guarded.table.remove(entry.key) }
            return guarded.writers
        }
        for writer in writers { writer.removeEntries(keptUntil: now) }
    }
}
