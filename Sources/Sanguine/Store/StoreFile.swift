import Foundation
import GRDB

/// The store's database: its file name and tables.
///
/// A folder serves one client at a time, because each keeps session and balance in memory and
/// stores them as a whole: of two clients, the last to write overwrites the other's. It happens
/// anyway (an app and its extension, two commands in a terminal), and the file must then stay
/// intact: see ``SQLiteFile/Journal/rollback``.
enum StoreFile {
    static let name = "sanguine-client.sqlite"
    static let schemaVersion = 4

    /// An open database, and the file that was moved aside for it.
    struct Opened {
        var database: DatabaseQueue
        var movedAside: URL?
        var reason: String?
    }

    /// Opens or creates the database in the folder; moves an unusable file aside.
    static func open(in folder: URL) throws -> Opened {
        let file = file(in: folder)
        do {
            return Opened(database: try file.open())
        } catch {
            let (suffix, reason) = try verdict(on: error)
            let aside = try file.moveAside(suffix)
            return Opened(database: try file.open(), movedAside: aside, reason: reason)
        }
    }

    static func file(in folder: URL) -> SQLiteFile {
        SQLiteFile(folder.appending(path: name), label, .rollback, schema)
    }

    /// Creates a database in memory.
    static func inMemory() throws -> DatabaseQueue { try SQLiteFile.inMemory(label, schema) }

    private static func verdict(on error: any Error) throws -> (suffix: String, reason: String) {
        switch error {
        case SQLiteFile.Unusable.newerSchema(let version):
            (
                "schema-\(version)",
                "it was written by a newer version of the app (schema \(version))"
            )
        case SQLiteFile.Unusable.damaged(let detail):
            ("damaged", detail)
        case let error where SQLiteFile.isDamage(error):
            ("damaged", "it is damaged (\(error))")
        default:
            throw error
        }
    }

    private static let label = "sanguine.client.store"

    private static let schema = SQLiteFile.Schema(
        version: schemaVersion,
        migrate: { database, version in
            if version == 0 { try database.execute(sql: stateTable) }
            // Entries can be fetched again, so those of an older schema are dropped with their
            // table.
            try database.execute(sql: "DROP TABLE IF EXISTS entry; " + entryTable)
        },
        check: { database in
            // The first page can be intact while the tables are missing.
            let tables = try Int.fetchOne(
                database,
                sql: """
                    SELECT count(*) FROM sqlite_schema
                    WHERE type = 'table' AND name IN ('state', 'entry')
                    """
            )
            guard tables == 2 else { throw SQLiteFile.Unusable.damaged("its tables are missing") }
        }
    )

    private static let stateTable = """
        CREATE TABLE state (
            name TEXT NOT NULL PRIMARY KEY,
            data BLOB NOT NULL,
            checksum INTEGER NOT NULL
        ) STRICT;
        """

    private static let entryTable = """
        CREATE TABLE entry (
            key TEXT NOT NULL PRIMARY KEY,
            as_of INTEGER NOT NULL,
            day TEXT,
            day_end INTEGER,
            kept_until INTEGER NOT NULL,
            version INTEGER NOT NULL,
            labels TEXT NOT NULL,
            stale INTEGER NOT NULL,
            contained TEXT NOT NULL,
            cost INTEGER NOT NULL,
            checksum INTEGER NOT NULL,
            value BLOB NOT NULL
        ) STRICT;
        CREATE INDEX entry_by_age ON entry (as_of, cost);
        CREATE INDEX entry_by_end ON entry (kept_until);
        """
}
