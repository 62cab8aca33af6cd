/// The name and policy of a query, without its closure and parameters.
///
/// A row of the storage matrix, see ``StorageMatrix``.
///
/// ```swift
/// configuration.queries = [ValueQuery.profile("").declaration, ValueQuery.feed.declaration]
/// ```
public struct QueryDeclaration: Hashable, Sendable {
    /// The name of the query.
    public var name: String
    /// The policy of its values.
    public var policy: Policy

    /// Creates a declaration.
    public init(name: String, policy: Policy) {
        self.name = name
        self.policy = policy
    }
}
