public import Foundation

/// A question that can be asked again: its name, how its answer is kept, and how it is fetched.
///
/// ```swift
/// extension Query where Value == Profile {
///     static func profile(_ id: String) -> Self {
///         Query("profile", id, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
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
public struct Query<Value: Codable & Sendable & Equatable>: Sendable {
    /// Fetches the value once.
    ///
    /// Attempts, waits and cancellation are the client's business.
    public typealias Fetch = @Sendable (QueryRequest) async throws -> Value

    /// What the query is called; unique among the queries of an app.
    public let name: String
    /// How the value is kept.
    public let policy: Policy

    let key: QueryKey
    let base: URL?
    let fetch: Fetch
    /// Whether a part of the client keeps the value, and not the cache.
    let isDerived: Bool
    /// Whether its flights are counted; not if they only bring about others, which are.
    var countsFlights = true

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
        self.name = name
        self.policy = policy
        self.base = base
        self.fetch = fetch
        key = QueryKey(name: name, parameters: parameters)
        isDerived = false
    }

    /// How its value is fetched.
    var plan: FetchPlan { FetchPlan(name: name, policy: policy, base: base) }

    init(derived name: String, policy: Policy, fetch: @escaping Fetch) {
        self.name = name
        self.policy = policy
        self.fetch = fetch
        base = nil
        key = QueryKey(name: name, parameters: [])
        isDerived = true
    }
}
