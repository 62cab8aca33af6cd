import Foundation
import GRDB
import Logging
import SanguineModel
import Synchronization

/// Stores data of the device, or of one user, across launches: named states and cache entries.
///
/// A file that an earlier process left is opened at once. If there is none, it is created at
/// the first write, and reads find nothing.
///
/// Every call is synchronous and waits for the previous one, so a read waits for a write in
/// progress. A write is durable when it returns. A damaged row is dropped and counted, a damaged
/// file is moved aside and replaced by a fresh one, and without a usable disk the store works in
/// memory. The ``StoreLog`` reports all of these.
///
/// Invariants:
///
/// 1. Nothing is read or written after ``close()``: a late write for a user who has left fails.
/// 2. Entries take at most `entryLimitBytes`, counted by ``StoredEntry/cost``; the oldest are
///    removed first.
///
/// Mutable state: `guarded`, protected by its mutex, which is held while the database is opened,
/// but not during other calls of it; and the database, which serializes its own accesses.
///
/// This is a class with locks instead of an actor, because `cached` must return at once, and
/// because GRDB's async calls stop halfway when their task is cancelled.
final class ClientStore: Sendable {
    private enum Connection {
        case unopened
        case open(DatabaseQueue, isOnDisk: Bool)
        case closed
    }

    private struct Guarded {
        var connection = Connection.unopened
        /// The cost of all entries in bytes, never less than the true cost.
        ///
        /// `nil` until it is needed, because counting would delay the first read.
        var entryBytes: Int64?
        /// Whether the file names the version of the app that has written it.
        var hasVersion = false
    }

    /// The state that contains the version of the app that has written the entries.
    private static let versionName = "app-version"

    private let guarded = Mutex(Guarded())
    private let folder: URL?
    /// Whether no earlier process left a file here; a concurrent process may create one.
    let isNew: Bool
    /// Whether another version of the app wrote the entries, which may then lack what only
    /// this version can decode.
    let isOfOtherVersion: Bool
    private let appVersion: Data?
    private let entryLimitBytes: Int64
    let log: StoreLog

    /// Opens the store if an earlier process left one; an unusable disk is reported in the
    /// ``StoreLog`` and not thrown.
    ///
    /// - Parameters:
    ///   - folder: The folder of the file; `nil` keeps everything in memory.
    ///   - entryLimitBytes: The maximum size of the cache's entries in bytes. Default: 64 MB.
    ///   - appVersion: The version of the app. Default: `nil`, which means unknown.
    ///   - log: The log that failures are reported to.
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    init(
        folder: URL?,
        entryLimitBytes: Int64 = ClientLimits.diskBytes,
        appVersion: String? = nil,
        log: StoreLog
    ) throws(StoreError) {
        self.folder = folder
        let version = appVersion.map { Data($0.utf8) }
        self.appVersion = version
        self.entryLimitBytes = entryLimitBytes
        self.log = log
        isNew = !Self.isThere(folder)
        let opened = isNew ? nil : try Self.open(folder)
        isOfOtherVersion = opened.map { version != nil && $0.version != version } ?? false
        guard let opened else { return }
        guarded.withLock { guarded in
            guarded.connection = .open(opened.database, isOnDisk: opened.isOnDisk)
            guarded.hasVersion = opened.version == version
        }
        opened.note(log)
    }

    /// Opens or creates the store and records its location in the ``StoreLog``; does nothing if it
    /// is open or closed.
    ///
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    func open() throws(StoreError) {
        do throws(StoreError) {
            _ = try database(opening: true)
        } catch .closed {
            return
        }
    }

    /// The folder of the file; `nil` if everything is in memory, or the store is closed.
    var place: URL? {
        guarded.withLock { guarded in
            switch guarded.connection {
            case .unopened, .open(_, isOnDisk: true): folder
            case .open, .closed: nil
            }
        }
    }

