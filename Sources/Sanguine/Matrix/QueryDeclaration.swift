/// What a query's declaration says, without its closure and parameters.
///
/// A row of the storage matrix, see ``StorageMatrix``.
///
/// ```swift
/// configuration.queries = [ValueQuery.profile("").declaration, ValueQuery.feed.declaration]
/// ```
public struct QueryDeclaration: Hashable, Sendable {
    /// What the query is called.
    public var name: String
    /// How its values are kept.
    public var policy: Policy

    /// Declares a query by name.
    public init(name: String, policy: Policy) {
        self.name = name
        self.policy = policy
    }
}

extension ValueQuery {
    /// The query's declaration.
    ///
    /// The same for all parameters: any will do.
    public var declaration: QueryDeclaration { QueryDeclaration(name: name, policy: policy) }
}
