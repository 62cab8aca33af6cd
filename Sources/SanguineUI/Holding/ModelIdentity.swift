/// Identifies the content of a model.
///
/// A view keeps its model while the identity is the same.
struct ModelIdentity: Hashable, Sendable {
    /// A key that identifies a query without a name.
    struct Key: Hashable, Sendable {
        let base: any Hashable & Sendable

        static func == (lhs: Key, rhs: Key) -> Bool {
            AnyHashable(lhs.base) == AnyHashable(rhs.base)
        }

        func hash(into hasher: inout Hasher) { AnyHashable(base).hash(into: &hasher) }
    }

    /// The query's name and parameters; empty if it has none.
    var query = ""
    /// The key that the query depends on, in addition to its name and parameters.
    var key: Key?

    /// Creates the identity of a query from its name and parameters, and a key.
    init(_ query: String, _ key: (any Hashable & Sendable)? = nil) {
        self.query = query
        self.key = key.map { Key(base: $0) }
    }
}
