/// A query whose value is kept by a part of the client and not by the cache.
///
/// The balance is one: what the user sees is the server's number and the operations in flight.
/// `cached`, `value`, `updates`, `model` ask it first.
protocol DerivedQuery<Value>: Sendable {
    associatedtype Value: Codable & Sendable & Equatable

    /// The visible value, at once.
    func cached() -> Value?

    /// The visible value with its age and the state of the network, at once.
    func snapshot() -> QueryState<Value>

    /// The visible value, fetched first if it is older than its policy allows.
    func value() async throws(SanguineError) -> Value

    /// The visible value after a fetch.
    func refresh() async throws(SanguineError) -> Value

    /// Makes the next reader fetch.
    func invalidate()

    /// The present state, then every change. Newest only; ends when the client is closed.
    func updates() -> AsyncStream<QueryState<Value>>
}

/// The derived queries of a client, by name.
///
/// Fixed when the client is created.
struct DerivedQueries: Sendable {
    // Immutable: it has no state, and its subclass holds one `let`.
    private class Box: @unchecked Sendable {
        func invalidate() {}
    }

    // Immutable: one `let` of a Sendable type. A class, because a downcast is cheaper than a cast
    // between existentials, and `cached` is on the way.
    private final class TypedBox<Value: Codable & Sendable & Equatable>: Box, @unchecked Sendable {
        let source: any DerivedQuery<Value>
        init(_ source: any DerivedQuery<Value>) { self.source = source }
        override func invalidate() { source.invalidate() }
    }

    private var boxes: [String: Box] = [:]

    /// Serves every query of that name and type from the source.
    mutating func serve<Value>(_ query: Query<Value>, from source: any DerivedQuery<Value>) {
        boxes[query.name] = TypedBox(source)
    }

    /// The source of the query, or `nil` if the cache serves it.
    func source<Value>(of query: Query<Value>) -> (any DerivedQuery<Value>)? {
        guard query.erased.isDerived, let box = boxes[query.name] as? TypedBox<Value>
        else { return nil }
        return box.source
    }

    /// Invalidates the query of that name, if it is a derived one.
    func invalidate(_ name: String) { boxes[name]?.invalidate() }

    /// Invalidates all of them.
    func invalidateAll() { for box in boxes.values { box.invalidate() } }
}
