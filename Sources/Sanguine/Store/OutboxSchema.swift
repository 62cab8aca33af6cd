import GRDB

/// The tables of an ``OutboxFile``.
enum OutboxSchema {
    static let version = 4

    /// The schema of a file whose sequence numbers are larger than the floor.
    static func schema(after floor: Int64) -> SQLiteFile.Schema {
        SQLiteFile.Schema(version: version) { database, version in
            // Operations are kept whatever has written them.
            if version < 3 { try number(database, from: version, after: floor) }
            try database.execute(sql: departure)
        }
    }

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

    // No number is given again. `removed` knows those that are gone, and AUTOINCREMENT would write
    // another page with each operation to know all.
    private static let numbering = """
        CREATE TABLE removed (
            one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
            last INTEGER NOT NULL
        ) STRICT;
        CREATE TRIGGER is_removed AFTER DELETE ON operation BEGIN
            UPDATE removed SET last = old.sequence WHERE last < old.sequence;
        END;
        """

    // Of a user who has left: until when what waits is kept.
    private static let departure = """
        CREATE TABLE departure (
            one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
            kept_until INTEGER NOT NULL
        ) STRICT;
        """
}
