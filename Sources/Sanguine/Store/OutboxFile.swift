import Foundation
import GRDB
import SanguineModel
import Synchronization

/// The user's operations that the authority has not settled yet: the only data on this device that
/// exists nowhere else.
///
/// It has its own file, with a write-ahead log that is not flushed at each write. Once
/// ``insert(_:)`` has returned, the operation survives the process. A power failure may lose the
/// last writes, but leaves the file intact.
///
/// The file is never dropped or emptied. If it cannot be opened, each use throws, and the next one
/// tries again. Each user has a file in their folder. When the user leaves, the file stays if
/// operations in it wait for their return; see ``retain(for:at:)``.
///
/// The app and its companions (a widget, for example) write it concurrently, and SQLite up to
/// 3.51.2 can damage a log that one connection checkpoints while another writes. So only the app
/// checkpoints, in ``checkpointLog()``, and the lock of ``UserFolders`` keeps companions out in the
/// meantime. Under this lock, a companion also checks that the folder is still the current one.
///
/// Mutable state: `database`, protected by its mutex, which is never held during a statement.
final class OutboxFile: Sendable {
    static let name = "sanguine-outbox.sqlite"

    /// The app has switched to another user, so the file that a companion has open is outdated.
    struct UserChanged: Error {}

    typealias Kind = OutboxState.Kind

    /// An operation in its stored form.
    struct Row: Sendable {
        var sequence: Int64 = 0
        let id: Identifier
        var kind = Kind.record
        var lane: String
        let name: String
        var arguments: Data
        var phase = OutboxState.Phase.queued
        /// The epoch of the feed number at which it is acknowledged.
        var epoch: Epoch?
        var outcomeUnknown = false
        /// When the server first reported that it does not know the mutation; `nil` if it never
        /// did.
        var deferredSince: Timestamp?
        /// The number of times that something other than the backend has answered the mutation.
        var foreignAnswers = 0
    }

    /// The number of writes after which the log, by then a few MB, is copied to the file.
    private static let writesInLog = 512

    /// The files of the user's uploads.
    let staged: StagedFiles
    private let database = Mutex<DatabaseQueue?>(nil)
    private let writes = Mutex(0)
    private let isClosed = Mutex(false)
    private let folder: URL?
    private let folders: UserFolders?
    private let isCompanion: Bool
    /// The lower bound of sequence numbers: every one is larger.
    private let floor: Int64
    private let fault: PlantedFault?

    /// Creates the outbox; the file is opened at its first use.
    ///
    /// - Parameters:
    ///   - userFolder: The user's folder; `nil` keeps it in memory.
    ///   - isCompanion: Whether this process is a companion of the app.
    ///   - floor: Every sequence number in memory is larger than this one. A folder has its own.
    ///   - fault: The fault that the simulation plants. Default: none.
    init(
        _ userFolder: UserFolders.Folder?,
        isCompanion: Bool = false,
        floor: Int64 = 0,
        fault: PlantedFault? = nil
    ) {
        self.fault = fault
        folder = userFolder?.url
        staged = StagedFiles(in: userFolder?.url)
        folders = userFolder?.folders
        self.floor = userFolder?.firstSequence ?? floor
        self.isCompanion = isCompanion
    }

    /// Whether an earlier process left a file.
    var isThere: Bool {
        guard let folder else { return false }
        return FileManager.default.fileExists(atPath: folder.appending(path: Self.name).path)
    }

    /// Whether an operation was ever inserted, by this process or an earlier one.
    var isUsed: Bool { isThere || database.withLock { $0 != nil } }

    /// The floor of the next user's sequence numbers if these are kept in memory.
    var nextFloor: Int64 { ((floor >> 32) + 1) << 32 }

    /// Ends all access.
    func close() {
        isClosed.withLock { $0 = true }
        try? database.withLock { $0.take() }?.close()
    }

    // MARK: - Reading

