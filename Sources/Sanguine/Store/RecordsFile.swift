import Foundation
import GRDB
import SanguineModel
import Synchronization

/// What the authority has of the user's records, as far as this device knows: the base of all that
/// is shown.
///
/// A cache, in a file of its own: what is damaged is dropped, and restored from the server; without
/// a usable disk it works in memory.
///
/// The records of one state of the base are a *space*. A feed from its start, as on a new device or
/// after a reset, is written to a space of its own, and becomes the base when it is complete: until
/// then nothing of before disappears, and nothing half is seen.
///
/// Two connections, so that a page of the feed is written while records are read: the writer's
/// transaction is ended by ``commit()``, which is quick, while the caller keeps readers away. The
/// write-ahead log is written and checkpointed by one connection alone: SQLite up to 3.51.2 can
/// damage a log that two write or checkpoint. What a loss of power takes comes again.
///
/// Invariant: a base and its position change in one transaction.
///
/// Mutable state: `connections`, by its mutex, never held over a call of the database. Its users
/// order their calls: one writer at a time, and no reader during ``commit()``.
final class RecordsFile: Sendable {
    static let name = "sanguine-records.sqlite"
    static let schemaVersion = 2

    /// Where the base lies.
    struct Place: Hashable, Sendable {
        /// The space of the records.
        var space: Int64
        /// The number of the feed that the base has reached.
        var position: Int64
        /// The epoch of that number; `nil` if the server did not say.
        var epoch: Epoch?
    }

    struct Connections {
        var writer: DatabaseQueue
        var reader: DatabaseQueue
    }

    let connections: Mutex<Connections?>
    let cache = RecordCache()
    let schema: RecordSchema
    private let folder: URL?
    private let isReader: Bool
    let report: @Sendable (String) -> Void

    /// Opens or creates the file.
    ///
    /// - Parameters:
    ///   - folder: Where it lies; `nil` keeps everything in memory.
    ///   - schema: Which members are indexed.
    ///   - isReader: Whether another process writes it.
    ///   - report: Is told of each failure.
    /// - Throws: what the database threw if not even memory can be had, or a reader finds no file.
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

    /// Whether what is written survives the process.
    var isOnDisk: Bool {
        connections.withLock { connections in
            connections.map { $0.reader !== $0.writer } ?? false
        }
    }

    /// Ends all access.
    func close() {
        let ended = connections.withLock { $0.take() }
        // The writer last: whoever closes last checkpoints.
        try? ended?.reader.close()
        try? ended?.writer.close()
    }

    /// Goes on with an empty file, or in memory: the present one is damaged.
    func begin(afresh reason: any Error) throws {
        close()
        cache.clear()
        if let folder, SQLiteFile.isDamage(reason) {
            Self.writing(folder, schema).remove()
            report("The records were damaged, and are restored from the server. (\(reason))")
        }
        try open()
    }

    /// Goes on in memory with what can be read: the disk is full, or fails.
    ///
    /// - Returns: Whether that is all; otherwise nothing is there, and the feed must be read anew.
    func leaveDisk(because reason: any Error) throws -> Bool {
        guard let present = connections.withLock({ $0 }), present.reader !== present.writer
        else { throw reason }
        // Without tables: a database that has some takes no copy with pages of another size.
        var memory = try SQLiteFile.inMemory(Self.label, nil)
        let isWhole = (try? present.reader.backup(to: memory)) != nil
        if !isWhole {
            cache.clear()
            memory = try Self.inMemory(schema)
        }
        connections.withLock { [memory] in $0 = Connections(writer: memory, reader: memory) }
        try? present.reader.close()
        try? present.writer.close()
        report("The records are kept in memory, because the disk cannot be written. (\(reason))")
        return isWhole
    }

    // MARK: - Opening

    private func open() throws {
        let opened = try openConnections()
        connections.withLock { $0 = opened }
    }

    private func openConnections() throws -> Connections {
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
            // It is a mirror: what an older version has is restored from the server.
            migrate: { database, version in
                guard version == 0 else {
                    throw SQLiteFile.Unusable.damaged("it has an older schema (\(version))")
                }
                try database.execute(sql: tables)
            },
            check: { try prepareIndexes($0, schema) }
        )
    }

    /// Fills the indexes anew if the app declares others than the file has.
    private static func prepareIndexes(_ database: Database, _ schema: RecordSchema) throws {
        let declared = schema.allCollections
            .map { "\($0.name):\($0.indexes.sorted().joined(separator: ","))" }
            .joined(separator: ";")
        let kept = try String.fetchOne(
            database,
            sql: "SELECT text FROM note WHERE name = 'indexes'"
        )
        guard kept != declared else { return }
        // In one step, also for whoever reads meanwhile.
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
