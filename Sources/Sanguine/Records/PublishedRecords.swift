import Foundation
public import SanguineModel

extension ValueQuery where Value: SyncedRecord {
    /// A record that the user may read, of whichever owner, as the server has it.
    ///
    /// ```swift
    /// let singer = try await client.value(of: .published(Singer.self, id))
    /// ```
    ///
    /// Lookups of one collection made at the same time are joined into one request; see ``Batch``.
    /// A lookup of a record that does not exist fails with the problem `not_found`, which does not
    /// affect the others. When the user's own records of the collection, or of one that it counts,
    /// change, or the server reports a change of a list that is shown, the value becomes stale.
    ///
    /// - Parameters:
    ///   - type: The type of the record.
    ///   - id: The record's id.
    ///   - policy: The policy of the value. Default: fresh for five minutes, in memory.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    /// - Returns: The query.
    public static func published(
        _ type: Value.Type,
        _ id: RecordID,
        policy: Policy = .publishedRecord,
        fileID: StaticString = #fileID,
        line: UInt = #line
    ) -> Self {
        let collection = Value.collection.name
        let batch = PublishedRecords.batch("record:\(collection)", of: Value.self, fields: nil) {
            try $0.whole() as Value
        }
        return .batched(
            by: batch,
            id,
            policy: policy.depends(on: PublishedRecords.dependency(collection)),
            fileID: fileID,
            line: line
        )
    }
}

extension ValueQuery {
    /// The selected members of a record that the user may read.
    ///
    /// It is cached separately from the whole record and from other selections: a part is never
    /// shown as the whole. See ``published(_:_:policy:fileID:line:)`` for requests and freshness.
    ///
    /// - Parameters:
    ///   - type: The type of the record.
    ///   - id: The record's id.
    ///   - selection: The members to request.
    ///   - policy: The policy of the value. Default: fresh for five minutes, in memory.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    /// - Returns: The query.
    public static func published<R: SyncedRecord>(
        _ type: R.Type,
        _ id: RecordID,
        only selection: RecordSelection<R>,
        policy: Policy = .publishedRecord,
        fileID: StaticString = #fileID,
        line: UInt = #line
    ) -> Self where Value == PartialRecord<R> {
        let name = "record:\(R.collection.name)(\(selection.names.joined(separator: ",")))"
        return .batched(
            by: PublishedRecords.batch(name, of: R.self, fields: selection.query) {
                try $0.part(selection)
            },
            id,
            policy: policy.depends(on: PublishedRecords.dependency(R.collection.name)),
            fileID: fileID,
            line: line
        )
    }
}

extension ListQuery where Item: SyncedRecord {
    /// A list of records that the user may read, of all owners, in the server's order.
    ///
    /// Records that do not match the type are left out: other users may have stored anything. When
    /// the user's own records of the collection, or of one that it counts, change, or the server
    /// reports a change of the list while it is shown, the list becomes stale.
    ///
    /// - Parameters:
    ///   - listing: The records and their order. Default: all, by id.
    ///   - showsOwn: Whether the list's ``ListModel`` shows the user's own records as they are on
    ///     this device, with all operations that the server has not applied: new ones where the
    ///     list will have them, changed ones in their place, deleted ones not at all. Other reads
    ///     return the server's rows. Default: no.
    ///   - size: The number of rows to request at once, at most 100. Default: 20.
    ///   - policy: The policy of the list. Default: fresh for 30 seconds, in memory.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    /// - Returns: The list.
    public static func published(
        _ listing: RecordListing<Item> = RecordListing(),
        showsOwn: Bool = false,
        size: Int = PageLimits.size,
        policy: Policy = .publishedList,
        fileID: StaticString = #fileID,
        line: UInt = #line
    ) -> Self {
        let collection = Item.collection.name
        let list = ListQuery(
            listing.name,
            showsOwn ? "own&\(listing.text)" : listing.text,
            policy: policy.depends(on: listing.collections),
            size: size,
            fileID: fileID,
            line: line
        ) { request, page in
            let query = listing.query + page.query
            return try await PublishedRecords.page(of: collection, query, request) {
                try $0.whole()
            }
        }
        return showsOwn ? list.showing(OwnRecordRows(listing)) : list
    }
}

extension ListQuery {
    /// A list of records with only the selected members, cached separately from the whole records.
    ///
    /// See ``published(_:showsOwn:size:policy:fileID:line:)``.
    ///
    /// - Parameters:
    ///   - listing: The records and their order.
    ///   - selection: The members to request.
    ///   - size: The number of rows to request at once, at most 100. Default: 20.
    ///   - policy: The policy of the list. Default: fresh for 30 seconds, in memory.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    /// - Returns: The list.
    public static func published<R: SyncedRecord>(
        _ listing: RecordListing<R>,
        only selection: RecordSelection<R>,
        size: Int = PageLimits.size,
        policy: Policy = .publishedList,
        fileID: StaticString = #fileID,
        line: UInt = #line
    ) -> Self where Item == PartialRecord<R> {
        let collection = R.collection.name
        return ListQuery(
            "\(listing.name)(\(selection.names.joined(separator: ",")))",
            listing.text,
            policy: policy.depends(on: listing.collections),
            size: size,
            fileID: fileID,
            line: line
        ) { request, page in
            let fields = URLQueryItem(name: "fields", value: selection.query)
            let query = listing.query + [fields] + page.query
            return try await PublishedRecords.page(of: collection, query, request) {
                try $0.part(selection)
            }
        }
    }
}

