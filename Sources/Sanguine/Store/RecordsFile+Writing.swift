import Foundation
import GRDB
import SanguineModel
import Synchronization

// MARK: - Writing

extension RecordsFile {
    /// A range of the feed's numbers that is restored separately.
    struct Range: Hashable, Sendable {
        let number: Int
        /// The numbers at which it begins and ends.
        let low: Int64
        let high: Int64
        /// The last number that is restored.
        var reached: Int64

        var isDone: Bool { reached >= high }

        /// The number of the range that stands for catching up.
        static let catchingUp = 0
    }

    /// A feed that is restored from its start into a separate space.
    struct Restore: Hashable, Sendable {
        let space: Int64
        /// The epoch of its numbers; `nil` if the server did not name one.
        var epoch: Epoch?
        var ranges: [Range]

        /// The range for catching up, whose ends are numbers of the restore's beginning.
        var catchingUp: Range? { ranges.first { $0.number == Range.catchingUp } }

        /// The ``PullAnswer/horizon`` that the server sent at its beginning.
        var horizon: Int64 { catchingUp?.low ?? 0 }

        /// The last number of the feed at its beginning.
        var head: Int64 { catchingUp?.high ?? 0 }
    }

    /// Begins a transaction that writes a part of the feed; ``commit()`` or ``rollback()`` ends it.
    ///
    /// - Returns: The space of the base after the transaction.
    func begin(_ batch: SyncState.FeedBatch) throws -> Int64 {
        try writing { database in
            try database.beginTransaction(.immediate)
            // A base without a position is a part of a restore, which other records replace.
            let row = try Row.fetchOne(database, sql: "SELECT space FROM base WHERE position > 0")
            let space: Int64
            if let staged = batch.staged {
                space = staged
                try database.execute(
                    sql: "DELETE FROM restore WHERE space = ?",
                    arguments: [staged]
                )
            } else if let current = row?[0] as Int64?, !batch.isReset {
                space = current
            } else {
                space = try Self.newSpace(in: database)
            }
            try put(RecordPage(batch.changes), in: space, database)
            try database.execute(
                sql: "INSERT OR REPLACE INTO base (one, space, position) VALUES (1, ?, ?)",
                arguments: [space, batch.next]
            )
            if let epoch = batch.epoch { try Self.set(epoch, of: .base, in: database) }
            if batch.isComplete || batch.staged != nil {
                try Self.setPartial(!batch.isComplete, in: database)
            }
            return space
        }
    }

    /// Stores whether the base lacks records that the server has.
    private static func setPartial(_ isPartial: Bool, in database: Database) throws {
        try database.execute(
            sql: isPartial
                ? "INSERT OR REPLACE INTO note (name, text) VALUES (?, '')"
                : "DELETE FROM note WHERE name = ?",
            arguments: [RecordsFile.partialNote]
        )
    }

    /// Commits the transaction, which makes it visible to readers.
    ///
    /// The caller keeps readers away during that time.
    func commit() throws { try writing { try $0.commit() } }

    /// Rolls the transaction back, if there is one.
    func rollback() {
        // It is already over if SQLite has rolled it back.
        try? writing { if $0.isInsideTransaction { try $0.rollback() } }
    }

    /// Copies the log to the file.
    func checkpoint() {
        resetLogged()
        guard isOnDisk else { return }
        // If it fails, the log grows, and the next attempt copies it.
        _ = try? writing { try $0.checkpoint(.passive) }
    }

    /// Copies the log to the file if it is long, so that the pages of a restore, which change the
    /// same parts of the file, are copied together.
    func checkpointIfLong() {
        if isLogLong { checkpoint() }
    }

    /// Removes unused spaces.
    func sweep() throws { try write(Self.sweep) }

    private static func sweep(_ database: Database) throws {
        let unused = """
            SELECT number FROM space WHERE number NOT IN (SELECT space FROM base)
            AND number NOT IN (SELECT space FROM restore)
            """
        try database.execute(
            sql: """
                DELETE FROM record WHERE space IN (\(unused));
                DELETE FROM record_index WHERE space IN (\(unused));
                DELETE FROM space WHERE number IN (\(unused));
                """
        )
    }

    // MARK: - Restoring