    /// Returns the operations in their order.
    ///
    /// - Parameters:
    ///   - kind: The kind of the operations. Default: both.
    ///   - sequence: The number after which to start, to read new ones. Default: all.
    /// - Returns: The operations that can be decoded.
    /// - Throws: The database's error, or ``StoreError/closed``.
    func rows(_ kind: Kind? = nil, after sequence: Int64 = 0) throws -> [Row] {
        try read { database in
            try GRDB.Row.fetchAll(
                database,
                sql: """
                    SELECT sequence, id, kind, lane, name, arguments, phase, head, epoch,
                    problem FROM operation WHERE sequence > ? AND (? IS NULL OR kind = ?)
                    ORDER BY sequence
                    """,
                arguments: [sequence, kind?.rawValue, kind?.rawValue]
            )
            .compactMap(Row.init)
        }
    }

    /// Counts the operations that were not refused.
    ///
    /// - Parameter kind: The kind of the operations. Default: both.
    /// - Returns: The number of operations.
    /// - Throws: The database's error, or ``StoreError/closed``.
    func count(_ kind: Kind? = nil) throws -> Int {
        try read { database in
            let sql = """
                SELECT count(*) FROM operation
                WHERE phase <> 'refused' AND (? IS NULL OR kind = ?)
                """
            let arguments: StatementArguments = [kind?.rawValue, kind?.rawValue]
            return try Int.fetchOne(database, sql: sql, arguments: arguments) ?? 0
        }
    }

    /// Returns the last assigned sequence number.
    func lastSequence() throws -> Int64 {
        try read { try Int64.fetchOne($0, sql: "SELECT \(Self.last)") ?? floor }
    }

    /// The largest sequence number of all operations, including removed ones.
    private static let last = """
        max((SELECT last FROM removed), ifnull((SELECT max(sequence) FROM operation), 0))
        """

    /// Returns a number that changes whenever another connection has changed the file.
    func version() throws -> Int64 {
        try read { database in
            let statement = try database.cachedStatement(sql: "PRAGMA data_version")
            return try Int64.fetchOne(statement) ?? 0
        }
    }

    /// Returns the owner of the operations; `nil` if it is unknown.
    func owner() throws -> AccountKey? {
        try read { try String.fetchOne($0, sql: "SELECT account FROM owner") }
            .map { AccountKey(stored: $0) }
    }

    // MARK: - Writing

    /// Inserts an operation.
    ///
    /// Durable when it returns.
    ///
    /// - Returns: Its sequence number, larger than all earlier ones.
    /// - Throws: ``UserChanged`` in a companion whose app has switched to another user.
    func insert(_ row: Row, at moment: Timestamp) throws -> Int64 {
        try write { try Self.insert(row, at: moment, in: $0) }
    }

    /// Replaces operations with a new one at the end, in one transaction.
    ///
    /// - Returns: Its sequence number, larger than all earlier ones.
    func replace(
        _ sequences: [Int64],
        by row: Row,
        at moment: Timestamp
    ) throws -> Int64 {
        try transaction { database in
            try Self.write(.removed(sequences), in: database)
            return try Self.insert(row, at: moment, in: database)
        }
    }

    /// Makes steps of operations durable, and rewrites other operations.
    ///
    /// - Parameters:
    ///   - steps: The steps of the operations.
    ///   - rows: Operations with new arguments, or in another lane; in the same transaction.
    /// - Throws: The database's error, or ``StoreError/closed``.
    func write(_ steps: [OutboxState.Step], rewriting rows: [Row] = []) throws {
        guard !steps.isEmpty || !rows.isEmpty else { return }
        try transaction { database in
            for step in steps where fault?.loses(step) != true {
                try Self.write(step, in: database)
            }
            try Self.rewrite(rows, in: database)
        }
    }

    /// Stores the number of times that something other than the backend has answered waiting
    /// mutations.
    func store(foreignAnswers counts: [Int64: Int]) throws {
        try transaction { database in
            for (sequence, count) in counts {
                try database.cachedStatement(
                    sql: """
                        UPDATE operation SET head = ?
                        WHERE sequence = ? AND phase IN ('queued', 'sending')
                        """
                )
                .execute(arguments: [count, sequence])
            }
        }
    }

