// What a view holds a model by: as long as it is the same, the model is.

extension ValueQuery {
    /// What tells this query from others of its type: its name and its parameters.
    package var identity: String { key.text }
}

extension ListQuery {
    /// What tells this list from others of its type: its name and its parameters.
    package var identity: String { key.text }
}

extension RangeQuery {
    /// What tells this query from others of its type: its name and its parameters.
    package var identity: String { key.text }
}

extension RecordQuery {
    /// What tells this query from others of its type; `nil` for one that was declared with a
    /// closure, of which nobody can tell what it reads.
    package var identity: String? { key?.text }
}
