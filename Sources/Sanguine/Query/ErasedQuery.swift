import Foundation

/// A query without the type of its values, as the cache uses it.
///
/// Generic code looks up type metadata at each step, which costs many times the step itself. So the
/// cache stores boxes, and types are erased and restored only at its interface.
final class ErasedQuery: Sendable {
    let name: String
    let policy: Policy
    let key: QueryKey
    let base: URL?
    /// Whether the value is provided by a source of the client; see ``EntrySource``.
    let isSourced: Bool
    /// Whether its fetches are counted; `false` if they only start other fetches that are counted.
    let countsFetches: Bool
    /// Whether a source holds more of the value than the entry; see ``PartFetcher``.
    let comesInParts: Bool
    /// The declaration of the list or range that this is an entry of; `nil` for a single query.
    let partsDeclaration: QueryDeclaration?
    /// The place of the declaration; `nil` if it is unknown.
    let place: DeclarationPlace?
    /// Fetches the value once.
    let fetch: @Sendable (QueryRequest) async throws -> ValueBox
    private let valueType: any CacheableValue.Type

    init(
        name: String,
        policy: Policy,
        key: QueryKey,
        base: URL?,
        isSourced: Bool,
        countsFetches: Bool,
        comesInParts: Bool,
        partsDeclaration: QueryDeclaration?,
        place: DeclarationPlace?,
        valueType: any CacheableValue.Type,
        fetch: @escaping @Sendable (QueryRequest) async throws -> ValueBox
    ) {
        self.name = name
        self.policy = policy
        self.key = key
        self.base = base
        self.isSourced = isSourced
        self.countsFetches = countsFetches
        self.comesInParts = comesInParts
        self.partsDeclaration = partsDeclaration
        self.place = partsDeclaration?.place ?? place
        self.valueType = valueType
        self.fetch = fetch
    }

    /// The type of the values.
    var type: ObjectIdentifier { ObjectIdentifier(valueType) }

    /// The row of the query in the storage matrix.
    var declaration: QueryDeclaration {
        partsDeclaration ?? QueryDeclaration(name, policy, .query, place)
    }

    /// Returns whether both queries come from one declaration, in a few instructions.
    func looksDeclared(as other: ErasedQuery) -> Bool {
        let isSamePlace =
            switch (place, other.place) {
            case (let place?, let other?): place.isSame(as: other)
            case (nil, nil): true
            default: false
            }
        return isSamePlace && policy.tier == other.policy.tier
            && policy.audience == other.policy.audience && policy.version == other.policy.version
    }

    /// The plan for fetching the value.
    var plan: FetchPlan { FetchPlan(name: name, policy: policy, base: base) }

    /// Decodes a stored value.
    func decode(_ json: Data) throws -> ValueBox {
        func decode<Value: CacheableValue>(_ type: Value.Type) throws -> ValueBox {
            .of(try StoredCoding.decode(type, from: json))
        }
        return try decode(valueType)
    }

    /// Creates an entry for the values of the query.
    func entry(_ cacheScope: CacheScope, metrics: NamedMetrics) -> Entry {
        func entry<Value: CacheableValue>(_: Value.Type) -> Entry {
            TypedEntry<Value>(self, cacheScope, metrics: metrics)
        }
        return entry(valueType)
    }
}
