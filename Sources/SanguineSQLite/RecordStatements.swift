import SanguineAuthority
import SanguineModel

/// Reads records for a command's decision, including changes of the open transaction.
///
/// Mutable state: `fault`, used only on the writer's thread.
final class RecordStatements: RecordReader {
    private let rows: RowReader
    private let ids: SQLStatement
    private let tombstones: SQLStatement
    private let inCollection: SQLStatement
    private let nextScope: SQLStatement
    private let inList: SQLStatement
    private let live: SQLStatement
    private let owned: OwnedStatements
    private var fault: SQLFailure?

    init(_ rows: RowReader, on connection: OpaquePointer) throws(SQLFailure) {
        self.rows = rows
        ids = try SQLStatement(
            """
            SELECT id FROM record_index
            WHERE collection = ? AND scope = ? AND field = ? AND value = ? ORDER BY id LIMIT ?
            """,
            on: connection
        )
        tombstones = try SQLStatement(
            """
            SELECT \(RecordRow.columns) FROM records INDEXED BY records_deleted_by_feed
            WHERE owner = ? AND deleted_at IS NOT NULL ORDER BY seq LIMIT ?
            """,
            on: connection
        )
        inCollection = try SQLStatement(
            """
            SELECT \(RecordRow.columns) FROM records INDEXED BY records_live_by_name
            WHERE collection = ? AND (scope, id) > (?, ?) AND deleted_at IS NULL
            ORDER BY scope, id LIMIT ?
            """,
            on: connection
        )
        nextScope = try SQLStatement(
            """
            SELECT scope FROM record_index WHERE collection = ? AND scope >= ?
            ORDER BY scope LIMIT 1
            """,
            on: connection
        )
        live = try SQLStatement(
            """
            SELECT \(RecordRow.columns) FROM records INDEXED BY records_live_by_feed
            WHERE owner = ? AND seq > ? AND deleted_at IS NULL ORDER BY seq LIMIT ?
            """,
            on: connection
        )
        owned = try OwnedStatements(on: connection)
        inList = try SQLStatement(
            """
            SELECT value, id FROM record_index
            WHERE collection = ? AND scope = ? AND field = ? LIMIT ?
            """,
            on: connection
        )
    }

    func record(_ name: RecordName) throws -> RecordRow? {
        try recordingFailure { () throws(SQLFailure) in
            guard case .record(let row) = try rows.row(.record(name)) else { return nil }
            return row
        }
    }

    func ids(in list: IndexList, at key: IndexKey, limit: Int) throws -> [RecordID] {
        try recordingFailure { () throws(SQLFailure) in
            ids.bind(list)
            ids.bind(key.bytes)
            ids.bind(limit: limit)
            return try ids.all { row throws(SQLFailure) in try row.recordID(0) }
        }
    }

    func tombstones(of account: Identifier, limit: Int) throws -> [RecordRow] {
        try recordingFailure { () throws(SQLFailure) in
            tombstones.bind(account)
            tombstones.bind(limit: limit)
            return try tombstones.all(RecordRow.init(from:))
        }
    }

    func records(
        in collection: String,
        after position: IndexBuild.Position?,
        limit: Int,
        bytes: Int
    ) throws -> [RecordRow] {
        try recordingFailure { () throws(SQLFailure) in
            inCollection.bind(collection)
            inCollection.bind(scope: position?.scope)
            inCollection.bind(position?.id?.text ?? "")
            inCollection.bind(limit: limit)
            defer { inCollection.reset() }
            var rows: [RecordRow] = []
            var room = max(1, bytes)
            while room > 0, try inCollection.step() {
                let row = try RecordRow(from: inCollection)
                room -= row.value.count
                rows.append(row)
            }
            return rows
        }
    }

    func scopes(
        in collection: String,
        after position: IndexBuild.Position?,
        limit: Int
    ) throws -> [Identifier?] {
        try recordingFailure { () throws(SQLFailure) in
            var scopes: [Identifier?] = []
            // The smallest larger byte string is the same one followed by a zero.
            var least: [UInt8] = []
            if let position { least = (position.scope?.bytes ?? []) + [0] }
            while scopes.count < limit {
                nextScope.bind(collection)
                nextScope.bind(least)
                let found = try nextScope.first { row throws(SQLFailure) in
                    (scope: try row.scope(0), bytes: row.bytes(0))
                }
                guard let found else { break }
                scopes.append(found.scope)
                least = found.bytes + [0]
            }
            return scopes
        }
    }

    func entries(in list: IndexList, limit: Int) throws -> [IndexEntry] {
        try recordingFailure { () throws(SQLFailure) in
            inList.bind(list)
            inList.bind(limit: limit)
            return try inList.all { row throws(SQLFailure) in
                IndexEntry(list, IndexKey(bytes: row.bytes(0)), try row.recordID(1))
            }
        }
    }

    func liveRecords(
        of account: Identifier,
        after seq: Int64,
        limit: Int
    ) throws -> [RecordRow] {
        try recordingFailure { () throws(SQLFailure) in
            live.bind(account)
            live.bind(seq)
            live.bind(limit: limit)
            return try live.all(RecordRow.init(from:))
        }
    }

    func ownedRows(of account: Identifier) throws -> OwnedRows {
        try recordingFailure { () throws(SQLFailure) in try owned.rows(of: account) }
    }

    func document(_ kind: DocumentKind, id: String) throws -> DocumentRow? {
        try recordingFailure { () throws(SQLFailure) in
            guard case .document(let row) = try rows.row(.document(kind, id: id)) else {
                return nil
            }
            return row
        }
    }

    func hasOperation(_ account: Identifier, key: String) throws -> Bool {
        try recordingFailure { () throws(SQLFailure) in
            try rows.row(.operation(account, key: key)) != nil
        }
    }

    func hasBlob(_ account: Identifier, _ id: BlobID) throws -> Bool {
        try recordingFailure { () throws(SQLFailure) in
            try rows.row(.blob(account, id)) != nil
        }
    }

    /// Throws the error of a read since the last call, if there is one.
    ///
    /// The decision may have mistaken the failed read for a missing record.
    func check() throws(SQLFailure) {
        guard let fault else { return }
        self.fault = nil
        throw fault
    }

    private func recordingFailure<Value>(
        _ body: () throws(SQLFailure) -> Value
    ) throws(SQLFailure) -> Value {
        do {
            return try body()
        } catch {
            fault = error
            throw error
        }
    }
}
