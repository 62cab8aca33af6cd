import GRDB
import SanguineModel

/// The tables of an ``OutboxFile``.
enum OutboxSchema {
    static let version = 7

    /// Returns the schema of a file whose sequence numbers are larger than the floor.
    static func schema(after floor: Int64) -> SQLiteFile.Schema {
        SQLiteFile.Schema(version: version) { database, version in
            // Operations of every earlier version are kept.
            if version < 3 { try number(database, from: version, after: floor) }
            if version < 5 {
                try database.execute(sql: "ALTER TABLE operation ADD COLUMN epoch TEXT")
            }
            if version < 6 { try database.execute(sql: absence) }
            if version == 4 || version == 5 { try database.execute(sql: departureAsAbsence) }
            try database.execute(sql: storedFiles)
        }
    }

    // The server's ids of uploaded files, so that an app that has stored a local id can name the
    // file later.
    private static let storedFiles = """
        CREATE TABLE IF NOT EXISTS stored_file (
            local TEXT NOT NULL UNIQUE,
            id TEXT NOT NULL
        ) STRICT;
        """

    private static func number(_ database: Database, from version: Int, after floor: Int64) throws {
        var last = floor
        if version < 2 {
            try database.execute(sql: tables)
        } else {
            let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'operation'"
            last = max(floor, try Int64.fetchOne(database, sql: sql) ?? 0)
        }
        try database.execute(sql: numbering)
        try database.execute(
            sql: "INSERT INTO removed (one, last) VALUES (1, ?)",
            arguments: [last]
        )
    }

    private static let tables = """
        CREATE TABLE operation (
            sequence INTEGER PRIMARY KEY,
            id TEXT NOT NULL,
            lane TEXT NOT NULL,
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            arguments BLOB NOT NULL,
            phase TEXT NOT NULL,
            head INTEGER,
            problem TEXT,
            created_at INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE owner (
            one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
            account TEXT NOT NULL
        ) STRICT;
        """

    // No number is assigned twice. `removed` covers the deleted ones; AUTOINCREMENT would cover
    // all, but write another page with each operation.
    private static let numbering = """
        CREATE TABLE removed (
            one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
            last INTEGER NOT NULL
        ) STRICT;
        CREATE TRIGGER is_removed AFTER DELETE ON operation BEGIN
            UPDATE removed SET last = old.sequence WHERE last < old.sequence;
        END;
        """

    // For a user who has left: how long waiting operations are kept, and the time that has been
    // counted so far, in milliseconds. See `RetentionTime`.
    private static let absence = """
        CREATE TABLE absence (
            one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
            kept_for INTEGER NOT NULL,
            counted INTEGER NOT NULL,
            doubted INTEGER NOT NULL,
            lasted INTEGER NOT NULL,
            seen_at INTEGER
        ) STRICT;
        """

    // Earlier versions stored the end of the time and not its start, which was after the last
    // operation. If the clock contradicts itself, the default applies.
    private static let departureAsAbsence = """
        INSERT INTO absence (one, kept_for, counted, doubted, lasted)
        SELECT 1, iif(rest > 0, rest, \(ClientLimits.waitingOperationsKept.wholeMilliseconds)),
            0, 0, 0
        FROM (
            SELECT kept_until - ifnull((SELECT max(created_at) FROM operation), kept_until) AS rest
            FROM departure
        );
        DROP TABLE departure;
        """
}
