import Foundation
import GRDB
import SanguineModel
import Synchronization

/// What the user did and the authority has not settled yet: the one thing on this device that
/// exists nowhere else.
///
/// A file of its own, with a write-ahead log that is not flushed at each write: an operation is
/// there after the process has died at any moment from ``insert(_:)``'s return on. A loss of power
/// may take what was written last, and leaves the file sound.
///
/// It is never dropped or emptied. If it cannot be opened, each use throws, and the next one tries
/// again.
///
/// The app and its companions (a widget, say) write it at the same time, and SQLite up to 3.51.2
/// can damage a log that one checkpoints while another writes. So only the app checkpoints, when
/// ``tidyUp()`` is called, and companions keep away then by a lock on a file beside it.
///
/// Mutable state: `database`, by its mutex, never held over a statement.
final class OutboxFile: Sendable {
    static let name = "sanguine-outbox.sqlite"
    static let lockName = "sanguine-outbox.lock"
    static let schemaVersion = 1

    /// Whose operations are those that were made before there was an account.
    ///
    /// The account that is made next on this device takes them over.
    static let nobody = ""
    /// Whose they are after somebody signed in to an account that was not made for them.
    static let stranded = "guest"

    /// What an operation is done with.
    enum Kind: String, Sendable {
        /// A mutator of records.
        case mutator
        /// A mutation of any backend.
        case mutation
    }

    /// An operation as it lies on disk.
    struct Row: Sendable {
        var sequence: Int64 = 0
        let id: Identifier
        var kind = Kind.mutator
        var lane: String
        let name: String
        var arguments: Data
        var phase = OutboxState.Phase.queued
        var mayBeDone = false
    }

    /// How many writes the log may take before it is copied to the file: some MB.
    private static let writesInLog = 512

    private let database = Mutex<DatabaseQueue?>(nil)
    private let writes = Mutex(0)
    private let isClosed = Mutex(false)
    private let folder: URL?
    private let isCompanion: Bool

    /// Creates the outbox; nothing is opened before it is used.
    ///
    /// - Parameters:
    ///   - folder: Where the file lies; `nil` keeps it in memory.
    ///   - isCompanion: Whether the app's own process is another.
    init(folder: URL?, isCompanion: Bool = false) {
        self.folder = folder
        self.isCompanion = isCompanion
    }

    /// Whether an earlier process has left a file.
    var isThere: Bool {
        guard let folder else { return false }
        return FileManager.default.fileExists(atPath: folder.appending(path: Self.name).path)
    }

    /// Ends all access.
    func close() {
        isClosed.withLock { $0 = true }
        try? database.withLock { $0.take() }?.close()
    }

    // MARK: - Reading

    /// The owner's operations, in their order.
    ///
    /// - Parameters:
    ///   - owner: Whose operations.
    ///   - kind: Those of which kind. Default: mutators.
    ///   - sequence: Those after which number, as another process adds them. Default: all.
    /// - Returns: Those that can be read.
    /// - Throws: What the database threw, or ``StoreError/closed``.
    func rows(
        of owner: String,
        _ kind: Kind = .mutator,
        after sequence: Int64 = 0
    ) throws -> [Row] {
        try read { database in
            try GRDB.Row.fetchAll(
                database,
                sql: """
                    SELECT sequence, id, kind, lane, name, arguments, phase, head, problem
                    FROM operation WHERE sequence > ? AND owner = ? AND kind = ? ORDER BY sequence
                    """,
                arguments: [sequence, owner, kind.rawValue]
            )
            .compactMap(Row.init)
        }
    }

    /// How many operations there are of other owners, the refused left out.
    func count(except owner: String) throws -> Int {
        try read { database in
            let sql = "SELECT count(*) FROM operation WHERE owner <> ? AND phase <> 'refused'"
            return try Int.fetchOne(database, sql: sql, arguments: [owner]) ?? 0
        }
    }

    /// The sequence number that was given last, to anybody.
    func lastSequence() throws -> Int64 {
        try read { database in
            let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'operation'"
            return try Int64.fetchOne(database, sql: sql) ?? 0
        }
    }

    /// Changes whenever another connection has changed the file.
    func version() throws -> Int64 {
        try read { database in
            let statement = try database.cachedStatement(sql: "PRAGMA data_version")
            return try Int64.fetchOne(statement) ?? 0
        }
    }

    /// Whose operations the app sends at present; `nil` if it never said.
    func presentOwner() throws -> String? {
        try read { try String.fetchOne($0, sql: "SELECT owner FROM present") }
    }

    // MARK: - Writing

    /// Takes an operation in, in a companion for the user whom the app shows.
    ///
    /// Durable when it returns.
    ///
    /// - Returns: Its sequence number, larger than every one before.
    func insert(_ row: Row, of owner: String, at moment: Timestamp) throws -> Int64 {
        // The app may say in this moment that the user is another one.
        let owner = isCompanion ? nil : owner
        return try write { try Self.insert(row, of: owner, at: moment, in: $0) }
    }

