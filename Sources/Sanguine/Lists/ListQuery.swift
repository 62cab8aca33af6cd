public import Foundation
public import SanguineModel

/// A list that is loaded in pages, declared like a ``ValueQuery``: its name, its policy, and the
/// closure that fetches one page.
///
/// ```swift
/// extension ListQuery where Item == Post {
///     static func feed(_ kind: FeedKind) -> Self {
///         ListQuery("feed", kind, path: "feed/\(kind)", policy: .fresh(for: .seconds(30)))
///     }
/// }
///
/// let feed = client.model(.feed(.forYou))  // items, hasMore, loadNext()
/// ```
///
/// An item's `id` must be unique in the list: it identifies a row that has moved or occurs twice.
public struct ListQuery<Item: Codable & Sendable & Equatable & Identifiable>: Sendable
where Item.ID: Sendable {
    /// Fetches one page.
    ///
    /// The client handles retries, waits and cancellation.
    public typealias Fetch = @Sendable (QueryRequest, PageRequest) async throws -> ListPage<Item>

    /// The name of the list, unique among the lists and queries of an app.
    public let name: String
    /// The policy of the list; its freshness applies to the list's beginning.
    public let policy: Policy
    /// The number of rows to request at once, from 1 to 100.
    ///
    /// Default: 20.
    public let size: Int

    let key: QueryKey
    let base: URL?
    let fetch: Fetch
    /// How the list's model shows the user's own records; `nil` if it does not.
    private(set) var own: OwnRecordRows<Item>?
    private let place: DeclarationPlace
    private let isCursorExpired: (@Sendable (SanguineError) -> Bool)?

    /// Declares a list on any backend.
    ///
    /// - Parameters:
    ///   - name: The name, unique among the lists and queries of an app.
    ///   - parameters: Everything that the list depends on.
    ///   - policy: The policy of the list. Default: in memory, fetched again each time.
    ///   - size: The number of rows to request at once, at most 100. Default: 20.
    ///   - base: The backend's address. Default: the client's `baseURL`, or its `server` if there
    ///     is none.
    ///   - isCursorExpired: Returns whether an error means that a cursor is no longer valid, so
    ///     that the position must be found again. Default: ``SanguineError/isCursorExpired``, and
    ///     status 400 if the requested page had the list's own size.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    ///   - fetch: Fetches one page.
    public init(
        _ name: String,
        _ parameters: any QueryParameter...,
        policy: Policy = .alwaysStale,
        size: Int = PageLimits.size,
        base: URL? = nil,
        isCursorExpired: (@Sendable (SanguineError) -> Bool)? = nil,
        fileID: StaticString = #fileID,
        line: UInt = #line,
        fetch: @escaping Fetch
    ) {
        self.name = name
        self.policy = policy
        self.size = min(max(1, size), PageLimits.largestSize)
        self.base = base
        self.isCursorExpired = isCursorExpired
        self.fetch = fetch
        place = DeclarationPlace(fileID, line)
        key = QueryKey(name: name, parameters: parameters)
    }

    /// Declares a list that is served at a path in Sanguine's wire format:
    /// `{"items":[…],"hasMore":true,"nextCursor":"…"}`, with `?limit=` and `?cursor=`.
    ///
    /// - Parameters:
    ///   - name: The name, unique among the lists and queries of an app.
    ///   - parameters: Everything that the list depends on.
    ///   - path: A path below the base address, or a URL.
    ///   - query: Query parameters to append in addition to `limit` and `cursor`.
    ///   - policy: The policy of the list. Default: in memory, fetched again each time.
    ///   - size: The number of rows to request at once, at most 100. Default: 20.
    ///   - base: The backend's address. Default: the client's `baseURL`, or its `server` if there
    ///     is none.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    public init(
        _ name: String,
        _ parameters: any QueryParameter...,
        path: String,
        query: [URLQueryItem] = [],
        policy: Policy = .alwaysStale,
        size: Int = PageLimits.size,
        base: URL? = nil,
        fileID: StaticString = #fileID,
        line: UInt = #line
    ) {
        self.name = name
        self.policy = policy
        self.size = min(max(1, size), PageLimits.largestSize)
        self.base = base
        isCursorExpired = nil
        place = DeclarationPlace(fileID, line)
        key = QueryKey(name: name, parameters: parameters)
        fetch = { request, page in
            try await request.get(path, query: query + page.query)
        }
    }

    /// The list's declaration, for ``SanguineClient/Configuration/queries``.
    ///
    /// It does not depend on the parameters, so any parameters will do.
    public var declaration: QueryDeclaration { QueryDeclaration(name, policy, .list, place) }

    /// Returns the list, whose model shows the user's own records.
    func showing(_ own: OwnRecordRows<Item>) -> Self {
        var list = self
        list.own = own
        return list
    }

    /// Whether the error means that the request's cursor is no longer valid.
    func isExpired(_ error: SanguineError, answering request: PageRequest) -> Bool {
        if let isCursorExpired { return isCursorExpired(error) }
        if error.isCursorExpired { return true }
        // If the page is larger than usual, the backend may have refused its size.
        guard case .problem(let problem) = error, problem.status == 400 else { return false }
        return request.limit == size
    }
}

/// A request for one page of a list.
public struct PageRequest: Hashable, Sendable {
    /// The `nextCursor` of the page before; `nil` for the first page.
    public var cursor: String?
    /// The number of items to request, at most 100.
    ///
    /// Usually the list's ``ListQuery/size``; larger when a position is found again.
    public var limit: Int

    /// Creates a request for a page.
    public init(cursor: String? = nil, limit: Int = PageLimits.size) {
        self.cursor = cursor
        self.limit = limit
    }

    /// The query parameters `limit` and, except for the first page, `cursor`, as in Sanguine's wire
    /// format.
    public var query: [URLQueryItem] {
        var items = [URLQueryItem(name: "limit", value: String(limit))]
        if let cursor { items.append(URLQueryItem(name: "cursor", value: cursor)) }
        return items
    }
}

extension SanguineError {
    /// Whether a backend reports that a list's cursor is no longer valid.
    ///
    /// This is the case for the codes `cursor_invalid` and `cursor_expired`, and for status 410. It
    /// is used only for requests with a cursor. If the cursor was not the cause, the caller gets
    /// the second error.
    public var isCursorExpired: Bool {
        guard case .problem(let problem) = self else { return false }
        return ["cursor_invalid", "cursor_expired"].contains(problem.code.rawValue)
            || problem.status == 410
    }
}
