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

        init(
            of query: ErasedQuery,
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
        func day(in zone: TimeZone) -> LocalDay? {
            goesByDays ? LocalDay(containing: min(departure, asOf), in: zone) : nil
        }
    }

    /// The box of the present value, if it is of the query's type.
    func held(by query: ErasedQuery) -> (box: ValueBox, version: UInt64)? {
        guarded.withLock { guarded in
            guard let record = guarded.records[query.key], record.serves(query),
                let box = record.box
            else { return nil }
            return (box, record.version)
        }
    }

    /// Has a value measured and stored, behind everybody's back.
    ///
    /// - Returns: Whether there is anything to measure or to store.
    func keep(
        _ box: ValueBox,
        _ record: QueryRecord,
        _ arrival: Arrival,
        in guarded: borrowing Guarded,
        size: (@Sendable () -> Int?)? = nil
    ) -> Bool {
        record.isLookedUp = true
        let policy = record.policy
        // What stays in memory is encoded only to be measured: at its 1st, 2nd, 4th … change.
        let isDue = record.changes != record.measuredChanges && record.changes.isPowerOfTwo
        guard policy.tier == .onDisk || isDue || size != nil else { return false }
        record.measuredChanges = record.changes
        if !record.contained.isEmpty { record.contained.formIntersection(guarded.unremoved) }
        let contained = record.contained
        writer.put(
            EntryWriter.Draft(
                key: record.key,
                policy: policy,
                owner: policy.audience == .user ? arrival.epoch.owner : "",
                asOf: arrival.asOf,
                day: record.state.held?.day,
                epoch: arrival.epoch.number,
                // An invalidation came while the flight was under way.
                isStale: record.state.held?.generation != record.state.generation,
                contained: contained,
                size: size
            ) { box.encoded() }
        )
        return true
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
    func restore(_ query: ErasedQuery) {
        guard query.policy.tier == .onDisk else { return }
        let (isNeeded, epoch, invalidations) = guarded.withLock { guarded in
            let isLookedUp = guarded.records[query.key]?.isLookedUp == true
            return (!isLookedUp && !guarded.isClosed, guarded.epoch, guarded.marks.invalidations)
        }
        guard isNeeded else { return }
        var entry = writer.entry(query.key, policy: query.policy, of: epoch)
        if let found = entry, found.keptUntil <= clock.now() { entry = nil }
        var box: ValueBox?
        if let entry {
            box = try? query.decode(entry.value)
            // The type has changed since: what it was is of no use any more.
            if box == nil { store.dropEntry(entry) }
        }
        guard let entry, let box else {
            change(query, creating: true) { record, _ in
                guard record.mayRestore(query, of: epoch) else { return nil }
                record.isLookedUp = true
                return .nothing
            }
            return
        }
        while !restore(box, entry, query, of: epoch, since: invalidations) {}
    }

    // Returns whether that is all: not if other operations have come meanwhile.
    private func restore(
        _ box: ValueBox,
        _ entry: StoredEntry,
        _ query: ErasedQuery,
        of epoch: SessionEpoch,
        since invalidations: UInt64
    ) -> Bool {
        let list = effects(on: query.key)
        var landing = FetchedBase(box)
        for effect in list?.effects ?? [] {
            if entry.contained.contains(effect.sequence) {
                landing.settled.append(effect.sequence)
            } else {
                landing.remaining.append(effect)
            }
        }
        let shown = landing.shown
        var mustRetry = false
        change(query, creating: true) { record, guarded in
            guard record.mayRestore(query, of: epoch) else { return nil }
            guard guarded.effects.list(of: query.key)?.version == list?.version else {
                mustRetry = true
                return nil
            }
            record.isLookedUp = true
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
            drop(landing.settled, from: query.key, record, in: &guarded)
            record.contained = entry.contained
            let base = landing.remaining.isEmpty ? nil : box
            record.show(shown, of: base, isEqual: false, number: guarded.nextNumber())
            record.cost = ClientLimits.entryOverheadBytes + entry.cost
            return .nothing
        }
        return !mustRetry
    }
}

extension QueryRecord {
    /// Whether a row of that epoch may still be taken over.
    fileprivate func mayRestore(_ query: ErasedQuery, of epoch: SessionEpoch) -> Bool {
        serves(query) && !isLookedUp
            && (state.epoch == epoch.number || query.policy.audience != .user)
    }
}

extension UInt64 {
    fileprivate var isPowerOfTwo: Bool { self > 0 && self & (self - 1) == 0 }
}
