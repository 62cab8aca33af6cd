import GRDB
import GRDBSQLite
import SanguineAuthority
import SanguineModel

/// Opens connections with the settings that the guarantees depend on.
///
/// **Only the writer checkpoints.** The SQLite of Debian 12 (3.40.1) has the WAL-reset bug (3.7.0
/// to 3.51.2): two connections that write or checkpoint at the same time may corrupt the database.
/// There is one writing connection, in the process that holds the lock file. All others are opened
/// read-only, and such a connection never checkpoints, not even when it is the last one to close.
enum Connections {
    /// Opens the writing connection, and upgrades the database.
    static func writer(
        in folder: DataFolder,
        options: SQLiteStorageOptions,
        mayBeEmpty: Bool,
        schema: Schema
    ) throws(SQLiteStorageError) -> DatabaseQueue {
        let configuration = configuration(label: "writer", options: options)
        return try translating {
            let queue = try DatabaseQueue(path: folder.databasePath, configuration: configuration)
            try queue.writeWithoutTransaction { database in
                guard try mayBeEmpty || !schema.isMissing(in: database) else {
                    throw SQLiteStorageError.emptied(folder: folder.path)
                }
                try database.execute(
                    sql: """
                        PRAGMA journal_mode = WAL;
                        PRAGMA synchronous = FULL;
                        PRAGMA fullfsync = ON;
                        PRAGMA checkpoint_fullfsync = ON;
                        PRAGMA wal_autocheckpoint = \(options.checkpointPages);
                        PRAGMA journal_size_limit = \(options.checkpointPages * 4 * 4_096);
                        PRAGMA cache_size = -32768;
                        PRAGMA temp_store = MEMORY;
                        """
                )
                try check("journal_mode", is: "wal", on: database)
                try check("synchronous", is: "2", on: database)
                try schema.migrate(database)
            }
            return queue
        }
    }

    /// Reads the database's epoch, after assigning a new one if requested.
    static func epoch(
        of queue: DatabaseQueue,
        isNew: Bool
    ) throws(SQLiteStorageError) -> Epoch {
        try translating {
            try queue.writeWithoutTransaction { database in
                if isNew {
                    try database.execute(
                        sql: "UPDATE meta SET value = ? WHERE name = 'epoch'",
                        arguments: [Epoch.random().text]
                    )
                }
                let text = try String.fetchOne(
                    database,
                    sql: "SELECT value FROM meta WHERE name = 'epoch'"
                )
                guard let epoch = Epoch(text ?? "") else {
                    throw SQLiteStorageError.failed("the database has no epoch")
                }
                return epoch
            }
        }
    }

    /// Refuses a folder whose log belongs to another state of the database file, before anything is
    /// written.
    ///
    /// It uses a read-only connection, which changes neither file, not even when it is closed.
    static func checkHistory(
        of folder: DataFolder,
        options: SQLiteStorageOptions
    ) throws(SQLiteStorageError) {
        guard DataFolder.size(of: folder.walPath) > 0, DataFolder.size(of: folder.databasePath) > 0
        else { return }
        let isMixed = try translating {
            let queue = try reader(at: .shared(folder), options: options, schema: nil)
            defer { try? queue.close() }
            return try queue.unsafeRead { database in
                guard let handle = database.sqliteConnection else { return false }
                return try Integrity.isMixed(handle, in: folder)
            }
        }
        guard !isMixed else { throw .mixed(folder: folder.path) }
    }

    /// Opens a connection that can only read.
    ///
    /// If the folder is not writable, SQLite cannot create the memory that connections share, and
    /// the connection is opened without it, see ``ReadOnlyLocation``. Without a schema any schema
    /// is accepted.
    static func reader(
        in folder: DataFolder,
        options: SQLiteStorageOptions,
        schema: Schema?
    ) throws(SQLiteStorageError) -> DatabaseQueue {
        do throws(SQLiteStorageError) {
            return try reader(at: .shared(folder), options: options, schema: schema)
        } catch {
            guard case .failed = error, let location = ReadOnlyLocation.alone(folder) else {
                throw error
            }
            return try reader(at: location, options: options, schema: schema)
        }
    }

    private static func reader(
        at location: ReadOnlyLocation,
        options: SQLiteStorageOptions,
        schema: Schema?
    ) throws(SQLiteStorageError) -> DatabaseQueue {
        var configuration = configuration(label: "reader", options: options)
        configuration.readonly = true
        if let pragma = location.pragma {
            configuration.prepareDatabase { try $0.execute(sql: pragma) }
        }
        return try translating {
            let queue = try DatabaseQueue(path: location.path, configuration: configuration)
            try queue.unsafeRead { database in
                try database.execute(
                    sql: "PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY;"
                )
                try schema?.check(database)
            }
            return queue
        }
    }

