import Synchronization

/// What the client needs of a keeper whose types it does not know.
protocol RangeSteering: AnyObject, Sendable {
    var isIdle: Bool { get }
    func adopt(_ epoch: SessionEpoch)
    func close()
}

/// The keepers of all range queries.
///
/// Mutable state: `guarded`, by its mutex, which is never held over a call of a keeper that may run
/// foreign code.
final class RangeKeepers: Sendable {
    private struct Guarded {
        var keepers: [QueryKey: any RangeSteering] = [:]
        var isClosed = false
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
        let found = guarded.withLock {
            guarded -> Result<RangeKeeper<Index, Value>, SanguineError> in
            guard !guarded.isClosed else { return .failure(.closed) }
            if let known = guarded.keepers[query.key] {
                guard let keeper = known as? RangeKeeper<Index, Value> else {
                    return .failure(.conflictingQuery(name: query.name))
                }
                return .success(keeper)
            }
            if guarded.keepers.count >= RangeLimits.keepers {
                // All that it knows is in the cache: an idle one can be made again.
                guarded.keepers = guarded.keepers.filter { !$0.value.isIdle }
            }
            let keeper = RangeKeeper(query, queries: queries)
            guarded.keepers[query.key] = keeper
            return .success(keeper)
        }
        let keeper = try found.get()
        keeper.take(query)
        return keeper
    }

    /// Ends what is under way for the user before.
    func adopt(_ epoch: SessionEpoch) {
        for keeper in guarded.withLock({ Array($0.keepers.values) }) { keeper.adopt(epoch) }
    }

    /// Ends all that is under way.
    func close() {
        let keepers = guarded.withLock { guarded in
            defer { guarded.keepers = [:] }
            guarded.isClosed = true
            return Array(guarded.keepers.values)
        }
        for keeper in keepers { keeper.close() }
    }
}
