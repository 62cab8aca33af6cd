import Foundation
import GRDB
import SanguineModel
import Synchronization

/// The authority's state of the user's records, as far as this device knows it; the base of
/// everything that is shown.
///
/// It is a cache, in its own file: a damaged one is dropped and restored from the server. Without a
/// usable disk, it works in memory.
///
/// The records of one state of the base are a *space*. A feed that is read from its start, as on a
/// new device or after a reset, is written to a separate space, which becomes the base when it is
/// complete. Until then, readers see the old base; on a device without one, they see the records
/// that are already there, as a base without a position.
///
/// There are two connections, so that records can be read while a page of the feed is written:
/// ``commit()`` ends the writer's transaction, which is quick, while the caller keeps readers away.
/// Only one connection writes and checkpoints the log: SQLite up to 3.51.2 can damage a log that
/// two connections write or checkpoint. Writes that a power failure loses are fetched again.
///
/// Invariant: a base and its position change in one transaction.
///
/// Mutable state: `connections` and `loggedBytes`, each protected by its mutex, which is never held
/// during a call to the database. The callers order their calls: one writer at a time, and no
/// reader during ``commit()``.
final class RecordsFile: Sendable {
    static let name = "sanguine-records.sqlite"
    static let schemaVersion = 2

    /// The space and position of the base.
    struct BasePosition: Hashable, Sendable {
        /// The space of the records.
        var space: Int64
        /// The feed number that the base has reached.
        var position: Int64
        /// The epoch of that number; `nil` if the server did not name one.
        var epoch: Epoch?
        /// Whether the base is a complete state of the server, and not a part of a restore.
        var isWhole = true
    }

    struct Connections {
        var writer: DatabaseQueue
        var reader: DatabaseQueue
    }

    private let connections: Mutex<Connections?>
    /// The size of the values written since the last checkpoint, in bytes.
    private let loggedBytes = Mutex(0)
    let cache = RecordCache()
    let schema: RecordSchema
    private let folder: URL?
    private let isReader: Bool
    let report: @Sendable (String) -> Void

    /// Opens or creates the file.
    ///
    /// - Parameters:
    ///   - folder: The folder of the file; `nil` keeps everything in memory.
    ///   - schema: The schema that declares the indexed members.
    ///   - isReader: Whether another process writes the file.
    ///   - report: Called at each failure.
    /// - Throws: The database's error if not even a database in memory can be made, or if a reader
    ///   finds no file.
    init(
        folder: URL?,
        schema: RecordSchema,
        isReader: Bool = false,
        report: @escaping @Sendable (String) -> Void = { _ in }
    ) throws {
        self.folder = folder
        self.schema = schema
        self.isReader = isReader
        self.report = report
        connections = Mutex(nil)
        try open()
    }

    /// The open connections.
    ///
    /// - Throws: ``StoreError/closed``.
    var openConnections: Connections {
        get throws {
            guard let current = connections.withLock({ $0 }) else { throw StoreError.closed }
            return current
        }
    }

    /// Counts the values that were written.
    func countLogged(_ bytes: Int) { loggedBytes.withLock { $0 += bytes } }

    /// Counts from zero: the log is copied to the file now.
    func resetLogged() { loggedBytes.withLock { $0 = 0 } }

    /// Whether the log should be copied to the file.
    var isLogLong: Bool { loggedBytes.withLock { $0 >= RecordLimits.logBytes } }

    /// Whether writes survive the process.
    var isOnDisk: Bool {
        connections.withLock { connections in
            connections.map { $0.reader !== $0.writer } ?? false
        }
    }

    /// Ends all access.
    func close() {
        let ended = connections.withLock { $0.take() }
        // The writer last, because the last connection to close checkpoints.
        try? ended?.reader.close()
        try? ended?.writer.close()
    }

    /// Replaces a damaged file with an empty one, or continues in memory.
    func begin(afresh reason: any Error) throws {
        close()
        cache.clear()
        if let folder, SQLiteFile.isDamage(reason) {
            Self.writing(folder, schema).remove()
            report("The records were damaged, and are restored from the server. (\(reason))")
        }
        try open()
    }

    /// Continues in memory with the records that can be read, because the disk is full or fails.
    ///
    /// - Returns: Whether all records were copied; otherwise there are none, and the feed must be
    ///   read from its start.
    func leaveDisk(because reason: any Error) throws -> Bool {
        guard let current = connections.withLock({ $0 }), current.reader !== current.writer
        else { throw reason }
        // Without tables: SQLite cannot copy pages of another size into a database that has some.
        var memory = try SQLiteFile.inMemory(Self.label, nil)
        let isWhole = (try? current.reader.backup(to: memory)) != nil
        if !isWhole {
            cache.clear()
            memory = try Self.inMemory(schema)
        }
        connections.withLock { [memory] in $0 = Connections(writer: memory, reader: memory) }
        try? current.reader.close()
        try? current.writer.close()
        report("The records are kept in memory, because the disk cannot be written. (\(reason))")
        return isWhole
    }

