public import Foundation
import SanguineModel

/// How look-ups of single things made in the same moment become one request.
///
/// ```swift
/// let profiles = Batch<String, Profile>("profile") { request, ids in
///     let list = URLQueryItem(name: "ids", value: ids.joined(separator: ","))
///     let found: [Profile] = try await request.get("profiles", query: [list])
///     return Dictionary(found.map { ($0.id, $0) }) { first, _ in first }
/// }
///
/// extension ValueQuery where Value == Profile {
///     static func profile(_ id: String) -> Self {
///         .batched(by: profiles, id, policy: .fresh(for: .minutes(5)))
///     }
/// }
/// ```
///
/// Each look-up stays a query of its own: cached, observed and invalidated by itself. Only the
/// requests are joined. Values and errors are dealt out one by one; an id that the answer does not
/// contain has the problem `not_found`, and the others are not touched by it.
///
/// A request joins look-ups of one user, one base address and one policy, and no others. It is
/// tried again as a whole, as the policy says. A caller who gives up leaves it to the others; when
/// all have, it is cancelled.
public struct Batch<ID: QueryParameter, Value: Codable & Sendable & Equatable>: Sendable {
    /// Fetches several things; what is not there is left out.
    public typealias Fetch = @Sendable (QueryRequest, [ID]) async throws -> [ID: Value]

    /// Fetches several things, some of which may fail by themselves.
    public typealias FetchResults =
        @Sendable (QueryRequest, [ID]) async throws -> [ID: Result<Value, SanguineError>]

    /// What the queries made of it are called; unique among the queries of an app.
    public let name: String
    /// How many ids go into one request.
    public let size: Int
    /// How long the first look-up waits for others.
    public let window: Duration

    let fetch: FetchResults

    /// Declares a batch.
    ///
    /// - Parameters:
    ///   - name: What the queries made of it are called.
    ///   - size: How many ids go into one request. Default: 100; at most 1,000.
    ///   - window: How long the first look-up waits for others, unless the batch is full before.
    ///     Default: 2 ms, which is a turn of the main actor and of the tasks that it starts, and
    ///     nothing beside a request. At most 1 second.
    ///   - fetch: Fetches several things, each id once.
    public init(
        _ name: String,
        size: Int = ClientLimits.batchSize,
        window: Duration = ClientLimits.batchWindow,
        fetch: @escaping Fetch
    ) {
        self.init(name: name, size: size, window: window) { request, ids in
            try await fetch(request, ids).mapValues { .success($0) }
        }
    }

    private init(name: String, size: Int, window: Duration, fetch: @escaping FetchResults) {
        self.name = name
        self.size = min(max(1, size), ClientLimits.largestBatch)
        self.window = min(max(.zero, window), ClientLimits.longestBatchWindow)
        self.fetch = fetch
    }

    /// Declares a batch whose answer names a reason for each id that failed.
    ///
    /// - Parameters:
    ///   - name: What the queries made of it are called.
    ///   - size: How many ids go into one request. Default: 100; at most 1,000.
    ///   - window: How long the first look-up waits for others. Default: 2 ms; at most 1 second.
    ///   - fetch: Fetches several things. What fails by itself is not tried again.
    /// - Returns: The batch.
    public static func results(
        _ name: String,
        size: Int = ClientLimits.batchSize,
        window: Duration = ClientLimits.batchWindow,
        fetch: @escaping FetchResults
    ) -> Batch {
        Batch(name: name, size: size, window: window, fetch: fetch)
    }
}

extension ValueQuery {
    /// Declares a query whose requests are joined with others of the same moment.
    ///
    /// - Parameters:
    ///   - batch: How they are joined. Its name is the query's.
    ///   - id: What is looked up; the query's only parameter.
    ///   - policy: How the value is kept. Default: in memory, asked for again each time.
    ///   - base: The backend's address. Default: the client's `baseURL`, or else its `server`.
    /// - Returns: The query.
    public static func batched<ID: QueryParameter>(
        by batch: Batch<ID, Value>,
        _ id: ID,
        policy: Policy = .alwaysStale,
        base: URL? = nil
    ) -> Self {
        ValueQuery(batch.name, id, policy: policy, base: base) { request in
            try await request.backend.batches.value(of: id, in: batch, policy, request)
        }
    }
}
