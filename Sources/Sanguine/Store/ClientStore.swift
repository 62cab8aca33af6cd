import Foundation
import GRDB
import Logging
import SanguineModel
import Synchronization

/// What the device, or one user, keeps over restarts: named states, and entries of the cache.
///
/// Every call is synchronous and waits for the one before it: a read for a write that is under way
/// too. A write is durable when it returns. A damaged row is dropped and counted, a damaged file is
/// put aside and replaced by a fresh one, and without a usable disk the store works in memory. All
/// of it is said in the ``StoreLog``.
///
/// Invariants:
///
/// 1. Nothing is read or written after ``close()``: a late write for a user who is gone fails.
/// 2. Entries take at most `entryLimitBytes`, counted by ``StoredEntry/cost``; the oldest go first.
///
/// Mutable state: `guarded`, by its mutex, which is never held over a call of the database; and the
/// database, which serialises its own accesses.
///
/// A class with locks and not an actor, because `cached` must answer at once, and because GRDB's
/// async calls give up half-way when their task is cancelled.
final class ClientStore: Sendable {
    private struct Guarded {
        var database: DatabaseQueue?
        /// What all entries cost, in bytes; at least what is true, never less.
        ///
        /// `nil` until it is needed: counting them would make the first reader wait.
        var entryBytes: Int64?
    }

    private let guarded: Mutex<Guarded>
    /// Where the file lies; `nil` if it is in memory.
    let folder: URL?
    /// Whether no earlier process has left anything here; of another one at the same time it says
    /// nothing.
    let isNew: Bool
    private let entryLimitBytes: Int64
    let log: StoreLog

    /// Opens or creates the store; a disk that fails is no error, see ``StoreLog``.
    ///
    /// - Parameters:
    ///   - folder: Where the file lies; `nil` keeps everything in memory.
    ///   - entryLimitBytes: How much the cache's entries may take. Default: 64 MB.
    ///   - log: Where failures are said.
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    init(
        folder: URL?,
        entryLimitBytes: Int64 = ClientLimits.diskBytes,
        log: StoreLog
    ) throws(StoreError) {
        self.entryLimitBytes = entryLimitBytes
        self.log = log
        let file = folder.map { StoreFile.file(in: $0).url.path }
        isNew = !(file.map { FileManager.default.fileExists(atPath: $0) } ?? false)
        let (database, isOnDisk) = try Self.open(folder, log)
        self.folder = isOnDisk ? folder : nil
        guarded = Mutex(Guarded(database: database))
    }

    /// Ends all access; later calls throw ``StoreError/closed``.
    func close() {
        try? guarded.withLock { $0.database.take() }?.close()
    }

    // MARK: - States

    /// The state of that name, or `nil` if it was never set or is damaged.
    func state(_ name: String) throws(StoreError) -> Data? {
        let row = try perform(.reading) { database in
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

    /// Writes or, with `nil`, removes the state of that name.
    ///
    /// Durable when it returns.
    func setState(_ name: String, _ data: Data?) throws(StoreError) {
        try perform(.writing) { database in
            guard let data else {
                try database.execute(sql: "DELETE FROM state WHERE name = ?", arguments: [name])
                return
            }
            try database.execute(
                sql: "INSERT OR REPLACE INTO state (name, data, checksum) VALUES (?, ?, ?)",
                arguments: [name, data, RowChecksum.of(name, data)]
            )
        }
    }

    // MARK: - Entries

    /// The entry of that key, or `nil`.
    ///
    /// One of another version is dropped and counted.
    func entry(_ key: String, version: Int = 1) throws(StoreError) -> StoredEntry? {
        let row = try perform(.reading) { database in
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

    /// Makes changes in their order, in one transaction.
    func applyEntries(_ changes: [EntryChange]) throws(StoreError) {
        let isCounted = guarded.withLock { $0.entryBytes != nil }
        let (counted, written) = try perform(.writing) { database in
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
            return bytes > entryLimitBytes
        }
        if isOverLimit { try trimEntries() }
    }

    /// Removes entries that may no longer be shown.
    func removeEntries(keptUntil now: Timestamp) throws(StoreError) {
        try perform(.writing) { database in
            try database.execute(
                sql: "DELETE FROM entry WHERE kept_until <= ?",
                arguments: [now.millisecondsSince1970]
            )
        }
    }

    /// Counts an entry that could not be decoded, and removes it.
    ///
    /// A row that has taken its place meanwhile stays.
    func dropEntry(_ entry: StoredEntry) {
        drop(entry.key, RowIdentity(entry))
    }

    private func drop(_ key: String, _ row: RowIdentity) {
        log.dropped("entry '\(key)'")
        try? perform(.writing) { database in
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
        let target = entryLimitBytes / 10 * 9  // Some room, or each write would trim again.
        let left = try perform(.writing) { database in
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
    private enum Access { case reading, writing }

    /// Runs a transaction; once more on a fresh file if the present one turns out to be damaged.
    private func perform<Value>(
        _ access: Access,
        _ body: (Database) throws -> Value
    ) throws(StoreError) -> Value {
        var isSecondTry = false
        while true {
            guard let database = guarded.withLock({ $0.database }) else { throw .closed }
            do {
                return switch access {
                case .reading: try database.read(body)
                case .writing: try database.write(body)
                }
            } catch  where SQLiteFile.isDamage(error) && !isSecondTry && replace(database, error) {
                isSecondTry = true
            } catch {
                // Closed while it waited: nobody is there to miss it.
                guard guarded.withLock({ $0.database }) != nil else { throw .closed }
                log.failure("\(error)", "The store failed.")
                throw access == .reading ? .readFailed("\(error)") : .writeFailed("\(error)")
            }
        }
    }

    /// Puts a file aside that turned out to be damaged while it was in use.
    private func replace(_ damaged: DatabaseQueue, _ error: any Error) -> Bool {
        guard let folder else { return false }
        var aside: URL?
        // Under the lock, so that of two threads that find the damage one repairs it. Nothing in
        // here comes back to this object.
        let isReplaced = guarded.withLock { guarded in
            guard guarded.database === damaged else { return guarded.database != nil }
            try? damaged.close()
            aside = try? StoreFile.file(in: folder).moveAside("damaged")
            guard aside != nil, let fresh = try? StoreFile.open(in: folder) else { return false }
            guarded.database = fresh.database
            guarded.entryBytes = nil
            return true
        }
        if let aside { log.movedAside(aside, because: "\(error)") }
        return isReplaced
    }

    private static func open(
        _ folder: URL?,
        _ log: StoreLog
    ) throws(StoreError) -> (database: DatabaseQueue, isOnDisk: Bool) {
        do {
            guard let folder else {
                log.opened(.memory)
                return (try StoreFile.inMemory(), false)
            }
            do {
                let opened = try StoreFile.open(in: folder)
                if let aside = opened.movedAside {
                    log.movedAside(aside, because: opened.reason ?? "")
                }
                log.opened(.disk)
                return (opened.database, true)
            } catch {
                log.opened(.memoryInsteadOfDisk)
                log.failure(
                    "\(error)",
                    "The store cannot be kept on disk. Everything is lost with the process."
                )
                return (try StoreFile.inMemory(), false)
            }
        } catch {
            throw .readFailed("\(error)")
        }
    }
}
