public import Foundation

/// A question that can be asked again: its name, how its answer is kept, and how it is fetched.
///
/// ```swift
/// extension ValueQuery where Value == Profile {
///     static func profile(_ id: String) -> Self {
///         ValueQuery("profile", id, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
///             try await request.get("profiles/\(id)")
///         }
///     }
/// }
///
/// let profile = try await client.value(of: .profile("42"))
/// ```
///
/// Two queries with the same name and parameters are the same query: one value, one fetch at a
/// time. So everything that the closure's request depends on belongs into the parameters.
public struct ValueQuery<Value: Codable & Sendable & Equatable>: Sendable {
    /// Fetches the value once.
    ///
    /// Attempts, waits and cancellation are the client's business.
    public typealias Fetch = @Sendable (QueryRequest) async throws -> Value

    /// What the cache knows of it.
    let erased: ErasedQuery

    /// What the query is called; unique among the queries of an app.
    public var name: String { erased.name }
    /// How the value is kept.
    public var policy: Policy { erased.policy }

    var key: QueryKey { erased.key }

    /// Declares a query.
    ///
    /// - Parameters:
    ///   - name: Unique among the queries of an app.
    ///   - parameters: What the answer depends on.
    ///   - policy: How the value is kept. Default: in memory, asked for again each time.
    ///   - base: The backend's address. Default: the client's `baseURL`, or else its `server`.
    ///   - fetch: Fetches the value once.
    public init(
        _ name: String,
        _ parameters: any QueryParameter...,
        policy: Policy = .alwaysStale,
        base: URL? = nil,
        fetch: @escaping Fetch
    ) {
        let key = QueryKey(name: name, parameters: parameters)
        self.init(name, key: key, policy: policy, base: base, fetch: fetch)
    }

    /// A query whose value a source of the client's own brings.
    init(sourced name: String, policy: Policy) {
        let key = QueryKey(name: name, parameters: [])
        self.init(name, key: key, policy: policy, base: nil, isSourced: true) { _ in
            throw SanguineError.notConfigured("'server'")
        }
    }

    init(
        _ name: String,
        key: QueryKey,
        policy: Policy,
        base: URL?,
        isSourced: Bool = false,
        countsFlights: Bool = true,
        comesInParts: Bool = false,
        fetch: @escaping Fetch
    ) {
        erased = ErasedQuery(
            name: name,
            policy: policy,
            key: key,
            base: base,
            isSourced: isSourced,
            countsFlights: countsFlights,
            comesInParts: comesInParts,
            valueType: Value.self
        ) { .of(try await fetch($0)) }
    }

    /// The value in the cache's answer.
    func value(in answer: Entry.Answer) throws(SanguineError) -> Value {
        // A query whose values are of another type was refused before.
        guard let value = try answer.get().value(as: Value.self) else {
            throw .conflictingQuery(name: name)
        }
        return value
    }
}
