import SanguineAuthority
import SanguineModel

/// Reads records for a command that decides, with what the open transaction has changed.
///
/// Mutable state: `fault`, on the writer's thread alone.
final class RecordStatements: RecordReader {
    private let rows: RowReader
    private let ids: SQLStatement
    private let tombstones: SQLStatement
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
    }

    func record(_ name: RecordName) throws -> RecordRow? {
        try noting { () throws(SQLFailure) in
            guard case .record(let row) = try rows.row(.record(name)) else { return nil }
            return row
        }
    }

    func ids(in list: IndexList, at key: IndexKey, limit: Int) throws -> [RecordID] {
        try noting { () throws(SQLFailure) in
            ids.bind(list)
            ids.bind(key.bytes)
            ids.bind(limit: limit)
            return try ids.all { row throws(SQLFailure) in try row.recordID(0) }
        }
    }

    func tombstones(of account: Identifier, limit: Int) throws -> [RecordRow] {
        try noting { () throws(SQLFailure) in
            tombstones.bind(account)
            tombstones.bind(limit: limit)
            return try tombstones.all(RecordRow.init(from:))
        }
    }

    /// Throws what a read failed with since this was last asked.
    ///
    /// Whoever decided may have taken the failure for a record that is not there.
    func check() throws(SQLFailure) {
        guard let fault else { return }
        self.fault = nil
        throw fault
    }

    private func noting<Value>(
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
