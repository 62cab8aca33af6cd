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
/// One file for each user, in their folder. Of a user who has left the file stays if something in
/// it waits for their return, see ``leave(for:at:)``.
///
/// The app and its companions (a widget, say) write it at the same time, and SQLite up to 3.51.2
/// can damage a log that one checkpoints while another writes. So only the app checkpoints, when
/// ``tidyUp()`` is called, and companions keep away then by the lock of ``UserFolders``. Under that
/// lock a companion also looks whether the folder is still the present one.
///
/// Mutable state: `database`, by its mutex, never held over a statement.
final class OutboxFile: Sendable {
    static let name = "sanguine-outbox.sqlite"

    /// The app has gone on with another user: what a companion has open is not the present file.
    struct IsNotPresent: Error {}

    typealias Kind = OutboxState.Kind

    /// An operation as it lies on disk.
    struct Row: Sendable {
        var sequence: Int64 = 0
        let id: Identifier
        var kind = Kind.mutator
        var lane: String
        let name: String
        var arguments: Data
        var phase = OutboxState.Phase.queued
        /// The epoch of the number at which it is acknowledged.
        var epoch: Epoch?
        var mayBeDone = false
        /// When the server first said that it does not know the mutator; `nil` if it never has.
        var deferredSince: Timestamp?
        /// How often something other than the backend has answered the mutation.
        var foreignAnswers = 0
    }

    /// How many writes the log may take before it is copied to the file: some MB.
    private static let writesInLog = 512

    private let database = Mutex<DatabaseQueue?>(nil)
    private let writes = Mutex(0)
    private let isClosed = Mutex(false)
    private let folder: URL?
    private let folders: UserFolders?
    private let isCompanion: Bool
    /// Every sequence number is larger than this.
    private let floor: Int64
    private let fault: PlantedFault?

    /// Creates the outbox; nothing is opened before it is used.
    ///
    /// - Parameters:
    ///   - place: The user's folder; `nil` keeps it in memory.
    ///   - isCompanion: Whether the app's own process is another.
    ///   - floor: What every sequence number is larger than, in memory. A folder has its own.
    ///   - fault: What the simulation has planted. Default: nothing.
    init(
        _ place: UserFolders.Place?,
        isCompanion: Bool = false,
        floor: Int64 = 0,
        fault: PlantedFault? = nil
    ) {
        self.fault = fault
        folder = place?.url
        folders = place?.folders
        self.floor = place?.firstSequence ?? floor
        self.isCompanion = isCompanion
    }

    /// Whether an earlier process has left a file.
    var isThere: Bool {
        guard let folder else { return false }
        return FileManager.default.fileExists(atPath: folder.appending(path: Self.name).path)
    }

    /// Whether anything was ever taken in, by this process or an earlier one.
    var isUsed: Bool { isThere || database.withLock { $0 != nil } }

    /// What the next user's sequence numbers are larger than, if these are kept in memory.
    var nextFloor: Int64 { ((floor >> 32) + 1) << 32 }

    /// Ends all access.
    func close() {
        isClosed.withLock { $0 = true }
        try? database.withLock { $0.take() }?.close()
    }

    // MARK: - Reading

    /// The operations, in their order.
    ///
    /// - Parameters:
    ///   - kind: Those of which kind. Default: of both.
    ///   - sequence: Those after which number, as another process adds them. Default: all.
    /// - Returns: Those that can be read.
    /// - Throws: What the database threw, or ``StoreError/closed``.
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

    /// Counts the operations, the refused left out.
    ///
    /// - Parameter kind: Those of which kind. Default: of both.
    /// - Returns: How many there are.
    /// - Throws: What the database threw, or ``StoreError/closed``.
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

    /// The sequence number that was given last.
    func lastSequence() throws -> Int64 {
        try read { try Int64.fetchOne($0, sql: "SELECT \(Self.last)") ?? floor }
    }

