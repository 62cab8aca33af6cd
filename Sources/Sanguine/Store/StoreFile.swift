import Foundation
import GRDB

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Opens the store's database: file, permissions, schema.
///
/// Decides what to do with a file that cannot be used.
///
/// A folder serves one client at a time, for each keeps session and balance in memory and stores
/// them whole: of two, the one that writes last overwrites the other's. It happens all the same (an
/// app and its extension, two commands in a terminal), and then the file at least must stay sound.
/// So the journal is a rollback journal, not a write-ahead log: SQLite up to 3.51.2 can damage a
/// write-ahead log that two connections write.
enum StoreFile {
    static let name = "sanguine-client.sqlite"
    static let schemaVersion = 3

    /// Why a file that is there was not used.
    enum Unusable: Error {
        case damaged(String)
        case newerSchema(Int)
    }

    /// An open database, and the file that had to make room for it.
    struct Opened {
        var database: DatabaseQueue
        var movedAside: URL?
        var reason: String?
    }

    /// Opens or creates the database in the folder; puts a file that cannot be used aside.
    static func open(in folder: URL) throws -> Opened {
        try makePrivateFolder(folder)
        let file = folder.appending(path: name)
        do {
            return Opened(database: try openDatabase(at: file))
        } catch {
            let (suffix, reason) = try verdict(on: error)
            let aside = try moveAside(file, suffix: suffix)
            return Opened(
                database: try openDatabase(at: file),
                movedAside: aside,
                reason: reason
            )
        }
    }

    /// A database without a file.
    static func inMemory() throws -> DatabaseQueue {
        let database = try DatabaseQueue(configuration: configuration())
        try prepareSchema(database)
        return database
    }

    /// Has SQLite overwrite what is deleted.
    ///
    /// What it moves within a page, to make room or to fill it, stays behind nevertheless: so what
    /// must be gone for good is gone only after ``rewrite(_:)``.
    static let wiping = "PRAGMA secure_delete = ON"

    /// Writes the file anew from what is in it: of what was deleted nothing is left, neither in the
    /// file nor in its log.
    ///
    /// Outside of a transaction, and by the one who checkpoints.
    static func rewrite(_ database: Database) throws {
        try database.execute(sql: "VACUUM")
        // Without a log it does nothing.
        _ = try database.checkpoint(.truncate)
    }

    /// Whether the file's write-ahead log may have something in it.
    static func hasLog(_ file: URL) -> Bool {
        let attributes = try? FileManager.default.attributesOfItem(atPath: file.path + "-wal")
        return (attributes?[.size] as? Int ?? 0) > 0
    }

    /// Whether the error says that the file is no sound database.
    static func isDamage(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError else { return false }
        return [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode)
    }

    /// Renames the file, and what SQLite keeps beside it, out of the way.
    static func moveAside(_ file: URL, suffix: String) throws -> URL {
        let manager = FileManager.default
        var aside = URL(filePath: "\(file.path).\(suffix)")
        var number = 2
        while manager.fileExists(atPath: aside.path) {
            aside = URL(filePath: "\(file.path).\(suffix)-\(number)")
            number += 1
        }
        try manager.moveItem(at: file, to: aside)
        for companion in ["-journal", "-wal", "-shm"] {
            try? manager.removeItem(atPath: file.path + companion)
        }
        return aside
    }

    /// Whether the file is one that had to make room for another.
    static func isMovedAside(_ file: URL) -> Bool {
        ["\(name).damaged", "\(name).schema-"].contains { file.lastPathComponent.hasPrefix($0) }
    }

    /// Removes the files that had to make room for others, as far as they can be removed.
    ///
    /// - Returns: Those that are still there.
    static func removeMovedAside(in folder: URL) -> [URL] {
        let manager = FileManager.default
        let names = (try? manager.contentsOfDirectory(atPath: folder.path)) ?? []
        return names.map { folder.appending(path: $0) }.filter { file in
            guard isMovedAside(file) else { return false }
            do {
                try manager.removeItem(at: file)
                return false
            } catch {
                return true
            }
        }
    }

    private static func verdict(on error: any Error) throws -> (suffix: String, reason: String) {
        switch error {
        case Unusable.newerSchema(let version):
            (
                "schema-\(version)",
                "it was written by a newer version of the app (schema \(version))"
            )
        case Unusable.damaged(let detail):
            ("damaged", detail)
        case let error where isDamage(error):
            ("damaged", "it is damaged (\(error))")
        default:
            throw error
        }
    }

    private static func openDatabase(at file: URL) throws -> DatabaseQueue {
        // Created here, so that it is nobody else's from the first moment; SQLite gives the same
        // mode to the journal.
        createPrivateFile(file.path)
        var options = configuration()
        options.prepareDatabase { database in
            try database.execute(sql: "PRAGMA journal_mode = TRUNCATE")
            try database.execute(sql: "PRAGMA synchronous = FULL")
            try database.execute(sql: wiping)
        }
        let database = try DatabaseQueue(path: file.path, configuration: options)
        try prepareSchema(database)
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600],
            ofItemAtPath: file.path
        )
        return database
    }

    private static func configuration() -> Configuration {
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)  // Seconds: another process may be writing.
        configuration.label = "sanguine.client.store"
        return configuration
    }

    /// Makes the folder, for nobody else to look into.
    static func makePrivateFolder(_ folder: URL) throws {
        let manager = FileManager.default
        try manager.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder.path)
    }

    private static func prepareSchema(_ database: DatabaseQueue) throws {
        try database.write { database in
            let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
            guard version <= schemaVersion else { throw Unusable.newerSchema(version) }
            guard version < schemaVersion else {
                // A first page can be sound while the tables are not.
                let tables = try Int.fetchOne(
                    database,
                    sql: """
                        SELECT count(*) FROM sqlite_schema
                        WHERE type = 'table' AND name IN ('state', 'entry')
                        """
                )
                guard tables == 2 else { throw Unusable.damaged("its tables are missing") }
                return
            }
            if version == 0 { try database.execute(sql: stateTable) }
            // Entries can be fetched again: those of an older schema are dropped with their table.
            try database.execute(
                sql: """
                    DROP TABLE IF EXISTS entry;
                    \(entryTable)
                    PRAGMA user_version = \(schemaVersion);
                    """
            )
        }
    }

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
            audience TEXT NOT NULL,
            owner TEXT NOT NULL,
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
        CREATE INDEX entry_by_owner ON entry (audience, owner);
        CREATE INDEX entry_by_end ON entry (kept_until);
        """
}

// Outside of the type, whose own `open` would hide the system's.
func createPrivateFile(_ path: String) {
    let descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
    if descriptor >= 0 { close(descriptor) }
}
