import Foundation
import GRDB
import Logging
import SanguineModel
import Synchronization

/// What the client keeps over restarts: named states, and entries of the cache.
///
/// Every call is synchronous and waits for the one before it: a read for a write that is under way
/// too. A write is durable when it returns. A damaged row is dropped and counted, a damaged file is
/// put aside and replaced by a fresh one, and without a usable disk the store works in memory. All
/// of it is said in ``report`` and in the log.
///
/// Invariants:
///
/// 1. A user's entry, or state, of an epoch before the last ``removeUserEntries(before:)`` or
///    ``forgetUser(before:)`` is never written, if the writer names its epoch.
/// 2. An entry of the audience `user` is read by its owner alone.
/// 3. Entries take at most `entryLimitBytes`, counted by ``StoredEntry/cost``; the oldest go first.
/// 4. After ``forgetUser(before:)`` nothing of the user is read, also if the database failed: not
///    in this process, and not at the next launch.
///
/// Mutable state: `guarded`, by its mutex, which is never held over a call of the database; the
/// database, which serialises its own accesses; and the mark of a sign-out, by `forgetting`, which
/// is held over the removal that the mark stands for.
///
/// A class with locks and not an actor, because `cached` must answer at once, and because GRDB's
/// async calls give up half-way when their task is cancelled.
final class ClientStore: Sendable {
    private struct Guarded {
        var database: DatabaseQueue?
        var report: StoreReport
        /// The first epoch whose users' entries may still be written.
        var firstEpoch: UInt64 = 0
        /// What all entries cost, in bytes; at least what is true, never less.
        ///
        /// `nil` until it is needed: counting them would make the first reader wait.
        var entryBytes: Int64?
        /// Whether a user has signed out whose removal has not succeeded yet.
        var isForgetting = false
    }

    private let guarded: Mutex<Guarded>
    private let forgetting = Mutex(())
    let folder: URL?
    private let entryLimitBytes: Int64
    private let logger: Logger
    private let failed: @Sendable () -> Void

    /// Opens or creates the store; a disk that fails is no error, see ``report``.
    ///
    /// - Parameters:
    ///   - folder: Where the file lies; `nil` keeps everything in memory.
    ///   - entryLimitBytes: How much the cache's entries may take. Default: 64 MB.
    ///   - logger: Where failures are said.
    ///   - failed: Is told of each failure, outside of the lock. Default: nobody is.
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    init(
        folder: URL?,
        entryLimitBytes: Int64 = ClientLimits.diskBytes,
        logger: Logger,
        failed: @escaping @Sendable () -> Void = {}
    ) throws(StoreError) {
        self.failed = failed
        self.folder = folder
        self.entryLimitBytes = entryLimitBytes
        self.logger = logger
        let opened = try Self.open(folder, logger: logger)
        guarded = Mutex(opened)
        if opened.report.failure != nil { failed() }
    }

    /// How the store is doing.
    var report: StoreReport { guarded.withLock { $0.report } }

    /// Says in the report and the log that a file beside the store had to make room for a new one.
    func report(movedAside file: URL, as failure: String) {
        guarded.withLock { guarded in
            guarded.report.movedAside.append(file)
            guarded.report.failure = failure
        }
        logger.error(
            "A file could not be used. It was put aside, and a fresh one begun.",
            metadata: ["file": "\(file.path)", "reason": "\(failure)"]
        )
    }

    /// Says in the report and the log that a file beside the store failed.
    func report(failure: String) {
        guarded.withLock { $0.report.failure = failure }
        logger.error("A file beside the store failed.", metadata: ["reason": "\(failure)"])
        failed()
    }

    /// Ends all access; later calls throw ``StoreError/closed``.
    func close() {
        try? guarded.withLock { $0.database.take() }?.close()
    }

    // MARK: - States