    /// Stores the owner of the operations.
    func setOwner(_ owner: AccountKey) throws {
        try transaction { database in
            try database.execute(
                sql: "INSERT OR REPLACE INTO owner (one, account) VALUES (1, ?)",
                arguments: [owner.text]
            )
        }
    }

    /// Takes over the operations in another file; their sequence numbers decide their order.
    ///
    /// Operations that are already here stay as they are: the process may have ended before the
    /// other file was removed.
    ///
    /// Flushed to disk when it returns, because the other file is removed next.
    ///
    /// - Parameters:
    ///   - other: The file of an earlier stay.
    ///   - kind: The kind of the operations; uploads of files that they name are taken over too.
    ///     Default: all.
    /// - Throws: A database's error; then nothing was taken over. Nothing throws after the commit,
    ///   because no operation may be taken over twice.
    func takeOver(_ other: OutboxFile, _ kind: Kind? = nil) throws {
        let named = try kind.map { try other.files(namedBy: $0).all }
        let rows = try other.read { database in
            try GRDB.Row.fetchAll(
                database,
                sql: "SELECT \(Self.columns) FROM operation WHERE ? IS NULL OR kind IN (?, ?)",
                arguments: [kind?.rawValue, kind?.rawValue, Kind.upload.rawValue]
            )
        }
        .filter { row in
            guard let named, row["kind"] as String == Kind.upload.rawValue else { return true }
            return named.contains(row["lane"] as String)
        }
        guard !rows.isEmpty else { return }
        // The files come first: the operations need them.
        try staged.add(filesOf: other.staged, only: named)
        let known = try other.storedFiles()
        try flushedTransaction { database in
            for file in known where named?.contains(file.temporary) != false {
                try Self.write(local: file.temporary, real: file.real, in: database)
            }
            for row in rows {
                try database.execute(
                    sql: """
                        INSERT INTO operation (\(Self.columns))
                        SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
                        WHERE NOT EXISTS (SELECT 1 FROM operation WHERE id = ? OR sequence = ?)
                        """,
                    arguments: StatementArguments(
                        row.databaseValues + [row["id"] as DatabaseValue, row["sequence"]]
                    )
                )
            }
        }
    }

    /// Removes operations; ``rewrite()`` erases their traces.
    ///
    /// - Parameter kind: The kind of the operations; uploads of files that only they name are
    ///   removed too. Default: all.
    /// - Throws: The database's error; then nothing was removed.
    func remove(_ kind: Kind? = nil) throws {
        let needless = try kind.map { try files(namedBy: $0).exclusive } ?? []
        try transaction { database in
            try database.execute(
                sql: "DELETE FROM operation WHERE ? IS NULL OR kind = ?",
                arguments: [kind?.rawValue, kind?.rawValue]
            )
            for local in needless {
                try database.execute(
                    sql: "DELETE FROM operation WHERE kind = ? AND lane = ?",
                    arguments: [Kind.upload.rawValue, local]
                )
            }
        }
        for local in needless { staged.remove(local) }
    }

    /// Erases the traces of removed operations.
    ///
    /// A separate call: if it fails, the removed operations stay removed.
    ///
    /// - Throws: The database's error, or ``UserFolders/IsLocked``.
    func rewrite() throws {
        guard folder != nil else { return }
        let lock = try folders?.lock()
        defer { lock?.close() }
        writes.withLock { $0 = 0 }
        try opened().writeWithoutTransaction(SQLiteFile.rewrite)
    }

    // MARK: - Files

    /// Returns the server's ids of files that were uploaded from this device, the oldest first.
    func storedFiles() throws -> [(temporary: String, real: String)] {
        try read { database in
            try GRDB.Row.fetchAll(database, sql: "SELECT local, id FROM stored_file ORDER BY rowid")
                .map { (temporary: $0["local"] as String, real: $0["id"] as String) }
        }
    }

    /// Returns the local files that operations of a kind name, and those that no others name.
    private func files(
        namedBy kind: Kind
    ) throws -> (all: Set<String>, exclusive: Set<String>) {
        var (all, others) = (Set<String>(), Set<String>())
        for row in try rows() where row.kind != .upload {
            let files = LocalFile.mentions(in: row.arguments).map(\.id)
            if row.kind == kind { all.formUnion(files) } else { others.formUnion(files) }
        }
        return (all, all.subtracting(others))
    }

