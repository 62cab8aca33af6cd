import Foundation
import SanguineModel
import Synchronization

extension Entries {
    /// The time at which a value arrived.
    struct FetchTiming {
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

        /// Returns the day of the request: a response that is in progress at midnight may belong to
        /// the old day.
        func day(in zone: TimeZone) -> LocalDay? {
            goesByDays ? LocalDay(containing: min(departure, asOf), in: zone) : nil
        }
    }

    /// Encodes a value in the background, to measure it and to write it to disk.
    func keep(
        _ change: Change,
        _ entry: Entry,
        _ arrival: FetchTiming,
        in guarded: borrowing Guarded,
        size: (@Sendable () -> Int?)? = nil
    ) {
        entry.isLookedUp = true
        // A value in memory is encoded only to measure it, at its 1st, 2nd, 4th … change.
        let isDue = entry.changes != entry.measuredChanges && entry.changes.isPowerOfTwo
        guard entry.query.policy.tier == .onDisk || isDue || size != nil else { return }
        entry.measuredChanges = entry.changes
        if !entry.contained.isEmpty { entry.contained.formIntersection(guarded.unremoved) }
        let contained = entry.contained
        entry.cacheScope.writer.put(
            EntryWriter.Draft(
                key: entry.key,
                policy: entry.policy,
                asOf: arrival.asOf,
                day: entry.state.held?.day,
                // The entry was invalidated during the fetch.
                isStale: entry.state.held?.generation != entry.state.generation,
                contained: contained,
                size: size
            ) { [base = change.base] in base.encoded() }
        )
    }

    /// Records the sizes of values.
    func recordSizes(_ measures: [EntryWriter.Measure]) {
        guarded.withLock { guarded in
            for measure in measures {
                // If the value has changed since, its old size is still the best estimate.
                guard let entry = guarded.table[measure.key], entry.changes > 0
                else { continue }
                let bytes = measure.key.text.utf8.count + (measure.bytes ?? 0)
                guarded.table.measure(entry, bytes)
            }
            evict(from: &guarded)
        }
        // In another task: an observer may wait for the writer's queue, on which this runs.
        Task.detached { [weak self] in self?.deliver() }
    }

    /// Reads the query's row, unless the entry was looked up already or has no row.
    func restore(_ query: ErasedQuery) {
        guard query.policy.tier == .onDisk else { return }
        let (isNeeded, cacheScope, invalidations) = guarded.withLock { guarded in
            let entry = guarded.table[query.key]
            return (
                entry?.isLookedUp != true && !guarded.isClosed,
                entry?.cacheScope ?? guarded.cacheScope(query.policy.audience),
                guarded.marks.invalidations
            )
        }
        guard isNeeded else { return }
        guard !query.isSourced else { return sourceChanged(query) }
        var row = cacheScope.writer.entry(query.key, policy: query.policy)
        if let found = row, found.keptUntil <= clock.now() { row = nil }
        var box: ValueBox?
        if let row {
            box = try? query.decode(row.value)
            // The value's type has changed since: the row is useless.
            if box == nil { cacheScope.store.dropEntry(row) }
        }
        transact(query, creating: true) { snapshot -> Change?? in
            guard snapshot.cacheScope === cacheScope else { return nil }
            guard let row, let box else { return .some(nil) }
            var fetched = FetchedBase(box)
            for effect in snapshot.effects {
                if row.contained.contains(effect.sequence) {
                    fetched.settled.append(effect.sequence)
                } else {
                    fetched.remaining.append(effect)
                }
            }
            return .some(snapshot.adopting(fetched))
        } commit: { change, entry, guarded in
            guard !entry.isLookedUp else { return nil }
            entry.isLookedUp = true
            guard let row, let change else { return .nothing }
            // Anything invalidated since the row was read makes the row stale.
            let isStale = row.isStale || guarded.marks.invalidations != invalidations
            guard
                entry.state.restore(
                    asOf: row.asOf,
                    day: row.day,
                    staleSince: isStale ? guarded.marks.generation : nil
                )
            else { return .nothing }
            if let fetched = change.fetched { drop(fetched.settled, from: entry, in: &guarded) }
            entry.contained = row.contained
            entry.show(change, number: guarded.nextNumber())
            guarded.table.measure(entry, row.cost)
            return .nothing
        }
    }