    /// Puts an operation to the end, under another id, in one transaction.
    func replace(
        _ sequence: Int64,
        by row: Row,
        of owner: String,
        at moment: Timestamp
    ) throws -> Int64 {
        try transaction { database in
            try database.execute(
                sql: "DELETE FROM operation WHERE sequence = ?",
                arguments: [sequence]
            )
            return try Self.insert(row, of: owner, at: moment, in: database)
        }
    }

    /// Makes what has become of operations durable, and what others do from now on.
    ///
    /// - Parameters:
    ///   - records: What has become of them.
    ///   - rows: Operations with other arguments, or in another lane; in the same transaction.
    /// - Throws: What the database threw, or ``StoreError/closed``.
    func write(_ records: [OutboxState.Record], rewriting rows: [Row] = []) throws {
        guard !records.isEmpty || !rows.isEmpty else { return }
        try transaction { database in
            for record in records { try Self.write(record, in: database) }
            for row in rows {
                try database.execute(
                    sql: "UPDATE operation SET lane = ?, arguments = ? WHERE sequence = ?",
                    arguments: [row.lane, row.arguments, row.sequence]
                )
            }
        }
    }

    /// Gives the operations that were made before there was an account to the one made for them.
    func takeOver(by owner: String) throws {
        try transaction { database in
            try database.execute(
                sql: "UPDATE operation SET owner = ? WHERE owner IN (?, ?)",
                arguments: [owner, Self.nobody, Self.stranded]
            )
        }
    }

    /// Keeps them from an account that was not made for them, also after a restart.
    func strand() throws {
        try transaction { database in
            try database.execute(
                sql: "UPDATE operation SET owner = ? WHERE owner = ?",
                arguments: [Self.stranded, Self.nobody]
            )
        }
    }

    /// How many operations on the app's own backend nobody can name the owner of.
    func countUnclaimed() throws -> Int {
        try read { database in
            let sql = "SELECT count(*) FROM operation WHERE owner = ? AND kind = ?"
            return try Int.fetchOne(database, sql: sql, arguments: Self.unclaimed) ?? 0
        }
    }

    /// Gives those to an owner.
    func claim(by owner: String) throws {
        try transaction { database in
            try database.execute(
                sql: "UPDATE operation SET owner = ? WHERE owner = ? AND kind = ?",
                arguments: [owner] + Self.unclaimed
            )
        }
    }

    /// Removes those.
    func discardUnclaimed() throws {
        try transaction { database in
            try database.execute(
                sql: "DELETE FROM operation WHERE owner = ? AND kind = ?",
                arguments: Self.unclaimed
            )
        }
        try rewrite()
    }

    private static var unclaimed: StatementArguments { [stranded, Kind.mutation.rawValue] }

    /// Hands the device on: from now on another's operations are shown, and of the one who leaves
    /// there is what waits for their return.
    ///
    /// What the authority has done is over: the records that would settle it are removed as well.
    /// ``rewrite()`` comes next, so that no trace of it is left.
    func hand(from former: String, to owner: String) throws {
        try transaction { database in
            try database.execute(
                sql: "DELETE FROM operation WHERE owner = ? AND phase = 'acknowledged'",
                arguments: [former]
            )
            try Self.setPresentOwner(owner, in: database)
        }
    }

    /// Whether the log has something that is perhaps gone from the file.
    var hasLog: Bool {
        guard let folder else { return false }
        return StoreFile.hasLog(folder.appending(path: Self.name))
    }

    /// Leaves no trace of what is over.
    func rewrite() throws {
        let lock = lockFile()
        defer { lock?.close() }
        lock?.lock()  // A companion is done with its write in a moment.
        writes.withLock { $0 = 0 }
        try opened().writeWithoutTransaction(StoreFile.rewrite)
    }

    /// Says to companions whose operations are shown.
    func setPresentOwner(_ owner: String) throws {
        guard try presentOwner() != owner else { return }
        try transaction { try Self.setPresentOwner(owner, in: $0) }
    }

    private static func setPresentOwner(_ owner: String, in database: Database) throws {
        try database.execute(
            sql: "INSERT OR REPLACE INTO present (one, owner) VALUES (1, ?)",
            arguments: [owner]
        )
    }

    /// Moves what was written from the log to the file, if there is much of it.
    func tidyUpIfLong() {
        if writes.withLock({ $0 >= Self.writesInLog }) { tidyUp() }
    }

    /// Moves what was written from the log to the file, unless a companion writes.
    func tidyUp() {
        guard folder != nil, !isCompanion, writes.withLock({ $0 > 0 }), let lock = lockFile()
        else { return }
        defer { lock.close() }
        guard lock.tryLock() else { return }
        writes.withLock { $0 = 0 }
        // The log grows if it fails, and the next one is as good.
        _ = try? opened().writeWithoutTransaction {
            try $0.checkpoint(.passive)
        }
    }

    private static func insert(
        _ row: Row,
        of owner: String?,
        at moment: Timestamp,
        in database: Database
    ) throws -> Int64 {
        let statement = try database.cachedStatement(
            sql: """
                INSERT INTO operation (id, owner, lane, kind, name, arguments, phase, created_at)
                VALUES (?, coalesce(?, (SELECT owner FROM present), ''), ?, ?, ?, ?, 'queued', ?)
                """
        )
        statement.setUncheckedArguments([
            row.id.description, owner, row.lane, row.kind.rawValue, row.name, row.arguments,
            moment.millisecondsSince1970,
        ])
        try statement.execute()
        return database.lastInsertedRowID
    }