    /// Ends all access; later calls throw ``StoreError/closed``.
    func close() {
        let former = guarded.withLock { guarded in
            defer { guarded.connection = .closed }
            return guarded.connection
        }
        if case .open(let database, _) = former { try? database.close() }
    }

    // MARK: - States

    /// Returns the state with this name, or `nil` if it was never set or is damaged.
    func state(_ name: String) throws(StoreError) -> Data? {
        let row = try read { database in
            try Row.fetchOne(
                database,
                sql: "SELECT data, checksum FROM state WHERE name = ?",
                arguments: [name]
            )
        }
        guard let row else { return nil }
        guard let data = Data.fromDatabaseValue(row["data"]),
            Int64.fromDatabaseValue(row["checksum"]) == RowChecksum.of(name, data)
        else {
            log.dropped("state '\(name)'")
            try setState(name, nil)
            return nil
        }
        return data
    }

    /// Writes the state with this name, or removes it if the data is `nil`.
    ///
    /// Durable when it returns.
    func setState(_ name: String, _ data: Data?) throws(StoreError) {
        try setStates([name: data])
    }

    /// Writes these states, and removes those whose data is `nil`: all of them or none.
    ///
    /// Durable when it returns.
    func setStates(_ states: [String: Data?]) throws(StoreError) {
        if states.values.allSatisfy({ $0 == nil }), try database(opening: false) == nil { return }
        try write { database in
            for (name, data) in states {
                guard let data else {
                    try database.execute(sql: "DELETE FROM state WHERE name = ?", arguments: [name])
                    continue
                }
                try Self.insert(state: name, data, into: database)
            }
        }
    }

    private static func insert(state name: String, _ data: Data, into database: Database) throws {
        try database.execute(
            sql: "INSERT OR REPLACE INTO state (name, data, checksum) VALUES (?, ?, ?)",
            arguments: [name, data, RowChecksum.of(name, data)]
        )
    }

    // MARK: - Entries

    /// Returns the entry with this key, or `nil`.
    ///
    /// An entry of another version is dropped and counted.
    func entry(_ key: String, version: Int = 1) throws(StoreError) -> StoredEntry? {
        let row = try read { database in
            try Row.fetchOne(
                database,
                sql: """
                    SELECT as_of, day, day_end, kept_until, version, labels, stale, contained,
                        value, checksum
                    FROM entry WHERE key = ?
                    """,
                arguments: [key]
            )
        }
        guard let row else { return nil }
        guard let value = Data.fromDatabaseValue(row["value"]),
            let asOf = Int64.fromDatabaseValue(row["as_of"]),
            let keptUntil = Int64.fromDatabaseValue(row["kept_until"]),
            let labels = String.fromDatabaseValue(row["labels"]),
            let isStale = Bool.fromDatabaseValue(row["stale"]),
            let contained = String.fromDatabaseValue(row["contained"]),
            Int.fromDatabaseValue(row["version"]) == version,
            Int64.fromDatabaseValue(row["checksum"]) == RowChecksum.of(key, value)
        else {
            drop(key, RowIdentity(row))
            return nil
        }
        return StoredEntry(
            key: key,
            asOf: Timestamp(millisecondsSince1970: asOf),
            day: LocalDay(row),
            keptUntil: Timestamp(millisecondsSince1970: keptUntil),
            version: version,
            labels: labels,
            isStale: isStale,
            contained: StoredEntry.contained(in: contained),
            value: value
        )
    }

