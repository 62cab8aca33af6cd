import GRDB
import SanguineModel

/// What an outbox keeps of a user who has left, and for how long.
extension OutboxFile {
    /// Leaves what waits for the user's return, and nothing else: the user is gone.
    ///
    /// ``rewrite()`` removes the traces. What the authority has done is over: the records that
    /// would settle it are removed as well.
    ///
    /// - Parameters:
    ///   - time: For how long what waits is kept; if that is not positive, nothing is left.
    ///   - now: The present, from which the time counts.
    /// - Returns: Whether something waits.
    /// - Throws: What the database threw, or ``StoreError/closed``.
    func leave(for time: Duration, at now: Timestamp) throws -> Bool {
        try transaction { database in
            try Self.write(KeptTime(seenAt: now), for: time, in: database)
            return try Self.leave(nothing: time <= .zero, in: database)
        }
    }

    /// Counts the time for which what waits is kept, and removes everything when it is over.
    ///
    /// Finishes a ``leave(for:at:)`` that a death has cut off; one that did not begin counts from
    /// now, for ``ClientLimits/waitingOperationsKept``. What is removed leaves traces until
    /// ``rewrite()``.
    ///
    /// - Parameter now: What the device's clock says, which may be wrong, see ``KeptTime``.
    /// - Returns: Whether something waits.
    /// - Throws: What the database threw, or ``StoreError/closed``.
    func keep(at now: Timestamp) throws -> Bool {
        try transaction { database in
            let row = try GRDB.Row.fetchOne(
                database,
                sql: "SELECT kept_for, counted, doubted, lasted, seen_at FROM absence"
            )
            let time: Duration =
                row.map { .milliseconds($0["kept_for"] as Int64) }
                ?? ClientLimits.waitingOperationsKept
            var kept = row.map { KeptTime($0) } ?? KeptTime()
            kept.read(now)
            try Self.write(kept, for: time, in: database)
            return try Self.leave(nothing: kept.counted >= time, in: database)
        }
    }

    private static func write(
        _ kept: KeptTime,
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

    /// Removes everything, or what the authority has done; returns whether something waits.
    private static func leave(nothing: Bool, in database: Database) throws -> Bool {
        try database.execute(
            sql: "DELETE FROM operation WHERE ? OR phase = 'acknowledged'",
            arguments: [nothing]
        )
        return try Bool.fetchOne(database, sql: "SELECT EXISTS (SELECT 1 FROM operation)") ?? false
    }
}

extension KeptTime {
    fileprivate init(_ row: GRDB.Row) {
        self.init(
            counted: .milliseconds(row["counted"] as Int64),
            doubted: .milliseconds(row["doubted"] as Int64),
            lasted: .milliseconds(row["lasted"] as Int64),
            seenAt: (row["seen_at"] as Int64?).map { Timestamp(millisecondsSince1970: $0) }
        )
    }
}
