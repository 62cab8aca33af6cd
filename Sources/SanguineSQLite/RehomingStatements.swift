import SanguineAuthority
import SanguineModel

/// Moves rows of a merged guest to its account.
///
/// Only the writing connection has one. Each statement finds its rows by an index, except for those
/// of operations and results, whose keys begin with the account or have an index by it.
final class RehomingStatements {
    private let statements: [SQLStatement]
    private let operations: SQLStatement
    private let results: SQLStatement
    private let removeResults: SQLStatement

    init(on connection: OpaquePointer) throws(SQLFailure) {
        statements = [
            try SQLStatement(
                """
                UPDATE devices SET account = ?2, era = \(DeviceRow.closed) WHERE account = ?1
                """,
                on: connection
            )
        ]
        operations = try SQLStatement(
            """
            UPDATE OR IGNORE operations
            SET account = ?2, head = CASE WHEN head IS NULL THEN NULL ELSE ?3 END
            WHERE account = ?1
            """,
            on: connection
        )
        results = try SQLStatement(
            """
            UPDATE OR IGNORE results
            SET account = ?2, key = CAST(substr(key, 1, \(ResultRow.questionBytes)) || ?2 AS BLOB)
            WHERE account = ?1
            """,
            on: connection
        )
        removeResults = try SQLStatement("DELETE FROM results WHERE account = ?", on: connection)
    }

    func perform(_ move: Rehoming) throws(SQLFailure) {
        for statement in statements + [results] {
            statement.bind(move.guest)
            statement.bind(move.account)
            try statement.run()
        }
        operations.bind(move.guest)
        operations.bind(move.account)
        operations.bind(move.head)
        try operations.run()
        removeResults.bind(move.guest)
        try removeResults.run()
    }
}

/// Finds the rows of an account for a command's decision.
///
/// Only the writing connection has one.
final class OwnedStatements {
    private let blobs: SQLStatement
    private let holds: SQLStatement
    private let sessions: SQLStatement
    private let documents: SQLStatement
    private let running: SQLStatement

    init(on connection: OpaquePointer) throws(SQLFailure) {
        blobs = try SQLStatement(
            "SELECT \(BlobRow.columns) FROM blobs INDEXED BY blobs_by_account WHERE account = ?",
            on: connection
        )
        holds = try SQLStatement(
            """
            SELECT \(HoldRow.columns) FROM holds INDEXED BY holds_open_by_account
            WHERE account = ? AND state = 0
            """,
            on: connection
        )
        sessions = try SQLStatement(
            """
            SELECT \(SessionRow.columns) FROM sessions INDEXED BY sessions_by_use
            WHERE account = ? AND ended_at IS NULL
            """,
            on: connection
        )
        documents = try SQLStatement(
            """
            SELECT \(DocumentRow.columns) FROM documents INDEXED BY documents_by_account
            WHERE account = ?
            """,
            on: connection
        )
        running = try SQLStatement(
            """
            SELECT key FROM operations INDEXED BY operations_running
            WHERE account = ? AND state = 0
            """,
            on: connection
        )
    }

    func rows(of account: Identifier) throws(SQLFailure) -> OwnedRows {
        for statement in [blobs, holds, sessions, documents, running] { statement.bind(account) }
        var owned = OwnedRows()
        owned.blobs = try blobs.all(BlobRow.init(from:))
        owned.openHolds = try holds.all(HoldRow.init(from:))
        owned.sessions = try sessions.all(SessionRow.init(from:))
        owned.documents = try documents.all(DocumentRow.init(from:))
        owned.runningKeys = try running.all { $0.text(0) }
        return owned
    }
}
