import Foundation

/// A query without the type of its values: what the cache knows of it.
///
/// Code that is generic over a type has to look up, at each step, what the type makes of others,
/// which costs many times the step. So the cache deals in boxes, and the types are taken off and
/// put on at its rim.
final class ErasedQuery: Sendable {
    let name: String
    let policy: Policy
    let key: QueryKey
    let base: URL?
    /// Whether the value is made by a source of the client's own, see ``EntrySource``.
    let isSourced: Bool
    /// Whether its flights are counted; not if they only bring about others, which are.
    let countsFlights: Bool
    /// Whether a source has more of it than the entry, see ``Parts``.
    let comesInParts: Bool
    /// Fetches the value once.
    let fetch: @Sendable (QueryRequest) async throws -> ValueBox
    private let valueType: any CacheableValue.Type

    init(
        name: String,
        policy: Policy,
        key: QueryKey,
        base: URL?,
        isSourced: Bool,
        countsFlights: Bool,
        comesInParts: Bool,
        valueType: any CacheableValue.Type,
        fetch: @escaping @Sendable (QueryRequest) async throws -> ValueBox
    ) {
        self.name = name
        self.policy = policy
        self.key = key
        self.base = base
        self.isSourced = isSourced
        self.countsFlights = countsFlights
        self.comesInParts = comesInParts
        self.valueType = valueType
        self.fetch = fetch
    }

    /// The type of the values.
    var type: ObjectIdentifier { ObjectIdentifier(valueType) }

    /// How the value is fetched.
    var plan: FetchPlan { FetchPlan(name: name, policy: policy, base: base) }

    /// The value that was stored as that JSON.
    func decode(_ json: Data) throws -> ValueBox {
        func decode<Value: CacheableValue>(_ type: Value.Type) throws -> ValueBox {
            .of(try StoredCoding.decode(type, from: json))
        }
        return try decode(valueType)
    }

    /// An entry for the values of the query.
    func entry(_ partition: Partition, metrics: NamedMetrics) -> Entry {
        func entry<Value: CacheableValue>(_: Value.Type) -> Entry {
            TypedEntry<Value>(self, partition, metrics: metrics)
        }
        return entry(valueType)
    }
}
