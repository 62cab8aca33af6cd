public import Foundation
public import SanguineAuthority
public import SanguineModel

/// Reads a data folder without changing it, even while a server has it open.
///
/// It is created by ``SQLiteStorage/inspect(folder:)``. It takes no lock, creates and upgrades
/// nothing, and its connections can neither write nor checkpoint.
public final class SQLiteInspection: Sendable {
    private let folder: DataFolder
    private let options: SQLiteStorageOptions
    private let schema: Schema
    private let readers: ReaderPool

    init(folder: DataFolder, schema: Schema) throws(SQLiteStorageError) {
        guard folder.hasDatabase else { throw .noData(folder: folder.path) }
        var options = SQLiteStorageOptions()
        options.readers = 1
        self.folder = folder
        self.options = options
        self.schema = schema
        readers = try ReaderPool(in: folder, options: options, schema: schema)
    }

    /// Loads committed rows, all from one snapshot.
    public func load(_ keys: [Key]) async throws(StorageError) -> Loaded {
        let rows = try await readers.read { connection throws(SQLFailure) in
            try connection.rows(keys)
        }
        var loaded = Loaded()
        for row in rows { loaded.add(row) }
        return loaded
    }

    /// Returns an account's transfers with a number below the given one, newest first.
    public func transfers(
        of account: Identifier,
        before number: Int64? = nil,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        try await readers.read { connection throws(SQLFailure) in
            try connection.ledger.transfers(of: account, before: number, limit: limit)
        }
    }

    /// Returns the transfers of all accounts with a number above the given one, oldest first.
    public func transfers(
        after number: Int64,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        try await readers.read { connection throws(SQLFailure) in
            try connection.ledger.transfers(after: number, limit: limit)
        }
    }

    /// Returns the account that signs in with the e-mail address, or one that shows it.
    public func account(email: String) async throws(StorageError) -> AccountRow? {
        let search = AccountSearch(email: email)
        if let id = search.account(in: try await load([search.key])),
            let row = try await load([.account(id)]).account(id), row.state == .active
        {
            return row
        }
        return try await readers.read { connection throws(SQLFailure) in
            try connection.account(email: search.address)
        }
    }

    /// Returns the ways to sign in to an account, the oldest first, without secrets.
    public func logins(of account: Identifier) async throws(StorageError) -> [LoginInfo] {
        let rows = try await readers.read { connection throws(SQLFailure) in
            try connection.documents(LoginInfo.query(of: account))
        }
        return LoginInfo.all(in: rows)
    }

    /// Returns whether there is an account.
    public func hasAccounts() async throws(StorageError) -> Bool {
        try await readers.read { connection throws(SQLFailure) in
            try connection.hasAccounts()
        }
    }

    /// Returns the time of the newest transfer or operation, or `nil` if there is none.
    public func newestMoment() async throws(StorageError) -> Timestamp? {
        try await readers.read { connection throws(SQLFailure) in
            try connection.newestMoment()
        }
    }

    /// Reads all data: pages and indexes, the ledger, the counters of feeds, the audit log, and the
    /// files.
    ///
    /// - Returns: The findings.
    /// - Throws: ``StorageError/closed`` if the calling task was cancelled, or the error that
    ///   prevented reading, except for damage.
    ///
    /// - Parameter progress: Called while the ledger is read, every ``LedgerProgress/step``
    ///   accounts. Default: nothing.
    public func examine(
        progress: @escaping @Sendable (LedgerProgress) -> Void = { _ in }
    ) async throws(StorageError) -> DataExamination {
        try await readers.read { _ throws(SQLFailure) in }  // Throws if the connections are closed.
        let examiner = Examiner(
            of: folder,
            options: options,
            schema: schema,
            parts: [.pages, .ledger, .feeds, .audit, .files],
            progress: progress
        )
        return try await examiner.examine()
    }

    /// Closes the connections.
    ///
    /// Later calls throw ``StorageError/closed``.
    public func close() async {
        await readers.close()
    }
}

extension SQLiteStorage {
    /// Opens the data in the folder for reading, with or without a running server.
    ///
    /// - Throws: ``SQLiteStorageError/noData(folder:)`` if there is none; nothing is created then.
    public static func inspect(
        folder: URL
    ) throws(SQLiteStorageError) -> SQLiteInspection {
        try SQLiteInspection(folder: DataFolder(folder), schema: .current)
    }
}
