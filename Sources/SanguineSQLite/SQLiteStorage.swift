public import Foundation
public import SanguineAuthority
public import SanguineModel
import Synchronization

/// Stores an authority's data in one SQLite file, for one server process.
///
/// ```swift
/// let storage = try SQLiteStorage(folder: URL(filePath: "/var/lib/sanguine"))
/// defer { Task { await storage.close() } }
/// ```
///
/// **Durable.** A command is answered after its commit is on the disk (`synchronous=FULL`).
/// Commands that wait at the same time share a commit.
///
/// **No write to damaged data.** The data is examined when it is opened, for
/// ``SQLiteStorageOptions/openingCheck`` and then in the background. After damage is found, by this
/// examination or by a later read, every change fails with ``StorageError/damaged(_:)``. Reads are
/// still possible.
///
/// **One writer.** One connection writes and checkpoints; the others only read. A lock file
/// prevents the folder from being opened twice.
///
/// **Reads from memory.** Recently used profiles and balances are read from memory, and are never
/// older than those in any earlier answer.
///
/// The folder contains `sanguine.sqlite` (mode 0600, with SQLite's `-wal` and `-shm`),
/// `sanguine.lock`, `sanguine.history`, and, after the first file is stored, the folder `blobs`; or
/// `sanguine.blobs`, if another store has the files.
///
/// Mutable state: `isClosed`, atomic. Writer, readers and cache guard their own.
public final class SQLiteStorage: Storage {
    private let folder: DataFolder
    private let options: SQLiteStorageOptions
    private let schema: Schema
    private let readers: ReaderPool
    private let files: FolderBlobStore
    private let isClosed = Atomic(false)
    private let damage: FoundDamage
    private let check: OpeningCheck

    /// The epoch of the database, which changes after a copy of it was restored.
    public let epoch: Epoch
    /// Messages for the operator about opening the database; usually empty.
    ///
    /// They explain why the database has a new epoch, or why it will get one when it is opened
    /// next.
    package let notices: [String]

    /// The thread that changes the database; internal for tests.
    let writer: GroupWriter
    /// The committed rows in memory; internal for tests.
    let cache: CommittedCache

    /// Opens the data in the folder, and creates or upgrades it as needed.
    ///
    /// - Parameters:
    ///   - folder: The data folder. If it is missing, it is created, accessible only to its owner.
    ///   - options: The limits.
    ///   - mayBeEmpty: Whether to create a missing or empty database. Default: yes. Pass `false` if
    ///     a database is known to have existed, so that lost data is not replaced.
    /// - Throws: The first applicable ``SQLiteStorageError``, in the order of their declaration.
    public convenience init(
        folder: URL,
        options: SQLiteStorageOptions = SQLiteStorageOptions(),
        mayBeEmpty: Bool = true
    ) throws(SQLiteStorageError) {
        try self.init(folder: folder, options: options, mayBeEmpty: mayBeEmpty, schema: .current)
    }

    init(
        folder: URL,
        options: SQLiteStorageOptions,
        mayBeEmpty: Bool = true,
        schema: Schema
    ) throws(SQLiteStorageError) {
        let folder = DataFolder(folder)
        try folder.create()
        try folder.checkPrivate()
        let lock = try LockFile(in: folder)
        guard mayBeEmpty || folder.hasDatabase else { throw .emptied(folder: folder.path) }
        try folder.settleFiles(areElsewhere: options.storesFilesElsewhere)
        let history = HistoryCheck(of: folder)
        try folder.secureDatabase()
        try Connections.checkHistory(of: folder, options: options)
        let database = try Connections.writer(
            in: folder,
            options: options,
            mayBeEmpty: mayBeEmpty,
            schema: schema
        )
        (epoch, notices) = try history.settle(database)
        let damage = FoundDamage()
        let readers = try ReaderPool(
            in: folder,
            options: options,
            schema: schema,
            damage: damage
        )
        let cache = CommittedCache(capacity: options.cachedAccounts)
        let writer = GroupWriter(options: options, cache: cache, damage: damage)
        do throws(SQLFailure) {
            try writer.start(database, lock: lock) { [epoch] in
                // If this fails, a new epoch is assigned and reported when the database is opened
                // next.
                try? HistoryFile(of: folder, epoch: epoch, isClosed: true)?.write(to: folder)
            }
        } catch {
            throw .failed(error.explanation)
        }
        self.folder = folder
        self.options = options
        self.schema = schema
        self.readers = readers
        self.damage = damage
        files = FolderBlobStore(folder, damage: damage)
        self.cache = cache
        self.writer = writer
        check = OpeningCheck(of: folder, options: options, schema: schema, into: damage)
    }