    /// Returns the incomplete restore; `nil` if there is none.
    func restore() throws -> Restore? {
        try read { database in
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT r.space, number, low, high, reached FROM restore AS r
                    JOIN (SELECT max(number) AS newest FROM space) AS s
                    ON r.space = s.newest ORDER BY number
                    """
            )
            guard let space = rows.first?["space"] as Int64? else { return nil }
            return Restore(
                space: space,
                epoch: try Self.epoch(.restore, in: database),
                ranges: rows.map {
                    Range(
                        number: $0["number"],
                        low: $0["low"],
                        high: $0["high"],
                        reached: $0["reached"]
                    )
                }
            )
        }
    }

    /// Begins a restore, and drops an earlier one.
    ///
    /// - Parameters:
    ///   - ranges: The ranges, each with the last number that the page restores.
    ///   - epoch: The epoch of their numbers; `nil` if the server did not name one.
    ///   - page: The records that are already known; they are stored together with the ranges that
    ///     count them.
    /// - Returns: The restore.
    /// - Throws: The database's error; then nothing has begun.
    func beginRestore(
        _ ranges: [Range],
        of epoch: Epoch? = nil,
        with page: RecordPage
    ) throws -> Restore {
        let space = try write { database in
            try database.execute(sql: "DELETE FROM restore")
            try Self.set(epoch, of: .restore, in: database)
            let space = try Self.newSpace(in: database)
            for range in ranges { try Self.put(range, of: space, in: database) }
            try put(page, in: space, database)
            try Self.sweep(database)
            return space
        }
        checkpoint()
        return Restore(space: space, epoch: epoch, ranges: ranges)
    }

    /// The restore was dropped before one of its pages was written.
    struct RestoreDropped: Error {}

    /// Begins a transaction that writes a page of a range, together with the range's progress;
    /// ``commit()`` or ``rollback()`` ends it.
    ///
    /// - Throws: ``RestoreDropped``, or the database's error.
    func begin(_ page: RecordPage, _ range: Range, of space: Int64) throws {
        try writing { database in
            try database.beginTransaction(.immediate)
            try Self.move(range, of: space, in: database)
            try put(page, in: space, database)
        }
    }

    /// Makes the records of an unfinished restore the base, within the transaction of a page.
    ///
    /// The base has no position until the restore is complete.
    func show(_ space: Int64) throws {
        try writing { database in
            try database.execute(
                sql: "INSERT OR REPLACE INTO base (one, space, position) VALUES (1, ?, 0)",
                arguments: [space]
            )
        }
    }

    /// Writes a page of a range, together with the range's progress.
    ///
    /// - Throws: ``RestoreDropped``, or the database's error.
    func write(_ page: RecordPage, _ range: Range, of space: Int64) throws {
        do {
            try begin(page, range, of: space)
            try commit()
        } catch {
            rollback()
            throw error
        }
        checkpoint()
    }

    private static func move(_ range: Range, of space: Int64, in database: Database) throws {
        try database.execute(
            sql: """
                INSERT INTO restore (space, number, low, reached, high)
                SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM restore WHERE space = ?1)
                ON CONFLICT (space, number) DO UPDATE SET reached = excluded.reached
                """,
            arguments: [space, range.number, range.low, range.reached, range.high]
        )
        // Records of a space without a restore would never be removed.
        guard database.changesCount == 1 else { throw RestoreDropped() }
    }

    private static func put(_ range: Range, of space: Int64, in database: Database) throws {
        try database.execute(
            sql: """
                INSERT INTO restore (space, number, low, reached, high)
                VALUES (?, ?, ?, ?, ?)
                """,
            arguments: [space, range.number, range.low, range.reached, range.high]
        )
    }

    // MARK: - Machinery

    private static func set(
        _ epoch: Epoch?,
        of numbered: Numbered,
        in database: Database
    ) throws {
        guard let epoch else {
            return try database.execute(
                sql: "DELETE FROM note WHERE name = ?",
                arguments: [numbered.rawValue]
            )
        }
        try database.execute(
            sql: "INSERT OR REPLACE INTO note (name, text) VALUES (?, ?)",
            arguments: [numbered.rawValue, epoch.text]
        )
    }

    private static func newSpace(in database: Database) throws -> Int64 {
        try database.execute(sql: "INSERT INTO space DEFAULT VALUES")
        return database.lastInsertedRowID
    }

    private func put(_ page: RecordPage, in space: Int64, _ database: Database) throws {
        var bytes = 0
        for change in page.changes where change.key.collection != Switches.collection {
            guard let value = change.value else {
                try RecordRow.remove(change.key, in: space, database)
                continue
            }
            let row = RecordRow(space: space, key: change.key, seq: change.seq, value: value)
            let indexes = schema.collection(change.key.collection)?.indexes ?? []
            bytes += try row.put(in: database, indexes)
        }
        countLogged(bytes)
    }

    private func write<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try writer().write(body)
    }

    private func writing<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try writer().writeWithoutTransaction(body)
    }

    private func writer() throws -> DatabaseQueue { try openConnections.writer }
}

extension RecordsFile {
    /// Marks the base as one of another feed, so that the server sends its feed from the start; an
    /// unfinished restore is dropped.
    func leave(for epoch: Epoch) throws {
        try write { database in
            try Self.set(epoch, of: .base, in: database)
            try database.execute(sql: "DELETE FROM restore")
            try Self.sweep(database)
        }
    }

    /// Drops the restore and its records, even if they are the base.
    func abandonRestore() throws {
        try write { database in
            try database.execute(sql: "DELETE FROM restore; DELETE FROM base WHERE position = 0")
            try Self.sweep(database)
        }
    }
}