    /// The largest number of what is here, or was.
    private static let last = """
        max((SELECT last FROM removed), ifnull((SELECT max(sequence) FROM operation), 0))
        """

    /// Changes whenever another connection has changed the file.
    func version() throws -> Int64 {
        try read { database in
            let statement = try database.cachedStatement(sql: "PRAGMA data_version")
            return try Int64.fetchOne(statement) ?? 0
        }
    }

    /// Whose operations these are; `nil` if that is not known.
    func owner() throws -> Owner? {
        try read { try String.fetchOne($0, sql: "SELECT account FROM owner") }
            .map { Owner(stored: $0) }
    }

    // MARK: - Writing

    /// Takes an operation in.
    ///
    /// Durable when it returns.
    ///
    /// - Returns: Its sequence number, larger than every one before.
    /// - Throws: ``IsNotPresent`` in a companion whose app shows another user by now.
    func insert(_ row: Row, at moment: Timestamp) throws -> Int64 {
        try write { try Self.insert(row, at: moment, in: $0) }
    }

    /// Puts an operation to the end in the place of others, in one transaction.
    ///
    /// - Returns: Its sequence number, larger than every one before.
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

    /// Makes what has become of operations durable, and what others do from now on.
    ///
    /// - Parameters:
    ///   - steps: What has become of them.
    ///   - rows: Operations with other arguments, or in another lane; in the same transaction.
    /// - Throws: What the database threw, or ``StoreError/closed``.
    func write(_ steps: [OutboxState.Step], rewriting rows: [Row] = []) throws {
        guard !steps.isEmpty || !rows.isEmpty else { return }
        try transaction { database in
            for step in steps where fault?.loses(step) != true {
                try Self.write(step, in: database)
            }
            for row in rows {
                try database.execute(
                    sql: "UPDATE operation SET lane = ?, arguments = ? WHERE sequence = ?",
                    arguments: [row.lane, row.arguments, row.sequence]
                )
            }
        }
    }

