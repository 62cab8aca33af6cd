import GRDBSQLite
import SanguineAuthority
import SanguineModel

import class GRDB.Database

/// The prepared statements of a reading connection.
///
/// Not sendable.
final class ReadConnection {
    private let handle: OpaquePointer
    private let reader: RowReader
    private let begin: SQLStatement
    private let end: SQLStatement
    /// Reads the ledger.
    let ledger: LedgerStatements
    private let openHolds: SQLStatement
    private let runningOperations: SQLStatement
    private let accountByEmail: SQLStatement
    private let documents: SQLStatement
    private let documentsOfAccount: SQLStatement
    private let parts: SQLStatement
    private let owners: SQLStatement
    private let files: SQLStatement
    private let filesOfContent: SQLStatement
    private let feed: FeedStatements
    /// Reads accounts, their rows, and the audit log.
    let administration: AdministrationStatements
    private let lists: ListStatements

    init(_ database: Database) throws(SQLFailure) {
        guard let handle = database.sqliteConnection else {
            throw SQLFailure(code: SQLITE_MISUSE, message: "the connection is closed")
        }
        self.handle = handle
        reader = try RowReader(on: handle)
        lists = try ListStatements(reader, on: handle)
        begin = try SQLStatement("BEGIN", on: handle)
        end = try SQLStatement("COMMIT", on: handle)
        ledger = try LedgerStatements(on: handle)
        openHolds = try SQLStatement(
            """
            SELECT \(HoldRow.columns) FROM holds
            WHERE state = 0 AND expires_at <= ? ORDER BY expires_at, id LIMIT ?
            """,
            on: handle
        )
        runningOperations = try SQLStatement(
            """
            SELECT \(OperationRow.columns) FROM operations
            WHERE state = 0 AND (account, key) > (?, ?) ORDER BY account, key LIMIT ?
            """,
            on: handle
        )
        accountByEmail = try SQLStatement(
            """
            SELECT \(AccountRow.columns) FROM accounts
            WHERE email IS NOT NULL AND email = ? ORDER BY id LIMIT 1
            """,
            on: handle
        )
        documents = try SQLStatement(DocumentRow.listSQL, on: handle)
        documentsOfAccount = try SQLStatement(DocumentRow.listOfAccountSQL, on: handle)
        parts = try SQLStatement(
            """
            SELECT \(PartsRow.columns) FROM parts WHERE run = ?1 AND first >= ifnull(
                (SELECT max(first) FROM parts WHERE run = ?1 AND first <= ?2), ?2
            ) ORDER BY first LIMIT ?3
            """,
            on: handle
        )
        owners = try SQLStatement("SELECT 1 FROM blobs WHERE id = ? LIMIT 1", on: handle)
        files = try SQLStatement(
            """
            SELECT \(BlobRow.columns) FROM blobs
            WHERE (id, account) > (?, ?) ORDER BY id, account LIMIT ?
            """,
            on: handle
        )
        filesOfContent = try SQLStatement(
            """
            SELECT \(BlobRow.columns) FROM blobs
            WHERE id = ? AND account > ? ORDER BY account LIMIT ?
            """,
            on: handle
        )
        feed = try FeedStatements(on: handle)
        administration = try AdministrationStatements(on: handle)
    }

    /// Returns a part of a feed.
    func feed(_ query: FeedQuery) throws(SQLFailure) -> FeedSlice {
        try inSnapshot { () throws(SQLFailure) in
            var slice = FeedSlice(loaded: Loaded(), records: [], hasMore: false)
            for row in try found(query.keys) { slice.loaded.add(row) }
            let path = feed.path(query)
            defer { path.reset() }
            var cut = query.cut
            while try path.step() {
                let row = try RecordRow(from: path)
                guard cut.takes(seq: row.seq, through: row.through, row.value.count) else {
                    slice.hasMore = true
                    break
                }
                slice.records.append(row)
            }
            return slice
        }
    }

    /// Returns a part of a list of records.
    func records(_ query: RecordQuery) throws(SQLFailure) -> RecordList {
        try inSnapshot { () throws(SQLFailure) in try lists.records(query) }
    }

