import Foundation
public import SanguineModel

extension Authority {
    /// The records of a collection that a reader asks for.
    public struct RecordsRequest: Hashable, Sendable {
        /// The ids of the records, at most ``WireLimits/largestPage`` and without other members;
        /// `nil` for a list.
        public var ids: [RecordID]?
        /// The values that indexed members must have.
        public var conditions: [String: JSONValue]
        /// The indexed member to order by, with a `-` prefix for descending; `nil` orders by id.
        public var order: String?
        /// The member to search and the beginning of its text, regardless of case and accents;
        /// `nil` for no search.
        ///
        /// The records are in the order of the text. At most ``WireLimits/searchedBytes``.
        public var search: [String: String]
        /// The name of a timeline of the collection, to list the newest records of the authors that
        /// the reader follows, and no others; `nil` for all authors.
        ///
        /// Not with conditions, an order, a search or a count.
        public var timeline: String?
        /// The number of records; clamped to 1 to ``WireLimits/largestPage``.
        ///
        /// Default: 20.
        public var limit: Int?
        /// `nextCursor` of the previous page, or `nil` for the first.
        public var cursor: String?
        /// Whether to count the records of the whole list, up to ``WireLimits/countedItems``.
        ///
        /// Default: no.
        public var counts: Bool

        /// Creates the request.
        public init(
            ids: [RecordID]? = nil,
            where conditions: [String: JSONValue] = [:],
            order: String? = nil,
            search: [String: String] = [:],
            timeline: String? = nil,
            limit: Int? = nil,
            cursor: String? = nil,
            counts: Bool = false
        ) {
            self.ids = ids
            self.conditions = conditions
            self.order = order
            self.search = search
            self.timeline = timeline
            self.limit = limit
            self.cursor = cursor
            self.counts = counts
        }
    }

    /// Returns the records of a collection that the account may read, as they are now.
    ///
    /// A page may be shorter than its limit even if more records follow: its records may be large,
    /// or few of those examined meet the conditions.
    ///
    /// - Throws: `not_found` for a collection that is not declared, `malformed_request` for members
    ///   without an index, too many ids, a count of ids or of the messages of a thread, or a cursor
    ///   of another list or account, `overloaded` while a needed index is being built.
    public func records(
        in name: String,
        for account: Identifier,
        _ request: RecordsRequest = RecordsRequest()
    ) async throws(Problem) -> ListPage<RecordChange> {
        let collection = try collection(name)
        let request = request.ofThreads(in: name)
        if let ids = request.ids {
            return try await records(ids, request, collection, for: account)
        }
        var query = try query(request, collection, in: collection.listScope(of: account))
        try query.applyTimeline(request, collection, of: account)
        try checkIndexes(of: query)
        let list = query.name
        var thread: String?
        if query.isOfThread, let id = request.conditions[ChatMessage.byThread.field]?.string {
            thread = id
            query.conditions = [:]
            if let id = RecordID(id) { query.start(in: id) }
        }
        if let text = request.cursor {
            query.after = try cursors.recordPosition(text, list: list, account: account)
        }
        if request.counts {
            guard thread == nil else { throw .uncountable }
            query.countLimit = WireLimits.countedItems
        }
        let asked = query
        let found = try await read { storage throws(StorageError) in
            try await storage.records(asked)
        }
        var items: [RecordChange] = []
        let own = thread.map { id in found.records.prefix { ThreadHistory.thread(of: $0) == id } }
        for row in own ?? found.records[...] { items.append(try row.asItem()) }
        items = try await counted(items, of: name)
        var next: String?
        if let last = found.next, items.count == found.records.count {
            next = try cursors.text(last, list: list, account: account)
        }
        return ListPage(
            items: items,
            hasMore: next != nil,
            nextCursor: next,
            count: found.count.map { ListCount(number: $0.number, isExact: $0.isExact) }
        )
    }

    /// Returns the query for a list, without its cursor.
    private func query(
        _ request: RecordsRequest,
        _ collection: RecordCollection,
        in scope: Identifier?
    ) throws(Problem) -> RecordQuery {
        var query = RecordQuery(
            of: collection.name,
            in: scope,
            limit: min(max(1, request.limit ?? WireLimits.defaultPage), WireLimits.largestPage),
            bytes: Self.pageBytes,
            looks: Self.looksPerPage
        )
        query.hasSharedNames = collection.access == .readers
        try query.apply(request, collection)
        return query
    }