    /// Applies changes in their order, in one transaction.
    func applyEntries(_ changes: [EntryChange]) throws(StoreError) {
        let (isCounted, hasVersion) = guarded.withLock { ($0.entryBytes != nil, $0.hasVersion) }
        let (counted, written) = try write { database in
            if !hasVersion, let appVersion {
                try Self.insert(state: Self.versionName, appVersion, into: database)
            }
            let counted =
                isCounted
                ? nil : try Int64.fetchOne(database, sql: "SELECT total(cost) FROM entry") ?? 0
            var written: Int64 = 0
            for change in changes {
                switch change {
                case .put(let entry):
                    try Self.insert(entry, into: database)
                    written += Int64(entry.cost)
                case .markStale(let scope):
                    try scope.markStale(in: database)
                case .remove(let key):
                    try database.execute(sql: "DELETE FROM entry WHERE key = ?", arguments: [key])
                }
            }
            return (counted, written)
        }
        let isOverLimit = guarded.withLock { guarded in
            let bytes = (guarded.entryBytes ?? counted ?? 0) + written
            guarded.entryBytes = bytes
            guarded.hasVersion = true
            return bytes > entryLimitBytes
        }
        if isOverLimit { try trimEntries() }
    }

    /// Removes entries that have expired.
    func removeEntries(keptUntil now: Timestamp) throws(StoreError) {
        guard try database(opening: false) != nil else { return }
        try write { database in
            try database.execute(
                sql: "DELETE FROM entry WHERE kept_until <= ?",
                arguments: [now.millisecondsSince1970]
            )
        }
    }

    /// Counts and removes an entry that could not be decoded.
    ///
    /// A newer row of the same key stays.
    func dropEntry(_ entry: StoredEntry) {
        drop(entry.key, RowIdentity(entry))
    }

    private func drop(_ key: String, _ row: RowIdentity) {
        log.dropped("entry '\(key)'")
        try? write { database in
            try database.execute(
                sql: "DELETE FROM entry WHERE key = ? AND as_of IS ? AND checksum IS ?",
                arguments: [key, row.asOf, row.checksum]
            )
        }
    }