    deinit {
        check.stopSoon()
        writer.endSoon()
    }

    /// Performs the command, and returns when its changes are on the disk.
    ///
    /// At most ``SQLiteStorageOptions/queuedCommands`` may wait, and of one account at most
    /// ``SQLiteStorageOptions/queuedCommandsPerAccount``; further commands are refused with
    /// ``StorageError/overloaded(retryAfterSeconds:)``.
    public func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem> {
        try await writer.perform(command)
    }

    /// Loads committed rows, all from one snapshot.
    ///
    /// It does not suspend if all of them are cached.
    public func load(_ keys: [Key]) async throws(StorageError) -> Loaded {
        try checkOpen()
        if let loaded = cache.loaded(keys) { return loaded }
        let tickets = cache.tickets(for: keys)
        let rows = try await readers.read { connection throws(SQLFailure) in
            try connection.rows(keys)
        }
        cache.fill(rows, with: tickets)
        var loaded = Loaded()
        for row in rows { loaded.add(row) }
        return loaded
    }

    /// Reads a part of an account's feed, and loads rows from the same moment.
    public func feed(_ query: FeedQuery) async throws(StorageError) -> FeedSlice {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.feed(query)
        }
    }

    /// Reads a part of a list of live records, from one snapshot.
    public func records(_ query: RecordQuery) async throws(StorageError) -> RecordList {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.records(query)
        }
    }

    /// Returns an account's transfers, newest first.
    public func transfers(
        of account: Identifier,
        before number: Int64?,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.ledger.transfers(of: account, before: number, limit: limit)
        }
    }

    /// Returns the transfers of all accounts, oldest first.
    public func transfers(
        after number: Int64,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.ledger.transfers(after: number, limit: limit)
        }
    }

    /// Returns the accounts with grants that expire by the moment, found by an index.
    public func accounts(
        withGrantsExpiringBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [Identifier] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.ledger.accounts(withGrantsExpiringBy: moment, limit: limit)
        }
    }

    /// Returns the accounts with plans that end by the moment, found by an index.
    public func accounts(
        withPlansEndingBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [AccountRow] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.administration.accounts(withPlansEndingBy: moment, limit: limit)
        }
    }

    /// Returns open holds that expire at or before the moment, earliest first.
    public func openHolds(
        expiringBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [HoldRow] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.openHolds(expiringBy: moment, limit: limit)
        }
    }

    /// Returns operations that are still running, in the order of their keys.
    public func runningOperations(
        after position: OperationPosition?,
        limit: Int
    ) async throws(StorageError) -> [OperationRow] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.runningOperations(after: position, limit: limit)
        }
    }

    /// Returns the stored parts of a streamed answer.
    public func parts(
        of run: Identifier,
        from index: Int64,
        limit: Int
    ) async throws(StorageError) -> [PartsRow] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.parts(of: run, from: index, limit: limit)
        }
    }

    /// Returns the files that at least one account owns.
    public func owned(_ ids: [BlobID]) async throws(StorageError) -> Set<BlobID> {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.owned(ids)
        }
    }

    /// Returns a part of the files of all accounts.
    public func files(_ query: FilesQuery) async throws(StorageError) -> [BlobRow] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.files(query)
        }
    }

    /// Returns a part of the documents of one kind.
    public func documents(_ query: DocumentQuery) async throws(StorageError) -> [DocumentRow] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.documents(query)
        }
    }

    /// Returns a part of the active accounts.
    public func accounts(_ query: AccountsQuery) async throws(StorageError) -> [AccountRow] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.administration.accounts(query)
        }
    }

    /// Returns a part of an account's rows of one kind.
    public func rows(_ query: AccountRowsQuery) async throws(StorageError) -> [Row] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.administration.rows(query)
        }
    }

    /// Returns entries of the audit log, newest first.
    public func audit(
        before number: Int64?,
        limit: Int
    ) async throws(StorageError) -> [AuditRow] {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.administration.audit(before: number, limit: limit)
        }
    }

    /// Returns the account with the e-mail address, compared byte by byte.
    public func account(email: String) async throws(StorageError) -> AccountRow? {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.account(email: email)
        }
    }

    /// Removes expired data.
    ///
    /// Commands wait in the meantime; the limit bounds their wait.
    @discardableResult
    public func sweep(_ horizon: SweepHorizon, limit: Int) async throws(StorageError) -> Int {
        let sweep = Sweep(horizon: horizon, limit: limit)
        return try await writer.run { connection throws(SQLFailure) in
            try sweep.perform(on: connection)
        }
    }

    /// Recomputes every balance, on one snapshot and a separate connection.
    ///
    /// It throws ``StorageError/closed`` if the storage is closed in the meantime.
    public func verifyLedger(
        progress: @escaping @Sendable (LedgerProgress) -> Void
    ) async throws(StorageError) -> LedgerReport {
        try checkOpen()
        let examiner = Examiner(
            of: folder,
            options: options,
            schema: schema,
            parts: [.ledger],
            progress: progress,
            unless: { [weak self] in self?.isClosed.load(ordering: .relaxed) ?? true }
        )
        return try await examiner.ledger()
    }

    /// Returns whether there is an account.
    public func hasAccounts() async throws(StorageError) -> Bool {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.hasAccounts()
        }
    }

    /// The free space that a commit requires: 1 MiB, in bytes.
    ///
    /// With less, a small commit may succeed although the next one fails.
    public static let neededBytes: Int64 = 1 << 20

    /// Commits a transaction without changes, which is durable like any commit.
    ///
    /// - Throws: ``StorageError/damaged(_:)`` if damage was found since the storage was opened,
    ///   ``StorageError/full(_:)`` also with less than ``neededBytes``, or the error of the commit.
    public func checkHealth() async throws(StorageError) {
        try checkOpen()
        try damage.check()
        if let space = folder.space {
            if space.isReadOnly { throw .readOnly("the file system is mounted read-only") }
            if space.freeBytes < Self.neededBytes {
                throw .full("only \(space.freeBytes) bytes are free")
            }
        }
        try await writer.run { connection throws(SQLFailure) in
            try connection.commitNothing()
        }
    }

    /// The progress of the examination that began when the storage was opened.
    public var dataCheck: DataCheck { check.progress }

    /// The files' bytes, each stored as a file in the folder `blobs`.
    public var blobs: any BlobStore { files }

    /// The free bytes of the folder's disk.
    public var freeBytes: Int64? { folder.space?.freeBytes }

    /// Finishes the queued work, closes the readers and then the writer, and releases the lock.
    ///
    /// Further calls wait until the first one has finished.
    public func close() async {
        isClosed.store(true, ordering: .releasing)
        await check.stop()
        await files.close()
        await writer.drain()
        await readers.close()
        await writer.end()
    }

    /// Opens the data in the folder while a body runs, and closes it afterwards.
    ///
    /// ```swift
    /// try await SQLiteStorage.with(folder: folder) { storage in
    ///     try await SanguineServer(storage: storage, keys: keys).serve()
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - folder: The data folder. If it is missing, it is created, accessible only to its owner.
    ///   - options: The limits.
    ///   - body: Uses the storage.
    /// - Returns: The body's result.
    /// - Throws: A ``SQLiteStorageError``, or the body's error, after which the storage is closed
    ///   too.
    public static func with<Value>(
        folder: URL,
        options: SQLiteStorageOptions = SQLiteStorageOptions(),
        _ body: (SQLiteStorage) async throws -> Value
    ) async throws -> Value {
        let storage = try SQLiteStorage(folder: folder, options: options)
        do {
            let value = try await body(storage)
            await storage.close()
            return value
        } catch {
            await storage.close()
            throw error
        }
    }

    private func checkOpen() throws(StorageError) {
        guard !isClosed.load(ordering: .acquiring) else { throw .closed }
    }
}
