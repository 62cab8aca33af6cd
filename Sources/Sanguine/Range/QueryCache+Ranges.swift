import SanguineModel
import Synchronization

extension QueryCache {
    /// An entry with what proves, when it is set, that it was not changed meanwhile.
    struct Held<Value> {
        let partition: Partition
        var value: Value?
        var version: UInt64 = 0
        var generation: UInt64?
        /// Whether it was not invalidated since it was set.
        var isFresh = false
    }

    /// Whether the key's entry is of another type.
    func isConflicting<Value>(_ query: Query<Value>) -> Bool {
        guarded.withLock { guarded in
            guarded.records[query.key].map { !$0.serves(query.erased) } ?? false
        }
    }

    /// The entry in one piece.
    func held<Value>(_ query: Query<Value>) -> Held<Value> {
        _ = peek(query)
        let now = clock.now()
        return guarded.withLock { guarded in
            guard let record = guarded.records[query.key], record.serves(query.erased) else {
                return Held(partition: guarded.partition(query.policy.audience))
            }
            Self.sync(record, with: guarded.marks)
            return Held(
                partition: record.partition,
                value: record.box?.value(as: Value.self),
                version: record.version,
                generation: record.state.generation,
                isFresh: record.isFresh(query.policy, at: now, in: guarded.zone)
            )
        }
    }
}
