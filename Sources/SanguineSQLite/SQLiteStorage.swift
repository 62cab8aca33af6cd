public import Foundation
public import SanguineAuthority
public import SanguineModel
import Synchronization

/// Keeps an authority's data in one SQLite file, for one server process.
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
/// ``SQLiteStorageOptions/openingCheck`` and then in the background. Once damage is found, there or
/// by any later read, every change fails with ``StorageError/damaged(_:)``. Reads go on.
///
/// **One writer.** One connection writes and checkpoints; the others only read. A lock file
/// refuses a second opening of the same folder.
///
/// **Reads from memory.** Profiles and balances used last are answered without the database, and
/// are never older than what any other answer has shown.
///
/// The folder has `sanguine.sqlite` (mode 0600, with SQLite's `-wal` and `-shm`), `sanguine.lock`,
/// `sanguine.history`, and, once there is a file, the folder `blobs`.
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

    /// The epoch of the database: another one after a copy of it was restored.
    public let epoch: Epoch
    /// Messages for the operator about the opening; empty after most openings.
    ///
    /// They say why the database has a new epoch, and why the next opening will give it one.
    package let notices: [String]

    /// The thread that changes the database; internal for tests.
    let writer: GroupWriter
    /// The committed rows in memory; internal for tests.
    let cache: CommittedCache

    /// Opens the data in the folder, and makes or upgrades it as needed.
    ///
    /// - Parameters:
    ///   - folder: The data folder. It is made, for its owner alone, if it is missing.
    ///   - options: The limits.
    ///   - mayBeEmpty: Whether a database that is missing or empty is made. Default: yes. Say no
    ///     where something else shows that there was one, and lost data must not be replaced.
    /// - Throws: The first reason, in the order in which ``SQLiteStorageError`` lists them.
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
                // If this fails, the next opening says that it has made a new epoch.
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
    /// At most ``SQLiteStorageOptions/queuedCommands`` may wait, and of an account at most
    /// ``SQLiteStorageOptions/queuedCommandsPerAccount``; more are refused with
    /// ``StorageError/overloaded(retryAfterSeconds:)``.
    public func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem> {
        try await writer.perform(command)
    }

    /// Loads committed rows as of one moment.
    ///
    /// Does not suspend if memory has all of them.
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

    /// Reads a part of an account's feed, and loads rows as of the same moment.
    public func feed(_ query: FeedQuery) async throws(StorageError) -> FeedSlice {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.feed(query)
        }
    }

    /// Reads a part of a list of live records, as of one moment.
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
            try connection.transfers(of: account, before: number, limit: limit)
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

    /// Returns the parts of a streamed answer that were stored.
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

    /// Returns those of the files that any account has.
    public func owned(_ ids: [BlobID]) async throws(StorageError) -> Set<BlobID> {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.owned(ids)
        }
    }

    /// Returns the account with that e-mail address, compared byte by byte.
    public func account(email: String) async throws(StorageError) -> AccountRow? {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.account(email: email)
        }
    }

    /// Drops what has served its time.
    ///
    /// Commands wait meanwhile, so the limit bounds their wait.
    @discardableResult
    public func sweep(_ horizon: SweepHorizon, limit: Int) async throws(StorageError) -> Int {
        let sweep = Sweep(horizon: horizon, limit: limit)
        return try await writer.run { connection throws(SQLFailure) in
            try sweep.perform(on: connection)
        }
    }

    /// Recomputes every balance, on one snapshot and a connection of its own.
    ///
    /// Stops with ``StorageError/closed`` when the storage is closed meanwhile.
    public func verifyLedger() async throws(StorageError) -> LedgerReport {
        try checkOpen()
        let examiner = Examiner(
            of: folder,
            options: options,
            schema: schema,
            parts: [.ledger],
            unless: { [weak self] in self?.isClosed.load(ordering: .relaxed) ?? true }
        )
        return try await examiner.ledger()
    }

    /// Whether there is an account.
    public func hasAccounts() async throws(StorageError) -> Bool {
        try checkOpen()
        return try await readers.read { connection throws(SQLFailure) in
            try connection.hasAccounts()
        }
    }

    /// The bytes that are always kept free for a commit: 1 MiB.
    ///
    /// With less, a small commit may succeed while the next one fails.
    public static let neededBytes: Int64 = 1 << 20

    /// Commits something that changes nothing, and is durable like any commit.
    ///
    /// - Throws: ``StorageError/damaged(_:)`` if something was found to be since the storage was
    ///   opened, ``StorageError/full(_:)`` also with less than ``neededBytes``, or what the commit
    ///   came to.
    public func checkHealth() async throws(StorageError) {
        try checkOpen()
        try damage.check()
        if let space = folder.space {
            if space.isReadOnly { throw .readOnly("the file system is mounted read-only") }
            if space.freeBytes < Self.neededBytes {
                throw .full("\(space.freeBytes) bytes are free")
            }
        }
        try await writer.run { connection throws(SQLFailure) in
            try connection.commitNothing()
        }
    }

    /// How far the examination is that began when the storage was opened.
    public var dataCheck: DataCheck { check.progress }

    /// The bytes of the files, each a file of the folder `blobs`.
    public var blobs: any BlobStore { files }

    /// The free bytes of the folder's disk.
    public var freeBytes: Int64? { folder.space?.freeBytes }

    /// Finishes what is queued, closes the readers, then the writer, and releases the lock.
    ///
    /// Calling it again waits for the same end.
    public func close() async {
        isClosed.store(true, ordering: .releasing)
        await check.stop()
        await files.close()
        await writer.drain()
        await readers.close()
        await writer.end()
    }

    private func checkOpen() throws(StorageError) {
        guard !isClosed.load(ordering: .acquiring) else { throw .closed }
    }
}
