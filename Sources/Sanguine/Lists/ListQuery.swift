public import Foundation
public import SanguineModel

/// A list that comes in pages, declared like a ``ValueQuery``: its name, how it is kept, and how
/// one page of it is fetched.
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
/// An item's `id` must be its own in the whole list: that is how a row that has moved, or comes
/// twice, is known.
public struct ListQuery<Item: Codable & Sendable & Equatable & Identifiable>: Sendable
where Item.ID: Sendable {
    /// Fetches one page.
    ///
    /// Attempts, waits and cancellation are the client's business.
    public typealias Fetch = @Sendable (QueryRequest, PageRequest) async throws -> ListPage<Item>

    /// What the list is called; unique among the lists and queries of an app.
    public let name: String
    /// How the list is kept; its freshness is that of the list's beginning.
    public let policy: Policy
    /// Rows to ask for at once, 1 to 100.
    ///
    /// Default: 20.
    public let size: Int

    let key: QueryKey
    let base: URL?
    let fetch: Fetch
    private let isCursorExpired: (@Sendable (SanguineError) -> Bool)?

    /// Declares a list of any backend.
    ///
    /// - Parameters:
    ///   - name: Unique among the lists and queries of an app.
    ///   - parameters: What the list depends on.
    ///   - policy: How it is kept. Default: in memory, asked for again each time.
    ///   - size: Rows to ask for at once; at most 100. Default: 20.
    ///   - base: The backend's address. Default: the client's `baseURL`, or else its `server`.
    ///   - isCursorExpired: Whether an error says that a cursor is of no use any more, so that the
    ///     place is to be found again. Default: what ``SanguineError/isCursorExpired`` says, and
    ///     the status 400 if the page that was asked for is of the list's own size.
    ///   - fetch: Fetches one page.
    public init(
        _ name: String,
        _ parameters: any QueryParameter...,
        policy: Policy = .alwaysStale,
        size: Int = PageLimits.size,
        base: URL? = nil,
        isCursorExpired: (@Sendable (SanguineError) -> Bool)? = nil,
        fetch: @escaping Fetch
    ) {
        self.name = name
        self.policy = policy
        self.size = min(max(1, size), PageLimits.largestSize)
        self.base = base
        self.isCursorExpired = isCursorExpired
        self.fetch = fetch
        key = QueryKey(name: name, parameters: parameters)
    }

    /// Declares a list that is served at a path in the form of Sanguine's wire:
    /// `{"items":[…],"hasMore":true,"nextCursor":"…"}`, with `?limit=` and `?cursor=`.
    ///
    /// - Parameters:
    ///   - name: Unique among the lists and queries of an app.
    ///   - parameters: What the list depends on.
    ///   - path: Below the base address; or an absolute address.
    ///   - query: Parameters to append beside `limit` and `cursor`.
    ///   - policy: How it is kept. Default: in memory, asked for again each time.
    ///   - size: Rows to ask for at once; at most 100. Default: 20.
    ///   - base: The backend's address. Default: the client's `baseURL`, or else its `server`.
    public init(
        _ name: String,
        _ parameters: any QueryParameter...,
        path: String,
        query: [URLQueryItem] = [],
        policy: Policy = .alwaysStale,
        size: Int = PageLimits.size,
        base: URL? = nil
    ) {
        self.name = name
        self.policy = policy
        self.size = min(max(1, size), PageLimits.largestSize)
        self.base = base
        isCursorExpired = nil
        key = QueryKey(name: name, parameters: parameters)
        fetch = { request, page in
            try await request.get(path, query: query + page.query)
        }
    }

    /// Whether the answer says that the request's cursor is of no use any more.
    func isExpired(_ error: SanguineError, answering request: PageRequest) -> Bool {
        if let isCursorExpired { return isCursorExpired(error) }
        if error.isCursorExpired { return true }
        // Of a larger page than usual the backend may refuse the size.
        guard case .problem(let problem) = error, problem.status == 400 else { return false }
        return request.limit == size
    }
}

/// Which page is asked for.
public struct PageRequest: Hashable, Sendable {
    /// The `nextCursor` of the page before; `nil` for the first.
    public var cursor: String?
    /// How many items to ask for, at most 100.
    ///
    /// Usually the list's ``ListQuery/size``; more on the way back to a place in it.
    public var limit: Int

    /// Creates a request for a page.
    public init(cursor: String? = nil, limit: Int = PageLimits.size) {
        self.cursor = cursor
        self.limit = limit
    }

    /// `limit` and, but for the first page, `cursor`, as Sanguine's wire calls them.
    public var query: [URLQueryItem] {
        var items = [URLQueryItem(name: "limit", value: String(limit))]
        if let cursor { items.append(URLQueryItem(name: "cursor", value: cursor)) }
        return items
    }
}

extension SanguineError {
    /// Whether a backend says that a list's cursor is of no use any more.
    ///
    /// The codes `cursor_invalid` and `cursor_expired`, and the status 410. Only answers to
    /// requests with a cursor are asked, and if it was not the cursor, the second failure reaches
    /// the caller.
    public var isCursorExpired: Bool {
        guard case .problem(let problem) = self else { return false }
        return ["cursor_invalid", "cursor_expired"].contains(problem.code.rawValue)
            || problem.status == 410
    }
}
