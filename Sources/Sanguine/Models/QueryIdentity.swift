// The identity by which a view keeps its model: the same identity means the same model.

extension ListQuery {
    /// The identity of the list among those of its type: its name and its parameters.
    package var identity: String { key.text }
}

extension RangeQuery {
    /// The identity of the query among those of its type: its name and its parameters.
    package var identity: String { key.text }
}

extension RecordQuery {
    /// The identity of the query among those of its type; `nil` if it was declared with a closure,
    /// whose inputs are unknown.
    package var identity: String? { key?.text }
}
