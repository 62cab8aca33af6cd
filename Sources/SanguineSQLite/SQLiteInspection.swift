public import Foundation
public import SanguineAuthority
public import SanguineModel

/// Looks at a data folder without changing it, also while a server has it open.
///
/// Made by ``SQLiteStorage/inspect(folder:)``. It takes no lock, makes and upgrades nothing, and
/// its connections can neither write nor checkpoint.
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

    /// Loads committed rows, all as of one moment.
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
            try connection.transfers(of: account, before: number, limit: limit)
        }
    }

    /// Returns the account with that e-mail address.
    public func account(email: String) async throws(StorageError) -> AccountRow? {
        try await readers.read { connection throws(SQLFailure) in
            try connection.account(email: email)
        }
    }

    /// Whether there is an account.
    public func hasAccounts() async throws(StorageError) -> Bool {
        try await readers.read { connection throws(SQLFailure) in
            try connection.hasAccounts()
        }
    }

    /// When the last transfer or operation was made, or `nil` if there is none.
    public func newestMoment() async throws(StorageError) -> Timestamp? {
        try await readers.read { connection throws(SQLFailure) in
            try connection.newestMoment()
        }
    }

    /// Reads all of the data: pages and indexes, the ledger, the counters of feeds, and the files.
    ///
    /// - Returns: What was found.
    /// - Throws: ``StorageError/closed`` if the calling task was cancelled, or what keeps it from
    ///   reading, damage excepted.
    public func examine() async throws(StorageError) -> DataExamination {
        try await readers.read { _ throws(SQLFailure) in }  // Throws if this was closed.
        let examiner = Examiner(
            of: folder,
            options: options,
            schema: schema,
            parts: [.pages, .ledger, .feeds, .files]
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
    /// Opens the data in the folder for looking at it, beside a server or without one.
    ///
    /// - Throws: ``SQLiteStorageError/noData(folder:)`` if there is none; nothing is made then.
    public static func inspect(
        folder: URL
    ) throws(SQLiteStorageError) -> SQLiteInspection {
        try SQLiteInspection(folder: DataFolder(folder), schema: .current)
    }
}
