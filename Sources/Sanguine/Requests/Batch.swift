public import Foundation
import SanguineModel

/// Joins lookups of single items that are made at the same time into one request.
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
/// Each lookup remains a separate query: it is cached, observed and invalidated individually. Only
/// the requests are joined. Values and errors are delivered individually; an id that the response
/// does not contain fails with the problem `not_found`, which does not affect the others.
///
/// A request joins only lookups of the same user, base address and policy. It is retried as a
/// whole, according to the policy. When one caller is cancelled, the request continues for the
/// others; when all are, it is cancelled.
public struct Batch<ID: QueryParameter, Value: Codable & Sendable & Equatable>: Sendable {
    /// Fetches several items; missing items are omitted.
    public typealias Fetch = @Sendable (QueryRequest, [ID]) async throws -> [ID: Value]

    /// Fetches several items, each of which may fail individually.
    public typealias FetchResults =
        @Sendable (QueryRequest, [ID]) async throws -> [ID: Result<Value, SanguineError>]

    /// The name of the queries made from the batch; unique among the queries of an app.
    public let name: String
    /// The maximum number of ids in one request.
    public let size: Int
    /// The time for which the first lookup waits for others.
    public let window: Duration

    let fetch: FetchResults

    /// Declares a batch.
    ///
    /// - Parameters:
    ///   - name: The name of the queries made from the batch.
    ///   - size: The maximum number of ids in one request. Default: 100; at most 1,000.
    ///   - window: The time for which the first lookup waits for others, unless the batch is full
    ///     earlier. Default: 2 ms, which covers a turn of the main actor and the tasks that it
    ///     starts, and is negligible compared with a request. At most 1 second.
    ///   - fetch: Fetches several items, each id once.
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

    /// Declares a batch whose response contains an error for each id that failed.
    ///
    /// - Parameters:
    ///   - name: The name of the queries made from the batch.
    ///   - size: The maximum number of ids in one request. Default: 100; at most 1,000.
    ///   - window: The time for which the first lookup waits for others. Default: 2 ms; at most 1
    ///     second.
    ///   - fetch: Fetches several items. An item that fails individually is not retried.
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
    /// Declares a query whose requests are joined with others made at the same time.
    ///
    /// - Parameters:
    ///   - batch: The batch that joins them. Its name is the query's.
    ///   - id: The id to look up, which is the query's only parameter.
    ///   - policy: The policy of the value. Default: in memory, fetched again each time.
    ///   - base: The backend's address. Default: the client's `baseURL`, or else its `server`.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    /// - Returns: The query.
    public static func batched<ID: QueryParameter>(
        by batch: Batch<ID, Value>,
        _ id: ID,
        policy: Policy = .alwaysStale,
        base: URL? = nil,
        fileID: StaticString = #fileID,
        line: UInt = #line
    ) -> Self {
        ValueQuery(
            batch.name,
            id,
            policy: policy,
            base: base,
            fileID: fileID,
            line: line
        ) { request in
            try await request.backend.batches.value(of: id, in: batch, policy, request)
        }
    }
}
