public import Foundation

/// A value that can be fetched: its name, its policy, and the closure that fetches it.
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
/// Queries with the same name and parameters are the same query: they share one value and one fetch
/// at a time. So the parameters must include everything that the closure's request depends on.
public struct ValueQuery<Value: Codable & Sendable & Equatable>: Sendable {
    /// Fetches the value once.
    ///
    /// The client handles retries, waits and cancellation.
    public typealias Fetch = @Sendable (QueryRequest) async throws -> Value

    /// The query without its value type.
    let erased: ErasedQuery

    /// The name of the query, unique among the queries of an app.
    public var name: String { erased.name }
    /// The policy of the value.
    public var policy: Policy { erased.policy }

    var key: QueryKey { erased.key }

    /// Declares a query.
    ///
    /// - Parameters:
    ///   - name: The name, unique among the queries of an app.
    ///   - parameters: Everything that the response depends on.
    ///   - policy: The policy of the value. Default: in memory, fetched again each time.
    ///   - base: The backend's address. Default: the client's `baseURL`, or its `server` if there
    ///     is none.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    ///   - fetch: Fetches the value once.
    public init(
        _ name: String,
        _ parameters: any QueryParameter...,
        policy: Policy = .alwaysStale,
        base: URL? = nil,
        fileID: StaticString = #fileID,
        line: UInt = #line,
        fetch: @escaping Fetch
    ) {
        let key = QueryKey(name: name, parameters: parameters)
        let place = DeclarationPlace(fileID, line)
        self.init(name, key: key, policy: policy, base: base, place: place, fetch: fetch)
    }

    /// Creates a query whose value is provided by a source of the client.
    init(sourced name: String, policy: Policy, place: DeclarationPlace) {
        let key = QueryKey(name: name, parameters: [])
        self.init(
            name,
            key: key,
            policy: policy,
            base: nil,
            isSourced: true,
            place: place
        ) { _ in
            throw SanguineError.notConfigured("'server'")
        }
    }

    init(
        _ name: String,
        key: QueryKey,
        policy: Policy,
        base: URL?,
        isSourced: Bool = false,
        countsFetches: Bool = true,
        partsDeclaration: QueryDeclaration? = nil,
        place: DeclarationPlace? = nil,
        fetch: @escaping Fetch
    ) {
        erased = ErasedQuery(
            name: name,
            policy: policy,
            key: key,
            base: base,
            isSourced: isSourced,
            countsFetches: countsFetches,
            comesInParts: partsDeclaration != nil,
            partsDeclaration: partsDeclaration,
            place: place,
            valueType: Value.self
        ) { .of(try await fetch($0)) }
    }

    /// Returns the value of an entry's answer.
    func value(in answer: Entry.Answer) throws(SanguineError) -> Value {
        // A query with values of another type was refused earlier.
        guard let value = try answer.get().value(as: Value.self) else {
            throw .conflictingQuery(name: name)
        }
        return value
    }
}

// MARK: - Declaration

extension ValueQuery {
    /// The identity of the query among those of its type: its name and its parameters.
    package var identity: String { key.text }

    /// The query's declaration.
    ///
    /// It does not depend on the parameters, so any parameters will do.
    public var declaration: QueryDeclaration { erased.declaration }
}