    private static func insert(_ entry: StoredEntry, into database: Database) throws {
        try database.execute(
            sql: """
                INSERT OR REPLACE INTO entry
                    (key, as_of, day, day_end, kept_until, version, labels, stale, contained, cost,
                    checksum, value)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                entry.key, entry.asOf.millisecondsSince1970, entry.day?.day.description,
                entry.day?.end.millisecondsSince1970,
                entry.keptUntil.millisecondsSince1970, entry.version, entry.labels,
                entry.isStale, entry.containedList, entry.cost,
                RowChecksum.of(entry.key, entry.value), entry.value,
            ]
        )
    }

    private func trimEntries() throws(StoreError) {
        let target = entryLimitBytes / 10 * 9  // Frees some room, or each write would trim again.
        let left = try write { database in
            try database.execute(
                sql: """
                    DELETE FROM entry WHERE rowid IN (
                        SELECT rowid FROM (
                            SELECT rowid, sum(cost) OVER (
                                ORDER BY as_of DESC, rowid DESC
                            ) AS newer FROM entry
                        ) WHERE newer > ?
                    )
                    """,
                arguments: [target]
            )
            return try Int64.fetchOne(database, sql: "SELECT total(cost) FROM entry") ?? 0
        }
        guarded.withLock { $0.entryBytes = left }
    }
}

// MARK: - Failures

extension ClientStore {
    private func read<Value>(
        _ body: (Database) throws -> Value?
    ) throws(StoreError) -> Value? {
        let found = try perform(opening: false) {
            try $0.read(body)
        } or: {
            .readFailed($0)
        }
        return found ?? nil
    }

    private func write<Value>(
        _ body: (Database) throws -> Value
    ) throws(StoreError) -> Value {
        let written = try perform(opening: true) {
            try $0.write(body)
        } or: {
            .writeFailed($0)
        }
        guard let written else { throw .closed }
        return written
    }

    /// Runs a transaction; if the file turns out to be damaged, once more on a fresh one.
    ///
    /// - Parameters:
    ///   - opening: Whether to create a store if there is none; otherwise nothing runs without one.
    ///   - body: Runs the transaction.
    ///   - failure: Makes an error from the database's message.
    /// - Returns: The body's result; `nil` if there is no store.
    /// - Throws: ``StoreError/closed``, or the error that `failure` makes.
    private func perform<Value>(
        opening: Bool,
        _ body: (DatabaseQueue) throws -> Value,
        or failure: (String) -> StoreError
    ) throws(StoreError) -> Value? {
        var isSecondTry = false
        while true {
            guard let database = try database(opening: opening) else { return nil }
            do {
                return try body(database)
            } catch  where SQLiteFile.isDamage(error) && !isSecondTry && replace(database, error) {
                isSecondTry = true
            } catch {
                // The store was closed while the call waited, so the failure needs no report.
                guard try self.database(opening: false) != nil else { throw .closed }
                log.failure("\(error)", "The store failed.")
                throw failure("\(error)")
            }
        }
    }

    /// Returns the open database; `nil` if there is no store, and none is to be created.
    private func database(opening: Bool) throws(StoreError) -> DatabaseQueue? {
        var opened: Opened?
        defer { opened?.note(log) }
        // Under the lock, so that only one of several threads opens it.
        return try guarded.withLock { guarded throws(StoreError) in
            switch guarded.connection {
            case .open(let database, _): return database
            case .closed: throw .closed
            case .unopened:
                guard opening || Self.isThere(folder) else { return nil }
                let new = try Self.open(folder)
                guarded.connection = .open(new.database, isOnDisk: new.isOnDisk)
                opened = new
                return new.database
            }
        }
    }

    private static func isThere(_ folder: URL?) -> Bool {
        folder.map { FileManager.default.fileExists(atPath: StoreFile.file(in: $0).url.path) }
            ?? false
    }

    /// Moves a file aside that turned out to be damaged while in use.
    private func replace(_ damaged: DatabaseQueue, _ error: any Error) -> Bool {
        guard let folder else { return false }
        var aside: URL?
        // Under the lock, so that only one of two threads that find the damage repairs it. Nothing
        // in here calls this object again.
        let isReplaced = guarded.withLock { guarded in
            guard case .open(let current, isOnDisk: true) = guarded.connection
            else { return false }
            guard current === damaged else { return true }
            try? damaged.close()
            aside = try? StoreFile.file(in: folder).moveAside("damaged")
            guard aside != nil, let fresh = try? StoreFile.open(in: folder) else { return false }
            guarded.connection = .open(fresh.database, isOnDisk: true)
            (guarded.entryBytes, guarded.hasVersion) = (nil, false)
            return true
        }
        if let aside { log.movedAside(aside, because: "\(error)") }
        return isReplaced
    }

    private struct Opened {
        var database: DatabaseQueue
        var isOnDisk: Bool
        /// Reports the outcome, with no lock held because it calls the app's code.
        var note: (StoreLog) -> Void

        /// The version of the app that has written the entries; `nil` if it is unknown.
        var version: Data? {
            let name = ClientStore.versionName
            let sql = "SELECT data FROM state WHERE name = ?"
            return try? database.read { try Data.fetchOne($0, sql: sql, arguments: [name]) }
        }
    }

    private static func open(_ folder: URL?) throws(StoreError) -> Opened {
        do {
            guard let folder else {
                return Opened(database: try StoreFile.inMemory(), isOnDisk: false) {
                    $0.opened(.memory)
                }
            }
            do {
                let opened = try StoreFile.open(in: folder)
                return Opened(database: opened.database, isOnDisk: true) { log in
                    if let aside = opened.movedAside {
                        log.movedAside(aside, because: opened.reason ?? "")
                    }
                    log.opened(.disk)
                }
            } catch {
                return Opened(database: try StoreFile.inMemory(), isOnDisk: false) { log in
                    log.opened(.memoryInsteadOfDisk)
                    log.failure(
                        "\(error)",
                        "The store cannot use the disk. Its data is lost when the process ends."
                    )
                }
            }
        } catch {
            throw .readFailed("\(error)")
        }
    }
}