    /// The state of that name, or `nil` if it was never set or is damaged.
    func state(_ name: String) throws(StoreError) -> Data? {
        guard !guarded.withLock({ $0.isForgetting }) else { return nil }
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
            dropped("state '\(name)'")
            try setState(name, nil)
            return nil
        }
        return data
    }

    /// Writes or, with `nil`, removes the state of that name.
    ///
    /// Durable when it returns. A state of an ended epoch is left out, if its epoch is given.
    func setState(_ name: String, _ data: Data?, epoch: UInt64? = nil) throws(StoreError) {
        try finishForgetting()
        try perform(.writing) { database in
            // Inside of the database's own queue: a removal comes wholly before or wholly after.
            if let epoch, epoch < self.guarded.withLock({ $0.firstEpoch }) { return }
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

    /// The entry of that key as far as the owner may see it, or `nil`.
    ///
    /// One of another version is dropped and counted.
    func entry(
        _ key: String,
        owner: String,
        version: Int = 1
    ) throws(StoreError) -> StoredEntry? {
        let row = try perform(.reading) { database in
            try Row.fetchOne(
                database,
                sql: """
                    SELECT audience, owner, as_of, day, day_end, kept_until, version, labels, stale,
                        contained, value, checksum
                    FROM entry WHERE \(Self.isVisible)
                    """,
                arguments: [key, owner]
            )
        }
        guard let row else { return nil }
        guard let value = Data.fromDatabaseValue(row["value"]),
            let audience = String.fromDatabaseValue(row["audience"])
                .flatMap(Policy.Audience.init(rawValue:)),
            let rowOwner = String.fromDatabaseValue(row["owner"]),
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
        guard audience != .user || !guarded.withLock({ $0.isForgetting }) else { return nil }
        return StoredEntry(
            key: key,
            audience: audience,
            owner: rowOwner,
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

    private static let isVisible = "key = ? AND (audience <> 'user' OR owner = ?)"

    /// Makes changes in their order, in one transaction.
    ///
    /// Users' entries of an ended epoch are left out.
    func applyEntries(_ changes: [EntryChange]) throws(StoreError) {
        try finishForgetting()
        let isCounted = guarded.withLock { $0.entryBytes != nil }
        let (counted, written) = try perform(.writing) { database in
            let counted =
                isCounted
                ? nil : try Int64.fetchOne(database, sql: "SELECT total(cost) FROM entry") ?? 0
            // Inside of the database's own queue: a removal comes wholly before or wholly after.
            let firstEpoch = self.guarded.withLock { $0.firstEpoch }
            var written: Int64 = 0
            for change in changes {
                switch change {
                case .put(let entry, let epoch):
                    guard entry.audience != .user || epoch >= firstEpoch else { continue }
                    try Self.insert(entry, into: database)
                    written += Int64(entry.cost)
                case .markStale(let scope):
                    try scope.markStale(in: database)
                case .remove(let key, let owner):
                    try database.execute(
                        sql: "DELETE FROM entry WHERE \(Self.isVisible)",
                        arguments: [key, owner]
                    )
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

    /// Removes every entry of the audience `user`, and refuses those of earlier epochs from now on.
    func removeUserEntries(before epoch: UInt64) throws(StoreError) {
        guarded.withLock { $0.firstEpoch = max($0.firstEpoch, epoch) }
        try perform(.writing) { database in
            try database.execute(sql: "DELETE FROM entry WHERE audience = 'user'")
        }
    }

    /// Removes the users' entries that belong to anybody else: what a kill during sign-out left.
    func removeUserEntries(notOwnedBy owner: String) throws(StoreError) {
        let strangers = try perform(.reading) { database in
            try Bool.fetchOne(
                database,
                sql: "SELECT EXISTS (SELECT 1 FROM entry WHERE audience = 'user' AND owner <> ?)",
                arguments: [owner]
            )
        }
        guard strangers == true else { return }
        try perform(.writing) { database in
            try database.execute(
                sql: "DELETE FROM entry WHERE audience = 'user' AND owner <> ?",
                arguments: [owner]
            )
        }
    }

    /// Counts an entry that could not be decoded, and removes it.
    ///
    /// A row that has taken its place meanwhile stays: it may be another owner's.
    func dropEntry(_ entry: StoredEntry) {
        drop(entry.key, RowIdentity(entry))
    }

    private func drop(_ key: String, _ row: RowIdentity) {
        dropped("entry '\(key)'")
        try? perform(.writing) { database in
            try database.execute(
                sql: """
                    DELETE FROM entry
                    WHERE key = ? AND owner IS ? AND as_of IS ? AND checksum IS ?
                    """,
                arguments: [key, row.owner, row.asOf, row.checksum]
            )
        }
    }

    private static func insert(_ entry: StoredEntry, into database: Database) throws {
        try database.execute(
            sql: """
                INSERT OR REPLACE INTO entry
                    (key, audience, owner, as_of, day, day_end, kept_until, version, labels, stale,
                    contained, cost, checksum, value)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                entry.key, entry.audience.rawValue, entry.owner,
                entry.asOf.millisecondsSince1970, entry.day?.day.description,
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

// MARK: - Signing out

extension ClientStore {
    /// Forgets the user: all states, and every entry of the audience `user`.
    ///
    /// Durable when it returns. A mark beside the database comes first: after a failure or a kill
    /// the next write, or the next launch, begins with the removal, and nothing is read before it
    /// has succeeded.
    func forgetUser(before epoch: UInt64) throws(StoreError) {
        forgetting.withLock { _ in
            guarded.withLock { guarded in
                guarded.firstEpoch = max(guarded.firstEpoch, epoch)
                guarded.isForgetting = true
            }
            guard let folder else { return }
            note("A sign-out could not be marked on disk.") {
                try SignOutMark(folder: folder).set()
            }
        }
        try finishForgetting()
    }

    private func finishForgetting() throws(StoreError) {
        guard guarded.withLock({ $0.isForgetting }) else { return }
        try forgetting.withLock { _ throws(StoreError) in
            guard guarded.withLock({ $0.isForgetting }) else { return }
            try perform(.writing) { try Self.forgetUser(in: $0) }
            let place = guarded.withLock { guarded in
                guarded.isForgetting = false
                return guarded.report.place
            }
            wipe()
            // Without the disk, what lies there is still to be removed: at the next launch.
            guard let folder, place == .disk else { return }
            note("The mark of a sign-out could not be removed.") {
                try SignOutMark(folder: folder).clear()
            }
        }
    }

    /// Leaves no byte of what was deleted, nor of the files that were put aside: they are the
    /// user's, too.
    private func wipe() {
        guard let database = guarded.withLock({ $0.database }) else { return }
        note("What a signed-out user has left could not be overwritten.") {
            try database.writeWithoutTransaction(StoreFile.rewrite)
        }
        guard let folder else { return }
        let left = StoreFile.removeMovedAside(in: folder)
        guarded.withLock { guarded in
            guarded.report.movedAside.removeAll { file in
                StoreFile.isMovedAside(file) && !left.contains { $0.path == file.path }
            }
        }
    }

    private static func forgetUser(in database: Database) throws {
        try database.execute(sql: "DELETE FROM state; DELETE FROM entry WHERE audience = 'user'")
    }

    private func note(_ message: Logger.Message, _ body: () throws -> Void) {
        do {
            try body()
        } catch {
            guarded.withLock { $0.report.failure = "\(message) (\(error))" }
            logger.error(message, metadata: ["reason": "\(error)"])
        }
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
            } catch  where StoreFile.isDamage(error) && !isSecondTry && replace(database, error) {
                isSecondTry = true
            } catch {
                guarded.withLock { $0.report.failure = "\(error)" }
                logger.error("The store failed.", metadata: ["reason": "\(error)"])
                failed()
                throw access == .reading ? .readFailed("\(error)") : .writeFailed("\(error)")
            }
        }
    }

    /// Puts a file aside that turned out to be damaged while it was in use.
    private func replace(_ damaged: DatabaseQueue, _ error: any Error) -> Bool {
        guard let folder else { return false }
        // Under the lock, so that of two threads that find the damage one repairs it. Nothing in
        // here comes back to this object.
        return guarded.withLock { guarded in
            guard guarded.database === damaged else { return guarded.database != nil }
            try? damaged.close()
            let file = folder.appending(path: StoreFile.name)
            guard let aside = try? StoreFile.moveAside(file, suffix: "damaged"),
                let fresh = try? StoreFile.open(in: folder)
            else { return false }
            guarded.database = fresh.database
            guarded.entryBytes = nil
            guarded.report.movedAside.append(aside)
            guarded.report.failure = "\(error)"
            logger.error(
                "The store was damaged. It was put aside, and a fresh one begun.",
                metadata: ["file": "\(aside.path)", "reason": "\(error)"]
            )
            return true
        }
    }

    private func dropped(_ what: String) {
        guarded.withLock { $0.report.droppedRows += 1 }
        logger.warning("A row of the store is damaged and was dropped: \(what).")
    }

    private static func open(_ folder: URL?, logger: Logger) throws(StoreError) -> Guarded {
        do {
            guard let folder else {
                return Guarded(
                    database: try StoreFile.inMemory(),
                    report: StoreReport(place: .memory)
                )
            }
            do {
                let opened = try StoreFile.open(in: folder)
                let mark = SignOutMark(folder: folder)
                if mark.isSet {
                    try opened.database.write { try forgetUser(in: $0) }
                    // It needs room on the disk; a store that is not rewritten is one all the same.
                    try? opened.database.writeWithoutTransaction(StoreFile.rewrite)
                    _ = StoreFile.removeMovedAside(in: folder)
                    try mark.clear()
                }
                var report = StoreReport(place: .disk, failure: opened.reason)
                if let aside = opened.movedAside {
                    report.movedAside = [aside]
                    logger.error(
                        "The store could not be used. It was put aside, and a fresh one begun.",
                        metadata: ["file": "\(aside.path)", "reason": "\(opened.reason ?? "")"]
                    )
                }
                return Guarded(database: opened.database, report: report)
            } catch {
                logger.error(
                    "The store cannot be kept on disk. Everything is lost with the process.",
                    metadata: ["folder": "\(folder.path)", "reason": "\(error)"]
                )
                return Guarded(
                    database: try StoreFile.inMemory(),
                    report: StoreReport(place: .memoryInsteadOfDisk, failure: "\(error)")
                )
            }
        } catch {
            throw .readFailed("\(error)")
        }
    }
}
