import Foundation
import SanguineModel
import Synchronization

extension QueryCache {
    /// When a value arrived, and for whom.
    struct Arrival {
        let asOf: Timestamp
        let epoch: SessionEpoch
        private let departure: Timestamp
        private let goesByDays: Bool

        init<Value>(
            of query: Query<Value>,
            since departure: Timestamp? = nil,
            at now: Timestamp,
            epoch: SessionEpoch
        ) {
            asOf = now
            self.epoch = epoch
            self.departure = departure ?? now
            goesByDays = query.policy.followsDays
        }

        /// The day of the departure: an answer that was under way at midnight may be the old day's.
        func day(in zone: TimeZone) -> CalendarDay? {
            goesByDays ? CalendarDay(containing: min(departure, asOf), in: zone) : nil
        }
    }

    func held<Value>(by query: Query<Value>) -> (value: Value, version: UInt64)? {
        guarded.withLock { guarded in
            guard let record = guarded.records[query.key] as? TypedRecord<Value>,
                let value = record.value
            else { return nil }
            return (value, record.version)
        }
    }

    /// Has a value measured and stored, behind everybody's back.
    func keep<Value>(_ value: Value, _ record: TypedRecord<Value>, _ arrival: Arrival) {
        record.isLookedUp = true
        // What stays in memory is encoded only to be measured: at its 1st, 2nd, 4th … change.
        let isDue = record.changes != record.measuredChanges && record.changes.isPowerOfTwo
        guard record.policy.tier == .onDisk || isDue else { return }
        record.measuredChanges = record.changes
        let policy = record.query.policy
        writer.put(
            EntryWriter.Draft(
                key: record.key,
                policy: policy,
                owner: policy.audience == .user ? arrival.epoch.owner : "",
                asOf: arrival.asOf,
                day: record.state.held?.day,
                epoch: arrival.epoch.number,
                // An invalidation came while the flight was under way.
                isStale: record.state.held?.generation != record.state.generation
            ) { try? WireCoding.encode(value) }
        )
    }

    /// Takes over what values cost.
    func note(_ measures: [EntryWriter.Measure]) {
        guarded.withLock { guarded in
            for measure in measures {
                // The measure of a value that was changed since is still the best there is.
                guard let record = guarded.records[measure.key], record.changes > 0
                else { continue }
                guarded.bytes -= record.cost
                record.cost =
                    ClientLimits.entryOverheadBytes + measure.key.text.utf8.count
                    + (measure.bytes ?? 0)
                guarded.bytes += record.cost
            }
            evict(from: &guarded)
        }
        // On a thread of its own: an observer may wait for the writer's queue, on which this runs.
        Task.detached { [weak self] in self?.deliver() }
    }

    /// Reads the query's row, unless there is a value already or none to expect.
    func restore<Value>(_ query: Query<Value>) {
        guard query.policy.tier == .onDisk else { return }
        let (isNeeded, epoch, invalidations) = guarded.withLock { guarded in
            let isLookedUp = guarded.records[query.key]?.isLookedUp == true
            return (!isLookedUp && !guarded.isClosed, guarded.epoch, guarded.marks.invalidations)
        }
        guard isNeeded else { return }
        var entry = writer.entry(query.key, policy: query.policy, of: epoch)
        if let found = entry, found.keptUntil <= clock.now() { entry = nil }
        var value: Value?
        if let entry {
            value = try? WireCoding.decode(Value.self, from: entry.value)
            // The type has changed since: what it was is of no use any more.
            if value == nil { store.dropEntry(entry) }
        }
        change(query, creating: true) { record, guarded in
            guard let record = record as? TypedRecord<Value>, !record.isLookedUp,
                record.state.epoch == epoch.number || query.policy.audience != .user
            else { return nil }
            record.isLookedUp = true
            guard let entry, let value else { return .nothing }
            // What was invalidated since the row was read is as stale as what the row says so of.
            let isStale = entry.isStale || guarded.marks.invalidations != invalidations
            guard
                record.state.restore(
                    asOf: entry.asOf,
                    day: entry.day,
                    staleSince: isStale ? guarded.marks.generation : nil,
                    epoch: record.state.epoch
                )
            else { return .nothing }
            record.set(value, isEqual: false, version: guarded.nextNumber())
            record.cost = ClientLimits.entryOverheadBytes + entry.cost
            return .nothing
        }
    }
}

extension UInt64 {
    fileprivate var isPowerOfTwo: Bool { self > 0 && self & (self - 1) == 0 }
}
