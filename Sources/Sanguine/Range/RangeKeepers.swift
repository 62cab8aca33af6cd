import Synchronization

/// What the client needs of a keeper whose types it does not know.
protocol RangeSteering: AnyObject, Sendable {
    func change(to user: Partition)
    func close()
}

/// The keepers of all range queries.
///
/// Invariants:
///
/// 1. A query has one keeper at a time: as long as anybody uses it, or has been handed it, whoever
///    asks gets the same one. Its readers, watchers and flights keep it alive, and it is found here
///    for as long as it lives.
/// 2. At most ``RangeLimits/keepers`` live that nobody uses.
///
/// Mutable state: `guarded`, by its mutex, which is never held over a call of a keeper that may run
/// foreign code, nor while one may be released.
final class RangeKeepers: Sendable {
    private struct Entry {
        weak var keeper: (any RangeSteering)?
    }

    private struct Guarded {
        var entries: [QueryKey: Entry] = [:]
        var sweepAt = 2 * RangeLimits.keepers
        /// Keeps some alive that nobody may use at the moment.
        var kept: [QueryKey: any RangeSteering] = [:]
        var isClosed = false

        /// Returns what must be released outside of the lock.
        mutating func keep(
            _ keeper: any RangeSteering,
            for key: QueryKey
        ) -> [QueryKey: any RangeSteering] {
            var surplus: [QueryKey: any RangeSteering] = [:]
            if kept.count >= RangeLimits.keepers {
                // All that they know is in the cache: one that nobody uses can be made again.
                swap(&surplus, &kept)
            }
            kept[key] = keeper
            entries[key] = Entry(keeper: keeper)
            if entries.count > sweepAt {
                entries = entries.filter { $0.value.keeper != nil }
                sweepAt = max(2 * RangeLimits.keepers, entries.count * 2)
            }
            return surplus
        }
    }

    private let guarded = Mutex(Guarded())
    private let queries: QueryCache

    init(queries: QueryCache) { self.queries = queries }

    /// The keeper of the query.
    ///
    /// - Throws: ``SanguineError/conflictingQuery(name:)`` if the query's key has other types;
    ///   ``SanguineError/closed``.
    func keeper<Index, Value>(
        of query: RangeQuery<Index, Value>
    ) throws(SanguineError) -> RangeKeeper<Index, Value> {
        let known = guarded.withLock { $0.entries[query.key]?.keeper }
        guard let found = known ?? add(RangeKeeper(query, queries: queries), for: query.key) else {
            throw .closed
        }
        guard let keeper = found as? RangeKeeper<Index, Value> else {
            throw .conflictingQuery(name: query.name)
        }
        keeper.take(query)
        return keeper
    }

    // Returns the one that another thread has added meanwhile, or `nil` if the client is closed.
    private func add(
        _ made: any RangeSteering,
        for key: QueryKey
    ) -> (any RangeSteering)? {
        var surplus: [QueryKey: any RangeSteering] = [:]
        let keeper = guarded.withLock { guarded -> (any RangeSteering)? in
            guard !guarded.isClosed else { return nil }
            if let known = guarded.entries[key]?.keeper { return known }
            surplus = guarded.keep(made, for: key)
            return made
        }
        withExtendedLifetime(surplus) {}  // Released here, under no lock.
        return keeper
    }

    /// How many keepers live, for tests.
    var count: Int { live.count }

    private var live: [any RangeSteering] {
        guarded.withLock { $0.entries.values.compactMap(\.keeper) }
    }

    /// Ends what is under way for the user before.
    func change(to user: Partition) {
        for keeper in live { keeper.change(to: user) }
    }

    /// Ends all that is under way.
    func close() {
        let keepers = guarded.withLock { guarded in
            defer { (guarded.entries, guarded.kept) = ([:], [:]) }
            guarded.isClosed = true
            return guarded.entries.values.compactMap(\.keeper)
        }
        for keeper in keepers { keeper.close() }
    }
}