    /// Returns a page of a list that everyone may read as JSON, with its entity tag; `nil` for
    /// other lists.
    ///
    /// The items are shared with other accounts. The page contains all changes that were
    /// acknowledged to the account before; changes of others may be missing for a few seconds.
    ///
    /// - Throws: see ``records(in:for:_:)``.
    func sharedRecords(
        in name: String,
        for account: Identifier,
        _ request: RecordsRequest,
        fields: Set<String>?
    ) async throws(Problem) -> (body: [UInt8], tag: String)? {
        let collection = try collection(name)
        guard collection.access == .everyone, request.ids == nil, request.timeline == nil else {
            return nil
        }
        var query = try query(request, collection, in: nil)
        try checkIndexes(of: query)
        let list = query.name
        if let text = request.cursor {
            query.after = try cursors.recordPosition(text, list: list, account: account)
        }
        if request.counts { query.countLimit = WireLimits.countedItems }
        let key = SharedPageKey(query: query, fields: fields)
        let page = try await lists.page(key, for: account) { [self] in await read(key) }
        var cursor: String?
        if let next = page.next { cursor = try cursors.text(next, list: list, account: account) }
        return (page.body(cursor: cursor), page.tag(cursor: cursor))
    }

    private func read(_ key: SharedPageKey) async -> Result<SharedPage, Problem> {
        do throws(Problem) {
            let found = try await read { storage throws(StorageError) in
                try await storage.records(key.query)
            }
            var items: [RecordChange] = []
            for row in found.records { items.append(try row.asItem()) }
            items = try await counted(items, of: key.query.collection)
            return .success(SharedPage(items, found, fields: key.fields))
        } catch {
            return .failure(error)
        }
    }

    /// Returns one record that the account may read.
    ///
    /// - Throws: `not_found` if there is no such record, or the account may not read it.
    public func record(
        _ id: RecordID,
        in name: String,
        for account: Identifier
    ) async throws(Problem) -> RecordChange {
        let collection = try collection(name)
        let scope = collection.scope(of: account)
        let isThread = name == ChatThread.collection.name
        let key = RecordName(name, in: scope, isThread ? id.ofThread : id)
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([.record(key)])
        }
        guard let row = loaded.record(key), row.isLive, collection.isReadable(row, by: account)
        else { throw .noRecord }
        let items = try await counted([try row.asItem()], of: name)
        return items[0]
    }

    private func records(
        _ ids: [RecordID],
        _ request: RecordsRequest,
        _ collection: RecordCollection,
        for account: Identifier
    ) async throws(Problem) -> ListPage<RecordChange> {
        guard ids.count <= WireLimits.largestPage, request.conditions.isEmpty,
            request.order == nil, request.cursor == nil, !request.counts, request.search.isEmpty,
            request.timeline == nil
        else {
            throw Problem(
                .malformedRequest,
                """
                Send at most \(WireLimits.largestPage) 'ids', without conditions, search, order, \
                timeline, cursor or count.
                """
            )
        }
        let scope = collection.scope(of: account)
        let names = ids.map { RecordName(collection.name, in: scope, $0) }
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load(Set(names).map(Key.record))
        }
        var items: [RecordChange] = []
        for name in names {
            guard let row = loaded.record(name), row.isLive,
                collection.isReadable(row, by: account)
            else { continue }
            items.append(try row.asItem())
        }
        return ListPage(items: try await counted(items, of: collection.name))
    }

    /// Checks that the indexes of a query contain all records.
    ///
    /// - Throws: `overloaded`.
    func checkIndexes(of query: RecordQuery) throws(Problem) {
        let incomplete = incompleteIndexes.all
        guard !incomplete.isEmpty else { return }
        let lists = [query.order, query.search?.list, query.timeline?.list].compactMap(\.self)
        var needed = Set(query.conditions.keys).union(lists).map { field in
            IndexName(collection: query.collection, field: field)
        }
        if let follows = query.timeline?.follows {
            needed.append(IndexName(collection: follows.collection, field: follows.field))
        }
        for index in needed.sorted() {
            guard !incomplete.contains(index) else { throw .incomplete(index) }
        }
    }

    private func collection(_ name: String) throws(Problem) -> RecordCollection {
        guard let collection = settings.schema.collection(name) else {
            throw Problem(.notFound, "Use the name of a collection that the server declares.")
        }
        return collection
    }

    /// The maximum number of records that one page of a list examines.
    package static let looksPerPage = 10_000
}

extension RecordQuery {
    /// Adds the conditions and the order of the request.
    fileprivate mutating func apply(
        _ request: Authority.RecordsRequest,
        _ collection: RecordCollection
    ) throws(Problem) {
        var fields = Array(request.conditions.keys)
        try applySearch(request, collection)
        if let order = request.order {
            isDescending = order.utf8.first == UInt8(ascii: "-")
            let field = isDescending ? String(Substring(order.utf8.dropFirst())) : order
            self.order = collection.listName(of: field)
            fields.append(field)
        } else if collection.access == .readers, request.conditions.isEmpty {
            // The ids of the records that an account may read are in no list.
            self.order = collection.listName(of: "createdAt")
        }
        for field in fields where !collection.indexes.contains(where: { $0.hasBytes(of: field) }) {
            let known = collection.indexes.joined(separator: "', '")
            throw Problem(.malformedRequest, "Find and order only by indexed members: '\(known)'.")
        }
        for (field, value) in request.conditions {
            guard let key = IndexKey(value) else {
                throw Problem(
                    .malformedRequest,
                    """
                    Find by strings of at most \(IndexKey.limit - 1) bytes, and by numbers with \
                    fewer digits: longer ones are not indexed completely.
                    """
                )
            }
            conditions[collection.listName(of: field)] = key
        }
    }

