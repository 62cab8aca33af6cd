import GRDB
import SanguineModel

/// Keeps the outbox of a user who has left, for a limited time.
extension OutboxFile {
    /// Keeps the waiting operations for the user's return, and removes everything else.
    ///
    /// Acknowledged operations are removed too: the authority has applied them, and the records
    /// that would settle them are removed as well. ``rewrite()`` erases the traces.
    ///
    /// - Parameters:
    ///   - time: The time for which waiting operations are kept; if it is zero or less, nothing is
    ///     kept.
    ///   - now: The current time, from which `time` counts.
    /// - Returns: Whether any operations are waiting.
    /// - Throws: The database's error, or ``StoreError/closed``.
    func retain(for time: Duration, at now: Timestamp) throws -> Bool {
        try transaction { database in
            try Self.write(RetentionTime(seenAt: now), for: time, in: database)
            return try Self.leave(nothing: time <= .zero, in: database)
        }
    }

    /// Counts the time for which operations have been kept, and removes all of them when it is
    /// over.
    ///
    /// Completes a ``retain(for:at:)`` that the process's end interrupted. If it had not begun,
    /// operations are kept for ``ClientLimits/waitingOperationsKept``, counted from this call.
    /// Removed operations leave traces until ``rewrite()``.
    ///
    /// - Parameter now: The time according to the device's clock, which may be wrong; see
    ///   ``RetentionTime``.
    /// - Returns: Whether any operations are waiting.
    /// - Throws: The database's error, or ``StoreError/closed``.
    func keep(at now: Timestamp) throws -> Bool {
        try transaction { database in
            let row = try GRDB.Row.fetchOne(
                database,
                sql: "SELECT kept_for, counted, doubted, lasted, seen_at FROM absence"
            )
            let time: Duration =
                row.map { .milliseconds($0["kept_for"] as Int64) }
                ?? ClientLimits.waitingOperationsKept
            var kept = row.map { RetentionTime($0) } ?? RetentionTime()
            kept.read(now)
            try Self.write(kept, for: time, in: database)
            return try Self.leave(nothing: kept.counted >= time, in: database)
        }
    }

    private static func write(
        _ kept: RetentionTime,
        for time: Duration,
        in database: Database
    ) throws {
        try database.execute(
            sql: """
                INSERT OR REPLACE INTO absence
                (one, kept_for, counted, doubted, lasted, seen_at) VALUES (1, ?, ?, ?, ?, ?)
                """,
            arguments: [
                time.wholeMilliseconds, kept.counted.wholeMilliseconds,
                kept.doubted.wholeMilliseconds, kept.lasted.wholeMilliseconds,
                kept.seenAt?.millisecondsSince1970,
            ]
        )
    }

    /// Removes all operations, or the acknowledged ones; returns whether any are left.
    private static func leave(nothing: Bool, in database: Database) throws -> Bool {
        try database.execute(
            sql: "DELETE FROM operation WHERE ? OR phase = 'acknowledged'",
            arguments: [nothing]
        )
        return try Bool.fetchOne(database, sql: "SELECT EXISTS (SELECT 1 FROM operation)") ?? false
    }
}

extension RetentionTime {
    fileprivate init(_ row: GRDB.Row) {
        self.init(
            counted: .milliseconds(row["counted"] as Int64),
            doubted: .milliseconds(row["doubted"] as Int64),
            lasted: .milliseconds(row["lasted"] as Int64),
            seenAt: (row["seen_at"] as Int64?).map { Timestamp(millisecondsSince1970: $0) }
        )
    }
}