    /// Returns the value as it is shown, without counting a read: for the client's own lookups.
    func peek<Value>(_ query: ValueQuery<Value>) -> Value? {
        restoredSnapshot(of: query.erased).value?.shown.value(as: Value.self)
    }

    /// Returns the value without effects, restored if necessary, and its cache scope.
    func base<Value>(of query: ValueQuery<Value>) -> (value: Value, cacheScope: CacheScope)? {
        let snapshot = restoredSnapshot(of: query.erased)
        return snapshot.value?.base.value(as: Value.self).map { ($0, snapshot.cacheScope) }
    }

    /// Returns the entry as it is, restored if necessary.
    func restoredSnapshot(of query: ErasedQuery) -> EntrySnapshot {
        restore(query)
        return snapshot(of: query, judgedAt: clock.now())
    }

    /// Calls `work` when all values that are pending now, of device and user, are on disk.
    func afterWriting(_ work: @escaping @Sendable () -> Void) {
        let (device, user) = guarded.withLock { ($0.device.writer, $0.user.writer) }
        device.afterWriting { user.afterWriting(work) }
    }

    // MARK: - Sources

    /// Shows the current value of an entry's source.
    func sourceChanged(_ query: ErasedQuery) {
        let source = guarded.withLock { guarded in
            guarded.cacheScope(query.policy.audience).sources[query.key]
        }
        guard let source else { return }
        show(source)
    }

    /// Applies changes that only depend on time to a source, before its value is read.
    func applyDueChanges(_ query: ErasedQuery) {
        guard query.isSourced else { return }
        guarded.withLock { $0.cacheScope(query.policy.audience).sources[query.key] }?
            .applyDueChanges()
    }

    /// Shows the value of a source, and applies an event in the same step.
    ///
    /// If several threads do so at once, the newest value counts.
    func show(
        _ source: any EntrySource,
        answer: @autoclosure () -> Entry.Answer = .failure(.cancelled),
        _ event: (Entry, inout Guarded) -> EntryState.Actions? = { _, _ in .nothing }
    ) {
        let query = source.query
        let current = source.currentValue()
        transact(query, creating: current.box != nil, answer: answer()) { snapshot in
            current.box.map { box in
                (box: box, looksSame: snapshot.value?.shown.looksSame(as: box) ?? false)
            } ?? (box: nil as ValueBox?, looksSame: true)
        } commit: { plan, entry, guarded in
            guard entry.cacheScope.sources[query.key] as AnyObject === source as AnyObject else {
                return nil
            }
            // The value has been outdated since an earlier process, so the next reader gets a newer
            // one.
            let isOutdated = !entry.isLookedUp && current.isOutdated
            if isOutdated { entry.state.markStale(generation: guarded.marks.invalidate()) }
            entry.isLookedUp = true
            if current.revision >= entry.sourceRevision, let box = plan.box {
                entry.sourceRevision = current.revision
                entry.set(box, looksSame: plan.looksSame, version: guarded.nextNumber())
                if let asOf = current.asOf {
                    entry.state.supply(at: asOf, isStale: isOutdated)
                }
            }
            return event(entry, &guarded)
        }
    }

    // MARK: - Disk

    /// Marks the value as stale, in memory and on disk.
    func invalidate(_ query: ErasedQuery) {
        // In one step for rows and memory: between two steps, a fetch could write an old row as
        // fresh.
        let (writer, mark) = guarded.withLock { guarded in
            _ = guarded.marks.invalidate()
            let writer = guarded.cacheScope(query.policy.audience).writer
            let isOnDisk = query.policy.tier == .onDisk && !query.isSourced
            let mark = isOnDisk ? writer.markStale(.key(query.key.text)) : nil
            guarded.table[query.key]?.state.markStale(generation: guarded.marks.generation)
            return (writer, mark)
        }
        if let mark { writer.journal(mark) }
        apply(query) { entry, guarded in
            entry.state.invalidate(
                generation: entry.state.generation,
                nextFetch: guarded.nextNumber()
            )
        }
        if writer.isBehind { writer.flush() }
    }

    /// Returns when every value that has arrived is on disk.
    func flush() {
        let (device, user) = guarded.withLock { ($0.device.writer, $0.user.writer) }
        device.flush()
        user.flush()
        // Work that waited for the first may wait for the second.
        device.flush()
    }
}

extension UInt64 {
    fileprivate var isPowerOfTwo: Bool { self > 0 && self & (self - 1) == 0 }
}