    /// Performs the body on one snapshot of the database.
    func inSnapshot<Value>(
        _ body: () throws(SQLFailure) -> Value
    ) throws(SQLFailure) -> Value {
        try begin.run()
        do {
            let value = try body()
            try end.run()
            return value
        } catch {
            // Nothing was written, so only the transaction must be ended.
            try? end.run()
            throw error
        }
    }

    /// Returns the existing rows with the keys, all from one snapshot.
    func rows(_ keys: [Key]) throws(SQLFailure) -> [Row] {
        if keys.count == 1 { return try found(keys) }
        return try inSnapshot { () throws(SQLFailure) in try found(keys) }
    }

    private func found(_ keys: [Key]) throws(SQLFailure) -> [Row] {
        var found: [Row] = []
        for key in keys {
            if let row = try reader.row(key) { found.append(row) }
        }
        return found
    }

    func openHolds(expiringBy moment: Timestamp, limit: Int) throws(SQLFailure) -> [HoldRow] {
        openHolds.bind(moment)
        openHolds.bind(limit: limit)
        return try openHolds.all(HoldRow.init(from:))
    }

    func runningOperations(
        after position: OperationPosition?,
        limit: Int
    ) throws(SQLFailure) -> [OperationRow] {
        // An empty id comes before every other.
        runningOperations.bind(position?.account.bytes ?? [])
        runningOperations.bind(position?.key ?? "")
        runningOperations.bind(limit: limit)
        return try runningOperations.all(OperationRow.init(from:))
    }

    func parts(of run: Identifier, from index: Int64, limit: Int) throws(SQLFailure) -> [PartsRow] {
        parts.bind(run)
        parts.bind(index)
        parts.bind(limit: limit)
        return try parts.all(PartsRow.init(from:))
    }

    func documents(_ query: DocumentQuery) throws(SQLFailure) -> [DocumentRow] {
        let statement = query.account == nil ? documents : documentsOfAccount
        statement.bind(query.kind.rawValue)
        statement.bind(query.after ?? "")
        if let account = query.account { statement.bind(account) }
        statement.bind(limit: query.limit)
        return try statement.all(DocumentRow.init(from:))
    }

    func owned(_ ids: [BlobID]) throws(SQLFailure) -> Set<BlobID> {
        var owned: Set<BlobID> = []
        for id in ids {
            owners.bind(id.bytes)
            if try owners.first({ _ in true }) != nil { owned.insert(id) }
        }
        return owned
    }

    func files(_ query: FilesQuery) throws(SQLFailure) -> [BlobRow] {
        let statement = query.id == nil ? files : filesOfContent
        // Empty bytes come before every id.
        statement.bind(query.id?.bytes ?? query.after?.id.bytes ?? [])
        statement.bind(query.after?.account.bytes ?? [])
        statement.bind(limit: query.limit)
        return try statement.all(BlobRow.init(from:))
    }

    func hasAccounts() throws(SQLFailure) -> Bool {
        let any = try SQLStatement("SELECT 1 FROM accounts LIMIT 1", on: handle)
        return try any.first { _ in true } ?? false
    }

    /// Returns the time of the newest transfer or operation, or `nil` if there is none.
    func newestMoment() throws(SQLFailure) -> Timestamp? {
        let newest = try SQLStatement(
            """
            SELECT max(
                ifnull((SELECT at FROM transfers ORDER BY number DESC LIMIT 1), 0),
                ifnull((SELECT max(at) FROM operations WHERE state = 1), 0)
            )
            """,
            on: handle
        )
        let moment = try newest.first { $0.moment(0) }
        return moment.flatMap { $0.millisecondsSince1970 > 0 ? $0 : nil }
    }

    func account(email: String) throws(SQLFailure) -> AccountRow? {
        accountByEmail.bind(email)
        return try accountByEmail.first(AccountRow.init(from:))
    }
}

extension SQLStatement {
    /// Binds a limit, made non-negative: SQLite treats a negative one as no limit.
    func bind(limit: Int) { bind(Int64(max(0, limit))) }
}
