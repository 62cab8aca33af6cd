public import Foundation

/// A query for values that are indexed by days or numbers, which fetches only missing values.
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
/// If the response has no value for an index, the query stores that there is none, and does not
/// request it again while the response is fresh. The policy's freshness applies to each index,
/// counted from its own fetch. One entry of the cache holds all known values of a query, with
/// the policy's tier and audience.
public struct RangeQuery<Index: RangeIndex, Value: Codable & Sendable & Equatable>: Sendable {
    /// Fetches the values of a range once.
    ///
    /// Values outside of the range are ignored. The client handles retries, waits and cancellation.
    public typealias Fetch =
        @Sendable (QueryRequest, ClosedRange<Index>) async throws -> [Index: Value]

    /// The query's name; unique among the queries of an app.
    public let name: String
    /// The policy of the values.
    public let policy: Policy

    let key: QueryKey
    let base: URL?
    let fetch: Fetch
    private let place: DeclarationPlace

    /// Declares a query.
    ///
    /// - Parameters:
    ///   - name: A name that is unique among the queries of an app.
    ///   - parameters: The other parameters that the response depends on, besides the range.
    ///   - policy: The policy of the values. Default: in memory, fetched again each time.
    ///   - base: The backend's address. Default: the client's `baseURL`, or else its `server`.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    ///   - fetch: Fetches the values of a range once.
    public init(
        _ name: String,
        _ parameters: any QueryParameter...,
        policy: Policy = .alwaysStale,
        base: URL? = nil,
        fileID: StaticString = #fileID,
        line: UInt = #line,
        fetch: @escaping Fetch
    ) {
        self.name = name
        self.policy = policy
        self.base = base
        self.fetch = fetch
        place = DeclarationPlace(fileID, line)
        key = QueryKey(name: name, parameters: parameters)
    }

    /// The range's declaration, for ``SanguineClient/Configuration/queries``.
    ///
    /// It does not depend on the parameters, so any parameters will do.
    public var declaration: QueryDeclaration { QueryDeclaration(name, policy, .range, place) }

    /// The closure that fetches a range, without its type.
    var plan: FetchPlan { FetchPlan(name: name, policy: policy, base: base) }

    /// Returns the query of the cache's entry that holds all known values.
    ///
    /// The entry does not become stale with age, because each index has its own age; it is stale
    /// only when all of it was invalidated.
    func entry(
        refetch: @escaping ValueQuery<RangeContents<Value>>.Fetch
    ) -> ValueQuery<RangeContents<Value>> {
        var policy = policy
        policy.freshness = .forever
        policy.adaptive = nil  // It would take precedence over the freshness.
        policy.retry = .never  // The requests have their own retries.
        return ValueQuery(
            name,
            key: key,
            policy: policy,
            base: base,
            countsFetches: false,
            partsDeclaration: declaration,
            fetch: refetch
        )
    }
}