extension Policy {
    /// The default policy of a published record: fresh for five minutes, in memory.
    public static let publishedRecord = Policy.fresh(for: .minutes(5))

    /// The default policy of a published list: fresh for 30 seconds, in memory.
    public static let publishedList = Policy.fresh(for: .seconds(30))
}

extension Policy {
    fileprivate func depends(on collections: Set<String>) -> Policy {
        collections.sorted().reduce(self) { policy, name in
            policy.depends(on: PublishedRecords.dependency(name))
        }
    }
}

/// Requests of records that the server selects.
enum PublishedRecords {
    /// The dependency of all values of a collection.
    static func dependency(_ collection: String) -> String { "\(prefix)\(collection)" }

    /// The collections on which a value depends.
    static func collections(of policy: Policy) -> [String] {
        policy.dependencies.filter { $0.hasPrefix(prefix) }
            .map { String($0.dropFirst(prefix.count)) }
    }

    /// Returns the collection whose records a query reads from the server; `nil` for other queries.
    static func collection(of query: QueryDeclaration) -> String? {
        collections(of: query.policy).first { collection in
            ["record:", prefix].contains { lead in
                guard query.name.hasPrefix(lead + collection) else { return false }
                let end = query.name.dropFirst(lead.count + collection.count).first
                return end == nil || end == "(" || end == ":"
            }
        }
    }

    /// Begins the names of lists, and of dependencies.
    static let prefix = "records:"

    /// A record in a response.
    struct Line: Decodable {
        let id: RecordID
        let value: JSONValue?

        private var fields: RecordFields {
            guard case .object(let fields)? = value else { return [:] }
            return fields
        }

        /// Decodes the whole record.
        func whole<R: SyncedRecord>() throws -> R {
            try RecordValue(received: fields).record(R.self, id: id)
        }

        /// Decodes the selected members.
        func part<R: SyncedRecord>(_ selection: RecordSelection<R>) throws -> PartialRecord<R> {
            try PartialRecord(id: id, fields, selecting: selection)
        }
    }

    /// Returns the batch that looks up records of a collection by id.
    ///
    /// A record that does not match its type does not fail the others.
    static func batch<R: SyncedRecord, Item: Codable & Sendable & Equatable>(
        _ name: String,
        of type: R.Type,
        fields: String?,
        decode: @escaping @Sendable (Line) throws -> Item
    ) -> Batch<RecordID, Item> {
        Batch.results(name, size: WireLimits.largestPage) { request, ids in
            let list = ids.map(\.text).joined(separator: ",")
            var query = [URLQueryItem(name: "ids", value: list)]
            if let fields { query.append(URLQueryItem(name: "fields", value: fields)) }
            let page = try await lines(of: R.collection.name, query, request)
            var found: [RecordID: Result<Item, SanguineError>] = [:]
            for line in page.items { found[line.id] = Result(decoding: line, as: R.self, decode) }
            return found
        }
    }

    /// Requests a page of a list.
    static func page<Item: Codable & Sendable>(
        of collection: String,
        _ query: [URLQueryItem],
        _ request: QueryRequest,
        decode: @Sendable (Line) throws -> Item
    ) async throws(SanguineError) -> ListPage<Item> {
        let page = try await lines(of: collection, query, request)
        return ListPage(
            items: page.items.compactMap { try? decode($0) },
            hasMore: page.hasMore,
            nextCursor: page.nextCursor
        )
    }

    private struct Lines: Decodable {
        let items: [Line]
        let hasMore: Bool
        let nextCursor: String?
    }

    private static func lines(
        of collection: String,
        _ query: [URLQueryItem],
        _ request: QueryRequest
    ) async throws(SanguineError) -> Lines {
        let path = "/v1/collections/\(collection)/records"
        let response = try await request.toServer().response(path, query: query)
        return try WireCoding.decodeRecords(Lines.self, from: response)
    }
}

extension Result where Failure == SanguineError {
    fileprivate init<R: SyncedRecord>(
        decoding line: PublishedRecords.Line,
        as type: R.Type,
        _ decode: (PublishedRecords.Line) throws -> Success
    ) {
        do {
            self = .success(try decode(line))
        } catch let error as DecodingError {
            self = .failure(.decoding("\(type): \(error.place)"))
        } catch {
            self = .failure(.decoding("\(type): \(error)"))
        }
    }
}
