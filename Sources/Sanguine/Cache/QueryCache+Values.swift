import Foundation
import SanguineModel
import Synchronization

extension QueryCache {
    /// When a value arrived.
    struct Arrival {
        let asOf: Timestamp
        private let departure: Timestamp
        private let goesByDays: Bool

        init(
            of query: ErasedQuery,
            since departure: Timestamp? = nil,
            at now: Timestamp
        ) {
            asOf = now
            self.departure = departure ?? now
            goesByDays = query.policy.followsDays
        }

        /// The day of the departure: an answer that was under way at midnight may be the old day's.
        func day(in zone: TimeZone) -> LocalDay? {
            goesByDays ? LocalDay(containing: min(departure, asOf), in: zone) : nil
        }
    }

    /// Has a value measured and stored, behind everybody's back.
    func keep(
        _ box: ValueBox,
        _ record: QueryRecord,
        _ arrival: Arrival,
        in guarded: borrowing Guarded,
        size: (@Sendable () -> Int?)? = nil
    ) {
        record.isLookedUp = true
        // What stays in memory is encoded only to be measured: at its 1st, 2nd, 4th … change.
        let isDue = record.changes != record.measuredChanges && record.changes.isPowerOfTwo
        guard record.query.policy.tier == .onDisk || isDue || size != nil else { return }
        record.measuredChanges = record.changes
        if !record.contained.isEmpty { record.contained.formIntersection(guarded.unremoved) }
        let contained = record.contained
        record.partition.writer.put(
            EntryWriter.Draft(
                key: record.key,
                policy: record.policy,
                asOf: arrival.asOf,
                day: record.state.held?.day,
                // An invalidation came while the flight was under way.
                isStale: record.state.held?.generation != record.state.generation,
                contained: contained,
                size: size
            ) { box.encoded() }
        )
    }

    /// Takes over what values cost.
    func note(_ measures: [EntryWriter.Measure]) {
        guarded.withLock { guarded in
            for measure in measures {
                // The measure of a value that was changed since is still the best there is.
                guard let record = guarded.entries[measure.key], record.changes > 0
                else { continue }
                let bytes = measure.key.text.utf8.count + (measure.bytes ?? 0)
                guarded.entries.measure(record, bytes)
            }
            evict(from: &guarded)
        }
        // On a thread of its own: an observer may wait for the writer's queue, on which this runs.
        Task.detached { [weak self] in self?.deliver() }
    }

    /// Reads the query's row, unless there is a value already or none to expect.
    func restore(_ query: ErasedQuery) {
        guard query.policy.tier == .onDisk else { return }
        let (isNeeded, partition, invalidations) = guarded.withLock { guarded in
            let record = guarded.entries[query.key]
            return (
                record?.isLookedUp != true && !guarded.isClosed,
                record?.partition ?? guarded.partition(query.policy.audience),
                guarded.marks.invalidations
            )
        }
        guard isNeeded else { return }
        guard !query.isSourced else { return sourceChanged(query) }
        var entry = partition.writer.entry(query.key, policy: query.policy)
        if let found = entry, found.keptUntil <= clock.now() { entry = nil }
        var box: ValueBox?
        if let entry {
            box = try? query.decode(entry.value)
            // The type has changed since: what it was is of no use any more.
            if box == nil { partition.store.dropEntry(entry) }
        }
        transact(query, creating: true) { ground -> Change?? in
            guard ground.partition === partition else { return nil }
            guard let entry, let box else { return .some(nil) }
            var landing = FetchedBase(box)
            for effect in ground.effects {
                if entry.contained.contains(effect.sequence) {
                    landing.settled.append(effect.sequence)
                } else {
                    landing.remaining.append(effect)
                }
            }
            return .some(ground.taking(landing))
        } commit: { change, record, guarded in
            guard !record.isLookedUp else { return nil }
            record.isLookedUp = true
            guard let entry, let change else { return .nothing }
            // What was invalidated since the row was read is as stale as what the row says so of.
            let isStale = entry.isStale || guarded.marks.invalidations != invalidations
            guard
                record.state.restore(
                    asOf: entry.asOf,
                    day: entry.day,
                    staleSince: isStale ? guarded.marks.generation : nil
                )
            else { return .nothing }
            drop(change.landing.settled, from: record, in: &guarded)
            record.contained = entry.contained
            record.show(
                change.shown,
                of: change.landing.remaining.isEmpty ? nil : change.landing.base,
                isEqual: false,
                number: guarded.nextNumber()
            )
            guarded.entries.measure(record, entry.cost)
            return .nothing
        }
    }
}

extension UInt64 {
    fileprivate var isPowerOfTwo: Bool { self > 0 && self & (self - 1) == 0 }
}