    // MARK: - Opening

    private func open() throws {
        let opened = try newConnections()
        connections.withLock { $0 = opened }
    }

    private func newConnections() throws -> Connections {
        guard let folder else {
            let memory = try Self.inMemory(schema)
            return Connections(writer: memory, reader: memory)
        }
        let reading = SQLiteFile(
            folder.appending(path: Self.name),
            "\(Self.label).reader",
            .readOnly,
            nil
        )
        if isReader {
            let reader = try reading.open()
            return Connections(writer: reader, reader: reader)
        }
        let writing = Self.writing(folder, schema)
        func open() throws -> Connections {
            let writer = try writing.open()
            return Connections(writer: writer, reader: try reading.open())
        }
        do {
            return try open()
        } catch  where SQLiteFile.isDamage(error) || error is SQLiteFile.Unusable {
            writing.remove()
            report("The records could not be read, and are restored from the server. (\(error))")
            if let opened = try? open() { return opened }
        } catch {
            report("The records are kept in memory, because the disk cannot be used. (\(error))")
        }
        let memory = try Self.inMemory(schema)
        return Connections(writer: memory, reader: memory)
    }

    private static let label = "sanguine.records"

    private static func writing(_ folder: URL, _ schema: RecordSchema) -> SQLiteFile {
        SQLiteFile(
            folder.appending(path: name),
            "\(label).writer",
            .log,
            RecordsSchema.schema(schema)
        )
    }

    private static func inMemory(_ schema: RecordSchema) throws -> DatabaseQueue {
        try SQLiteFile.inMemory(label, RecordsSchema.schema(schema))
    }
}

/// The tables of the records' file.
enum RecordsSchema {
    static func schema(_ schema: RecordSchema) -> SQLiteFile.Schema {
        SQLiteFile.Schema(
            version: RecordsFile.schemaVersion,
            // The file is a mirror, so records of an older version are restored from the server.
            migrate: { database, version in
                guard version == 0 else {
                    throw SQLiteFile.Unusable.damaged("it has an older schema (\(version))")
                }
                try database.execute(sql: tables)
            },
            check: { try prepareIndexes($0, schema) }
        )
    }

    /// Refills the indexes if the app declares other ones than the file has.
    private static func prepareIndexes(_ database: Database, _ schema: RecordSchema) throws {
        let declared = schema.allCollections
            .map { "\($0.name):\($0.indexes.sorted().joined(separator: ","))" }
            .joined(separator: ";")
        let kept = try String.fetchOne(
            database,
            sql: "SELECT text FROM note WHERE name = 'indexes'"
        )
        guard kept != declared else { return }
        // In one step, even for concurrent readers.
        try database.inSavepoint {
            try fillIndexes(database, schema, declared)
            return .commit
        }
    }

    private static func fillIndexes(
        _ database: Database,
        _ schema: RecordSchema,
        _ declared: String
    ) throws {
        try database.execute(sql: "DELETE FROM record_index")
        for collection in schema.allCollections where !collection.indexes.isEmpty {
            let rows = try Row.fetchCursor(
                database,
                sql: "SELECT space, id, value FROM record WHERE collection = ?",
                arguments: [collection.name]
            )
            while let row = try rows.next() {
                guard let id = RecordID(row["id"] as String) else { continue }
                try RecordRow(
                    space: row["space"],
                    key: RecordKey(collection.name, id),
                    seq: 0,
                    value: RecordValue(json: row["value"])
                ).index(collection.indexes, in: database)
            }
        }
        try database.execute(
            sql: "INSERT OR REPLACE INTO note (name, text) VALUES ('indexes', ?)",
            arguments: [declared]
        )
    }

    private static let tables = """
        CREATE TABLE note (name TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) STRICT;
        CREATE TABLE base (
            one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
            space INTEGER NOT NULL,
            position INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE space (number INTEGER PRIMARY KEY AUTOINCREMENT) STRICT;
        CREATE TABLE record (
            space INTEGER NOT NULL,
            collection TEXT NOT NULL,
            id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            value BLOB NOT NULL,
            UNIQUE (space, collection, id)
        ) STRICT;
        CREATE TABLE record_index (
            space INTEGER NOT NULL,
            collection TEXT NOT NULL,
            field TEXT NOT NULL,
            value TEXT NOT NULL,
            id TEXT NOT NULL,
            PRIMARY KEY (space, collection, field, value, id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX record_index_by_record ON record_index (space, collection, id);
        CREATE TABLE restore (
            space INTEGER NOT NULL,
            number INTEGER NOT NULL,
            low INTEGER NOT NULL,
            reached INTEGER NOT NULL,
            high INTEGER NOT NULL,
            PRIMARY KEY (space, number)
        ) STRICT;
        """
}
