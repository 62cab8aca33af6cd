/// What a model is of: as long as it is the same, a view keeps its model.
struct ModelIdentity: Hashable, Sendable {
    /// What stands for a query that says nothing of itself.
    struct Key: Hashable, Sendable {
        let base: any Hashable & Sendable

        static func == (lhs: Key, rhs: Key) -> Bool {
            AnyHashable(lhs.base) == AnyHashable(rhs.base)
        }

        func hash(into hasher: inout Hasher) { AnyHashable(base).hash(into: &hasher) }
    }

    /// The query's name and parameters; empty if it has none.
    var query = ""
    /// What it depends on beside them.
    var key: Key?

    /// The identity of a query with these name and parameters, and that key.
    init(_ query: String, _ key: (any Hashable & Sendable)? = nil) {
        self.query = query
        self.key = key.map { Key(base: $0) }
    }
}