    private static func write(_ record: OutboxState.Record, in database: Database) throws {
        switch record {
        case .sending(let sequences):
            for sequence in sequences {
                // A pull may have told meanwhile what became of it.
                try database.cachedStatement(
                    sql: """
                        UPDATE operation SET phase = 'sending'
                        WHERE sequence = ? AND phase IN ('queued', 'sending')
                        """
                )
                .execute(arguments: [sequence])
            }
        case .acknowledged(let sequence, let head):
            try set("acknowledged", of: sequence, head: head, in: database)
        case .refused(let sequence, let problem):
            let text = String(decoding: try WireCoding.encode(problem), as: UTF8.self)
            try set("refused", of: sequence, problem: text, in: database)
        case .removed(let sequences):
            for sequence in sequences {
                try database.cachedStatement(sql: "DELETE FROM operation WHERE sequence = ?")
                    .execute(arguments: [sequence])
            }
        }
    }

    private static func set(
        _ phase: String,
        of sequence: Int64,
        head: Int64? = nil,
        problem: String? = nil,
        in database: Database
    ) throws {
        try database.cachedStatement(
            sql: "UPDATE operation SET phase = ?, head = ?, problem = ? WHERE sequence = ?"
        )
        .execute(arguments: [phase, head, problem, sequence])
    }

    // MARK: - Machinery

    private func read<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try opened().unsafeRead(body)
    }

    private func write<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try writing { try $0.writeWithoutTransaction(body) }
    }

    private func transaction<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try writing { try $0.write(body) }
    }

    private func writing<Value>(_ body: (DatabaseQueue) throws -> Value) throws -> Value {
        // The app's own checkpoints come between its writes; only a companion has to keep away.
        let lock = isCompanion ? lockFile() : nil
        lock?.lock()
        defer { lock?.close() }
        writes.withLock { $0 += 1 }
        return try body(opened())
    }

    private func lockFile() -> LockFile? {
        folder.flatMap { LockFile($0.appending(path: Self.lockName).path) }
    }

    private func opened() throws -> DatabaseQueue {
        try database.withLock { database in
            if let database { return database }
            guard !isClosed.withLock({ $0 }) else { throw StoreError.closed }
            let fresh = try open()
            database = fresh
            return fresh
        }
    }

    private func open() throws -> DatabaseQueue {
        var options = Configuration()
        options.busyMode = .timeout(5)  // Seconds: another process may be writing.
        options.label = "sanguine.outbox"
        guard let folder else {
            let memory = try DatabaseQueue(configuration: options)
            try memory.write(Self.prepare)
            return memory
        }
        options.prepareDatabase { database in
            try database.execute(sql: "PRAGMA journal_mode = WAL")
            try database.execute(sql: "PRAGMA synchronous = NORMAL")
            try database.execute(sql: "PRAGMA wal_autocheckpoint = 0")
            try database.execute(sql: StoreFile.wiping)
        }
        try StoreFile.makePrivateFolder(folder)
        let file = folder.appending(path: Self.name).path
        createPrivateFile(file)
        let fresh = try DatabaseQueue(path: file, configuration: options)
        try fresh.write(Self.prepare)
        return fresh
    }

    private static func prepare(_ database: Database) throws {
        let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        guard version <= schemaVersion else { throw StoreFile.Unusable.newerSchema(version) }
        guard version == 0 else { return }
        try database.execute(
            sql: """
                CREATE TABLE operation (
                    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
                    id TEXT NOT NULL,
                    owner TEXT NOT NULL,
                    lane TEXT NOT NULL,
                    kind TEXT NOT NULL,
                    name TEXT NOT NULL,
                    arguments BLOB NOT NULL,
                    phase TEXT NOT NULL,
                    head INTEGER,
                    problem TEXT,
                    created_at INTEGER NOT NULL
                ) STRICT;
                CREATE TABLE present (
                    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
                    owner TEXT NOT NULL
                ) STRICT;
                PRAGMA user_version = \(schemaVersion);
                """
        )
    }
}

extension OutboxFile.Row {
    /// Reads a row; what it was sending may be done.
    fileprivate init?(_ row: GRDB.Row) {
        guard let id = Identifier(row["id"] as String) else { return nil }
        sequence = row["sequence"]
        self.id = id
        kind = OutboxFile.Kind(rawValue: row["kind"]) ?? .mutator
        lane = row["lane"]
        name = row["name"]
        arguments = row["arguments"]
        switch row["phase"] as String {
        case "sending": mayBeDone = true
        case "acknowledged": phase = .acknowledged(head: row["head"] ?? 0)
        case "refused":
            let text = row["problem"] as String? ?? ""
            let problem = try? WireCoding.decode(Problem.self, from: Data(text.utf8))
            phase = .refused(problem ?? Problem(.internalFault, "Read the server's log."))
        default: break
        }
    }
}