    /// Whether an operation on disk names a local file; an upload does not name its own.
    func isNamed(_ local: String) throws -> Bool {
        try read { database in
            let sql = """
                SELECT EXISTS (
                    SELECT 1 FROM operation WHERE kind <> ? AND instr(arguments, ?) > 0
                )
                """
            let arguments: StatementArguments = [Kind.upload.rawValue, Data(local.utf8)]
            return try Bool.fetchOne(database, sql: sql, arguments: arguments) ?? false
        }
    }

    /// Records that a file was uploaded: its upload is over, and operations name the server's id.
    ///
    /// Flushed to disk when it returns, because the file is removed next.
    func store(
        _ local: String,
        as real: String,
        _ steps: [OutboxState.Step],
        rewriting rows: [Row]
    ) throws {
        try flushedTransaction { database in
            for step in steps { try Self.write(step, in: database) }
            try Self.rewrite(rows, in: database)
            try Self.write(local: local, real: real, in: database)
        }
    }

    /// Beyond ``RecordLimits/replacedIds``, the oldest ids are forgotten.
    private static func write(local: String, real: String, in database: Database) throws {
        try database.execute(
            sql: "INSERT OR REPLACE INTO stored_file (local, id) VALUES (?, ?)",
            arguments: [local, real]
        )
        try database.execute(
            sql: """
                DELETE FROM stored_file
                WHERE rowid <= (SELECT max(rowid) FROM stored_file) - ?
                """,
            arguments: [RecordLimits.replacedIds]
        )
    }

    private static func rewrite(_ rows: [Row], in database: Database) throws {
        for row in rows {
            try database.execute(
                sql: "UPDATE operation SET lane = ?, arguments = ? WHERE sequence = ?",
                arguments: [row.lane, row.arguments, row.sequence]
            )
        }
    }

    // MARK: - The log

    /// Copies the log to the file if the log is long.
    func checkpointLogIfLong() {
        if writes.withLock({ $0 >= Self.writesInLog }) { checkpointLog() }
    }

    /// Copies the log to the file, unless a companion is writing.
    func checkpointLog() {
        guard !isCompanion, writes.withLock({ $0 > 0 }), let lock = folders?.lockIfFree()
        else { return }
        // If it fails, the log grows, and the next attempt copies it.
        try? checkpoint(lock)
    }

    private func checkpoint(_ lock: LockFile?) throws {
        defer { lock?.close() }
        guard folder != nil else { return }
        writes.withLock { $0 = 0 }
        _ = try opened().writeWithoutTransaction { try $0.checkpoint(.passive) }
    }

    private static let columns =
        "sequence, id, lane, kind, name, arguments, phase, head, problem, created_at, epoch"

    private static let insertion = """
        INSERT INTO operation (sequence, id, lane, kind, name, arguments, phase, created_at)
        VALUES (1 + \(last), ?, ?, ?, ?, ?, ?, ?)
        """

    private static func insert(
        _ row: Row,
        at moment: Timestamp,
        in database: Database
    ) throws -> Int64 {
        let statement = try database.cachedStatement(sql: insertion)
        statement.setUncheckedArguments([
            row.id.description, row.lane, row.kind.rawValue, row.name, row.arguments,
            row.outcomeUnknown ? "sending" : "queued", moment.millisecondsSince1970,
        ])
        try statement.execute()
        return database.lastInsertedRowID
    }