    /// Notes how often something other than the backend has answered mutations that wait.
    func note(foreignAnswers counts: [Int64: Int]) throws {
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

    /// Says whose operations these are.
    func setOwner(_ owner: Owner) throws {
        try transaction { database in
            try database.execute(
                sql: "INSERT OR REPLACE INTO owner (one, account) VALUES (1, ?)",
                arguments: [owner.text]
            )
        }
    }

    /// Takes over what lies in another file, at the places that the sequence numbers give it.
    ///
    /// What is there already is left as it is: a death may have come between this and the other
    /// file's removal.
    ///
    /// On disk when it returns, because the other file is removed next.
    ///
    /// - Parameters:
    ///   - other: The file of an earlier stay.
    ///   - kind: Which kind. Default: both.
    /// - Throws: What a database threw; then nothing was taken over. After the commit nothing
    ///   throws: operations that were taken over must not be taken over once more.
    func takeOver(_ other: OutboxFile, _ kind: Kind? = nil) throws {
        let rows = try other.read { database in
            try GRDB.Row.fetchAll(
                database,
                sql: "SELECT \(Self.columns) FROM operation WHERE ? IS NULL OR kind = ?",
                arguments: [kind?.rawValue, kind?.rawValue]
            )
        }
        guard !rows.isEmpty else { return }
        try flushedTransaction { database in
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

    /// Removes operations; ``rewrite()`` removes their traces.
    ///
    /// - Parameter kind: Which kind. Default: both.
    /// - Throws: What the database threw; then nothing was removed.
    func remove(_ kind: Kind? = nil) throws {
        try transaction { database in
            try database.execute(
                sql: "DELETE FROM operation WHERE ? IS NULL OR kind = ?",
                arguments: [kind?.rawValue, kind?.rawValue]
            )
        }
    }

    /// Leaves no trace of what is over.
    ///
    /// A call of its own: if it fails, what was removed before is gone all the same.
    ///
    /// - Throws: What the database threw, or ``UserFolders/IsLocked``.
    func rewrite() throws {
        guard folder != nil else { return }
        let lock = try folders?.lock()
        defer { lock?.close() }
        writes.withLock { $0 = 0 }
        try opened().writeWithoutTransaction(SQLiteFile.rewrite)
    }

    /// Moves what was written from the log to the file, if there is much of it.
    func tidyUpIfLong() {
        if writes.withLock({ $0 >= Self.writesInLog }) { tidyUp() }
    }

    /// Moves what was written from the log to the file, unless a companion writes.
    func tidyUp() {
        guard !isCompanion, writes.withLock({ $0 > 0 }), let lock = folders?.lockIfFree()
        else { return }
        // The log grows if it fails, and the next one is as good.
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
            row.mayBeDone ? "sending" : "queued", moment.millisecondsSince1970,
        ])
        try statement.execute()
        return database.lastInsertedRowID
    }

    private static func write(_ step: OutboxState.Step, in database: Database) throws {
        switch step {
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
        case .acknowledged(let sequence, let head, let epoch):
            try set("acknowledged", of: sequence, head: head, epoch: epoch, in: database)
        case .reopened(let sequences):
            for sequence in sequences { try set("sending", of: sequence, in: database) }
        case .deferred(let sequence, let since, _):
            try set("sending", of: sequence, head: since, in: database)
        case .refused(let sequence, let problem):
            let text = String(decoding: try WireCoding.encode(problem), as: UTF8.self)
            // A number says that a part of it is done.
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

    /// A transaction that is on disk when it returns, and did not happen if that fails.
    private func flushedTransaction(_ body: (Database) throws -> Void) throws {
        try writing { queue in
            try queue.writeWithoutTransaction { database in
                try database.execute(sql: "PRAGMA synchronous = FULL")
                // Without it later commits are flushed as well, which is slower and no less safe.
                defer { try? database.execute(sql: "PRAGMA synchronous = NORMAL") }
                try database.inTransaction(.immediate) {
                    try body(database)
                    return .commit
                }
            }
        }
    }

    /// Keeps the app's checkpoints away while a companion writes, until the lock is closed; `nil`
    /// in the app, whose own checkpoints come between its writes.
    ///
    /// To be taken before any other lock, so that no read waits behind it.
    ///
    /// - Throws: ``UserFolders/IsLocked``.
    func lockForCompanion() throws -> LockFile? { isCompanion ? try folders?.lock() : nil }

    private func writing<Value>(_ body: (DatabaseQueue) throws -> Value) throws -> Value {
        if isCompanion, let folder, folders?.isPresent(folder) == false { throw IsNotPresent() }
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
        // A commit writes whole pages, of an operation's few hundred bytes.
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
    /// Reads a row; what it was sending may be done.
    fileprivate init?(_ row: GRDB.Row) {
        guard let id = Identifier(row["id"] as String) else { return nil }
        sequence = row["sequence"]
        self.id = id
        kind = OutboxFile.Kind(rawValue: row["kind"]) ?? .mutator
        lane = row["lane"]
        name = row["name"]
        arguments = row["arguments"]
        let phase = row["phase"] as String
        if phase == "queued" || phase == "sending", let number = row["head"] as Int64? {
            switch kind {
            case .mutator: deferredSince = Timestamp(millisecondsSince1970: number)
            case .mutation: foreignAnswers = Int(clamping: number)
            }
        }
        switch phase {
        case "sending": mayBeDone = true
        case "acknowledged":
            self.phase = .acknowledged(head: row["head"] ?? 0)
            epoch = (row["epoch"] as String?).flatMap { Epoch($0) }
        case "refused":
            let text = row["problem"] as String? ?? ""
            let problem = try? WireCoding.decode(Problem.self, from: Data(text.utf8))
            var refusal = problem ?? Problem(.internalFault, "Read the server's log.")
            if row["head"] as Int64? != nil { refusal.isPartlyDone = true }
            self.phase = .refused(refusal)
        default: break
        }
    }
}