    private mutating func applySearch(
        _ request: Authority.RecordsRequest,
        _ collection: RecordCollection
    ) throws(Problem) {
        guard let (field, text) = request.search.first else { return }
        guard request.search.count == 1, request.order == nil else {
            throw Problem(.malformedRequest, "Search by one member, without an order.")
        }
        guard collection.search.contains(where: { $0.hasBytes(of: field) }) else {
            let known = collection.search.joined(separator: "', '")
            throw Problem(.malformedRequest, "Search only by declared members: '\(known)'.")
        }
        let folded = text.folded
        guard !folded.isEmpty, folded.utf8.count <= WireLimits.searchedBytes else {
            throw Problem(
                .malformedRequest,
                "Search by text of 1 to \(WireLimits.searchedBytes) bytes."
            )
        }
        // The key of a string begins with its kind.
        search = Search(in: StoredIndex.search(field).name, for: [5] + folded.utf8)
    }

    fileprivate mutating func applyTimeline(
        _ request: Authority.RecordsRequest,
        _ collection: RecordCollection,
        of account: Identifier
    ) throws(Problem) {
        guard let name = request.timeline else { return }
        guard request.conditions.isEmpty, request.order == nil, request.search.isEmpty,
            !request.counts
        else {
            throw Problem(
                .malformedRequest,
                "List a timeline without conditions, order, search or count."
            )
        }
        guard let timeline = collection.timelines.first(where: { $0.name.hasBytes(of: name) })
        else {
            let known = collection.timelines.map(\.name).joined(separator: "', '")
            throw Problem(.malformedRequest, "List only declared timelines: '\(known)'.")
        }
        self.timeline = Timeline(
            in: StoredIndex.timeline(by: timeline.by).name,
            of: IndexList(timeline.follows, in: account, by: timeline.naming),
            limit: WireLimits.followedAuthors,
            own: timeline.includesOwn ? RecordID(account) : nil
        )
        isDescending = true
    }

    /// The string that binds a cursor to the list.
    fileprivate var name: String {
        let conditions = conditions.sorted { $0.key < $1.key }
            .map { "\($0.key)=\(Base64URL.encode($0.value.bytes))" }
        let searched = search.map { ["\($0.list)^\(Base64URL.encode($0.prefix))"] } ?? []
        let followed =
            timeline.map { ["\($0.list)<\($0.follows.collection).\($0.follows.field)"] } ?? []
        let parts =
            [collection, order ?? "", "\(isDescending)"] + conditions + searched + followed
        let digest = Fingerprint("records", parts.joined(separator: " ")).bytes.prefix(12)
        return "records.\(Base64URL.encode(digest))"
    }
}

extension Authority.RecordsRequest {
    /// Returns the request with ids of threads as they are stored.
    fileprivate func ofThreads(in collection: String) -> Self {
        var request = self
        let field = ChatMessage.byThread.field
        if collection == ChatThread.collection.name {
            request.ids = ids?.map(\.ofThread)
        } else if collection == ChatMessage.collection.name,
            let id = conditions[field]?.string.flatMap({ RecordID($0) })
        {
            request.conditions[field] = .string(id.ofThread.text)
        }
        return request
    }
}

extension CursorSeal {
    fileprivate func text(
        _ position: RecordPosition,
        list: String,
        account: Identifier
    ) throws(Problem) -> String {
        let key = Base64URL.encode(position.key?.bytes ?? [])
        let id = Base64URL.encode(position.id.text.utf8)
        return try text("\(key).\(id)", list: list, account: account)
    }

    fileprivate func recordPosition(
        _ text: String,
        list: String,
        account: Identifier
    ) throws(Problem) -> RecordPosition {
        let parts = try position(text, list: list, account: account)
            .split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, let key = Base64URL.decode(parts[0]),
            let text = Base64URL.decode(parts[1]),
            let id = RecordID(String(decoding: text, as: UTF8.self))
        else { throw .cursorInvalid }
        return RecordPosition(key.isEmpty ? nil : IndexKey(bytes: key), id)
    }
}

extension RecordRow {
    /// Returns the record as it appears in lists.
    ///
    /// The number of a record that others may read would tell them how much its owner does.
    fileprivate func asItem() throws(Problem) -> RecordChange {
        guard let value = try? JSONValue(stored: value) else { throw .unreadableRecord }
        let number = name.scope == nil ? 0 : seq
        return RecordChange(collection: name.collection, id: name.id, seq: number, value: value)
    }
}

extension Problem {
    fileprivate static var uncountable: Problem {
        Problem(
            .malformedRequest,
            "Leave 'count' out: the thread itself has its number of messages."
        )
    }

    fileprivate static var noRecord: Problem {
        Problem(.notFound, "Use the id of a record that this account may read.")
    }
}