    private static func write(_ step: OutboxState.Step, in database: Database) throws {
        switch step {
        case .sending(let sequences):
            for sequence in sequences {
                // A pull may have settled the operation in the meantime.
                try database.cachedStatement(
                    sql: """
                        UPDATE operation SET phase = 'sending'
                        WHERE sequence = ? AND phase IN ('queued', 'sending')
                        """
                )
                .execute(arguments: [sequence])
            }
        case .acknowledged(let sequence, let head, let epoch):
            try set("acknowledged", of: sequence, head: head, epoch: epoch, in: database)
        case .reopened(let sequences):
            for sequence in sequences { try set("sending", of: sequence, in: database) }
        case .deferred(let sequence, let since, _):
            try set("sending", of: sequence, head: since, in: database)
        case .refused(let sequence, let problem):
            let text = String(decoding: try WireCoding.encode(problem), as: UTF8.self)
            // A number in `head` means that the operation is partly done.
            let head: Int64? = problem.isPartlyDone ? 0 : nil
            try set("refused", of: sequence, head: head, problem: text, in: database)
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
        epoch: Epoch? = nil,
        problem: String? = nil,
        in database: Database
    ) throws {
        try database.cachedStatement(
            sql: """
                UPDATE operation SET phase = ?, head = ?, epoch = ?, problem = ? WHERE sequence = ?
                """
        )
        .execute(arguments: [phase, head, epoch?.text, problem, sequence])
    }

    // MARK: - Machinery

    private func read<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try opened().unsafeRead(body)
    }

    private func write<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try writing { try $0.writeWithoutTransaction(body) }
    }

    func transaction<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try writing { try $0.write(body) }
    }

    /// Runs a transaction that is flushed to disk when this returns, and is undone if that fails.
    private func flushedTransaction(_ body: (Database) throws -> Void) throws {
        try writing { queue in
            try queue.writeWithoutTransaction { database in
                try database.execute(sql: "PRAGMA synchronous = FULL")
                // If this fails, later commits are flushed too, which is slower but equally safe.
                defer { try? database.execute(sql: "PRAGMA synchronous = NORMAL") }
                try database.inTransaction(.immediate) {
                    try body(database)
                    return .commit
                }
            }
        }
    }

    /// Takes the lock that keeps the app from checkpointing while a companion writes; `nil` in the
    /// app, which writes and checkpoints in turn.
    ///
    /// Take it before any other lock, so that no read waits behind it.
    ///
    /// - Throws: ``UserFolders/IsLocked``.
    func lockForCompanion() throws -> LockFile? { isCompanion ? try folders?.lock() : nil }

    private func writing<Value>(_ body: (DatabaseQueue) throws -> Value) throws -> Value {
        if isCompanion, let folder, folders?.isCurrent(folder) == false { throw UserChanged() }
        writes.withLock { $0 += 1 }
        do {
            return try body(opened())
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            throw UserFolders.IsLocked()
        }
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
        guard let folder else {
            return try SQLiteFile.inMemory(Self.label, schema)
        }
        // Each commit writes whole pages, and an operation has a few hundred bytes.
        let file = SQLiteFile(
            folder.appending(path: Self.name),
            Self.label,
            .log,
            schema,
            pageSize: 2_048
        )
        return try file.open()
    }

    private static let label = "sanguine.outbox"

    private var schema: SQLiteFile.Schema { OutboxSchema.schema(after: floor) }
}

extension OutboxFile.Row {
    /// Reads a row; an operation that was being sent may have been applied.
    fileprivate init?(_ row: GRDB.Row) {
        guard let id = Identifier(row["id"] as String) else { return nil }
        sequence = row["sequence"]
        self.id = id
        kind = OutboxFile.Kind(rawValue: row["kind"]) ?? .record
        lane = row["lane"]
        name = row["name"]
        arguments = row["arguments"]
        let phase = row["phase"] as String
        if phase == "queued" || phase == "sending", let number = row["head"] as Int64? {
            switch kind {
            case .record: deferredSince = Timestamp(millisecondsSince1970: number)
            case .remote, .upload: foreignAnswers = Int(clamping: number)
            }
        }
        switch phase {
        case "sending": outcomeUnknown = true
        case "acknowledged":
            self.phase = .acknowledged(head: row["head"] ?? 0)
            epoch = (row["epoch"] as String?).flatMap { Epoch($0) }
        case "refused":
            let text = row["problem"] as String? ?? ""
            let problem = try? WireCoding.decode(Problem.self, from: Data(text.utf8))
            var refusal = problem ?? .unreadableRefusal
            if row["head"] as Int64? != nil { refusal.isPartlyDone = true }
            self.phase = .refused(refusal)
        default: break
        }
    }
}