    private static func configuration(
        label: String,
        options: SQLiteStorageOptions
    ) -> Configuration {
        var configuration = Configuration()
        configuration.label = "sanguine.sqlite.\(label)"
        configuration.busyMode = .timeout(options.busyTimeout / .seconds(1))
        return configuration
    }

    private static func check(
        _ name: String,
        is wanted: String,
        on database: Database
    ) throws {
        let got = try String.fetchOne(database, sql: "PRAGMA \(name)") ?? "nothing"
        guard got == wanted else {
            throw SQLiteStorageError.settingRefused(name: name, wanted: wanted, got: got)
        }
    }

    private static func translating<Value>(
        _ body: () throws -> Value
    ) throws(SQLiteStorageError) -> Value {
        do {
            return try body()
        } catch let error as SQLiteStorageError {
            throw error
        } catch let error as SQLFailure {
            throw SQLiteStorageError(error)
        } catch let error as DatabaseError {
            throw SQLiteStorageError(SQLFailure(error))
        } catch {
            throw .failed("\(error)")
        }
    }
}

/// The prepared statements of the writing connection, used by the writer's thread.
///
/// Not sendable.
final class WriteConnection {
    /// Reads rows, including changes of the open transaction.
    let rows: RowReader
    /// Reads records for commands.
    let records: RecordStatements
    /// GRDB's handle, for statements that are not worth preparing.
    let database: Database

    private let changes: RowWriter
    private let surplusSessions: SQLStatement
    private let begin: SQLStatement
    private let end: SQLStatement
    private let undo: SQLStatement
    private let number: SQLStatement
    private let handle: OpaquePointer
    /// The rows that the connection had changed when the transaction began, or `nil` to commit the
    /// transaction in any case.
    private var changesAtBegin: Int32?

    init(_ database: Database) throws(SQLFailure) {
        guard let handle = database.sqliteConnection else {
            throw SQLFailure(code: SQLITE_MISUSE, message: "the connection is closed")
        }
        self.database = database
        self.handle = handle
        rows = try RowReader(on: handle)
        records = try RecordStatements(rows, on: handle)
        changes = try RowWriter(on: handle)
        surplusSessions = try SQLStatement(SurplusSessions.selectSQL, on: handle)
        begin = try SQLStatement("BEGIN IMMEDIATE", on: handle)
        end = try SQLStatement("COMMIT", on: handle)
        undo = try SQLStatement("ROLLBACK", on: handle)
        number = try SQLStatement(CommitNumber.raise, on: handle)
    }

    func beginTransaction() throws(SQLFailure) {
        try begin.run()
        changesAtBegin = sqlite3_total_changes(handle)
    }

    func store(_ change: Change) throws(SQLFailure) { try changes.store(change) }

    /// Returns the sessions that a command requested, including changes of the open transaction.
    func sessions(_ surplus: SurplusSessions) throws(SQLFailure) -> [SessionRow] {
        surplusSessions.bind(surplus.account)
        surplusSessions.bind(Int64(surplus.kept))
        surplusSessions.bind(limit: SurplusSessions.limit)
        return try surplusSessions.all(SessionRow.init(from:))
    }

    /// Commits, and increments ``CommitNumber`` if anything was changed.
    func commit() throws(SQLFailure) {
        if sqlite3_total_changes(handle) != changesAtBegin { try number.run() }
        try end.run()
    }

    /// Rolls back the transaction, if there is one: SQLite ends it on its own after some failures.
    func rollBack() {
        guard sqlite3_get_autocommit(handle) == 0 else { return }
        // A failed rollback does not leave an open transaction.
        try? undo.run()
    }

    /// Performs the body in a new transaction.
    func inTransaction<Value>(
        _ body: () throws(SQLFailure) -> Value
    ) throws(SQLFailure) -> Value {
        try beginTransaction()
        do {
            let value = try body()
            try commit()
            return value
        } catch {
            rollBack()
            throw error
        }
    }

    /// Commits a transaction that changes only the commit number.
    func commitNothing() throws(SQLFailure) {
        try inTransaction { () throws(SQLFailure) in
            changesAtBegin = nil
        }
    }

    /// Compiles a statement that is used too rarely to be stored.
    func statement(_ sql: String) throws(SQLFailure) -> SQLStatement {
        try SQLStatement(sql, on: handle)
    }
}

extension SurplusSessions {
    /// Reads only the index `sessions_by_use` until the sessions are known.
    fileprivate static let selectSQL = """
        SELECT \(SessionRow.columns) FROM sessions WHERE id IN (
            SELECT id FROM sessions WHERE account = ?1 AND ended_at IS NULL
            ORDER BY rotated_at, id
            LIMIT max(0, min(?3, (
                SELECT count(*) FROM sessions WHERE account = ?1 AND ended_at IS NULL
            ) - ?2))
        ) ORDER BY rotated_at, id
        """
}
