public import Foundation

/// A question about a stretch of days or numbers, of which only what is not known is asked.
///
/// ```swift
/// extension RangeQuery where Index == CalendarDay, Value == Mood {
///     static let moods = RangeQuery("moods", policy: .fresh(for: .hours(1)).stored(.onDisk)) {
///         request, days in
///         let moods: [DatedMood] = try await request.get(
///             "moods?from=\(days.lowerBound)&to=\(days.upperBound)"
///         )
///         return Dictionary(uniqueKeysWithValues: moods.map { ($0.day, $0.mood) })
///     }
/// }
///
/// let month = try await client.value(of: .moods, in: first...last)
/// ```
///
/// An index that the answer lacks is known to have no value, and is not asked for again while the
/// answer is fresh. Each index is fresh by the policy, counted from its own fetch. All that is
/// known of one query is one entry of the cache, with the policy's tier and audience.
public struct RangeQuery<Index: RangeIndex, Value: Codable & Sendable & Equatable>: Sendable {
    /// Fetches the values of a stretch once.
    ///
    /// What lies outside of the stretch is ignored. Attempts, waits and cancellation are the
    /// client's business.
    public typealias Fetch =
        @Sendable (QueryRequest, ClosedRange<Index>) async throws -> [Index: Value]

    /// What the query is called; unique among the queries of an app.
    public let name: String
    /// How the values are kept.
    public let policy: Policy

    let key: QueryKey
    let base: URL?
    let fetch: Fetch

    /// Declares a query.
    ///
    /// - Parameters:
    ///   - name: Unique among the queries of an app.
    ///   - parameters: What the answer depends on, beside the stretch.
    ///   - policy: How the values are kept. Default: in memory, asked for again each time.
    ///   - base: The backend's address. Default: the client's `baseURL`, or else its `server`.
    ///   - fetch: Fetches the values of a stretch once.
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
    }

    /// How a stretch is fetched.
    var plan: FetchPlan { FetchPlan(name: name, policy: policy, base: base) }

    /// The entry of the cache that holds all that is known.
    ///
    /// It is never stale by its age, because each index has its own; it is stale when it was
    /// invalidated as a whole.
    func entry(
        refetch: @escaping ValueQuery<RangeContents<Value>>.Fetch
    ) -> ValueQuery<RangeContents<Value>> {
        var policy = policy
        policy.freshness = .forever
        policy.adaptive = nil  // It would be asked instead of the freshness.
        policy.retry = .never  // The requests that it causes have attempts of their own.
        return ValueQuery(
            name,
            key: key,
            policy: policy,
            base: base,
            countsFlights: false,
            comesInParts: true,
            fetch: refetch
        )
    }
}
