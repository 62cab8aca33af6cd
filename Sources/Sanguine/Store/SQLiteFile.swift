import Foundation
import GRDB

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A database file of the client: opens, migrates, wipes it and moves it aside.
///
/// Every file has ``wiping`` set, is accessible only to its owner (mode 0600 in a folder of mode
/// 0700), and stores the version of its schema in `user_version`.
struct SQLiteFile: Sendable {
    /// The way in which changes are written to disk.
    enum Journal: Sendable {
        /// A rollback journal, flushed at each commit: for a file that two processes may write.
        case rollback
        /// A write-ahead log that is not flushed at each commit and that only its owner
        /// checkpoints: SQLite up to 3.51.2 can damage a log that two connections write or
        /// checkpoint.
        case log
        /// Read-only, next to a connection that writes.
        case readOnly
    }

    /// The schema that a file must have.
    struct Schema: Sendable {
        var version: Int
        /// Migrates tables of an older version; version 0 is an empty file.
        var migrate: @Sendable (Database, _ from: Int) throws -> Void
        /// Checks the parts that the first page does not show.
        var check: @Sendable (Database) throws -> Void = { _ in }
    }

    /// The reason why an existing file was not used.
    enum Unusable: Error {
        case damaged(String)
        case newerSchema(Int)
    }

    let url: URL
    private let label: String
    private let journal: Journal
    private let schema: Schema?
    private let pageSize: Int?

    /// Describes a file without opening it.
    ///
    /// - Parameters:
    ///   - url: The file's URL.
    ///   - label: Its name in the debugger.
    ///   - journal: The way in which changes are written to disk.
    ///   - schema: The schema it must have; `nil` if another connection has prepared the file.
    ///   - pageSize: The page size of a new file, in bytes. Default: SQLite's.
    init(
        _ url: URL,
        _ label: String,
        _ journal: Journal,
        _ schema: Schema?,
        pageSize: Int? = nil
    ) {
        self.url = url
        self.label = label
        self.journal = journal
        self.schema = schema
        self.pageSize = pageSize
    }

    /// Opens or creates the file.
    ///
    /// - Throws: ``Unusable``, or the database's error.
    func open() throws -> DatabaseQueue {
        if journal != .readOnly {
            try Self.makePrivateFolder(url.deletingLastPathComponent())
            // Created here, so that it is private from the first moment; SQLite gives the same mode
            // to its companion files.
            try createPrivateFile(url.path)
        } else if !FileManager.default.fileExists(atPath: url.path) {
            throw DatabaseError(resultCode: .SQLITE_CANTOPEN)
        }
        var options = Self.options(label)
        options.prepareDatabase { [journal, pageSize] database in
            if let pageSize { try database.execute(sql: "PRAGMA page_size = \(pageSize)") }
            switch journal {
            case .rollback:
                try database.execute(sql: "PRAGMA journal_mode = TRUNCATE")
                try database.execute(sql: "PRAGMA synchronous = FULL")
            case .log:
                try database.execute(sql: "PRAGMA journal_mode = WAL")
                try database.execute(sql: "PRAGMA synchronous = NORMAL")
            case .readOnly:
                try database.execute(sql: "PRAGMA query_only = 1")
            }
            if journal != .rollback {
                // Checkpoints wait for the disk, so they run only when they delay no caller.
                try database.execute(sql: "PRAGMA wal_autocheckpoint = 0")
            }
            try database.execute(sql: Self.wiping)
        }
        let database = try DatabaseQueue(path: url.path, configuration: options)
        try schema.map { try Self.prepare(database, $0) }
        return database
    }

    /// Creates a database in memory; it has no tables if there is no schema.
    static func inMemory(_ label: String, _ schema: Schema?) throws -> DatabaseQueue {
        let database = try DatabaseQueue(configuration: options(label))
        try schema.map { try prepare(database, $0) }
        return database
    }

    private static func options(_ label: String) -> Configuration {
        var options = Configuration()
        options.busyMode = .timeout(ClientLimits.databaseLockWait / .seconds(1))
        options.label = label
        options.allowsUnsafeTransactions = true  // A closure may end its transaction itself.
        return options
    }

    private static func prepare(_ database: DatabaseQueue, _ schema: Schema) throws {
        func version(_ database: Database) throws -> Int {
            try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        }
        // A write takes a lock, and may have to wait for another process.
        let isPresent = try database.unsafeRead { database in
            guard try version(database) == schema.version else { return false }
            try schema.check(database)
            return true
        }
        guard !isPresent else { return }
        try database.write { database in
            let version = try version(database)
            guard version <= schema.version else { throw Unusable.newerSchema(version) }
            if version < schema.version {
                try schema.migrate(database, version)
                try database.execute(sql: "PRAGMA user_version = \(schema.version)")
            }
            try schema.check(database)
        }
    }

    // MARK: - Files

    /// Creates a folder that only its owner can access.
    static func makePrivateFolder(_ folder: URL) throws {
        let manager = FileManager.default
        try manager.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder.path)
    }

    /// Removes the file and its SQLite companion files.
    func remove() {
        for suffix in [""] + Self.suffixes {
            try? FileManager.default.removeItem(atPath: url.path + suffix)
        }
    }

    /// Renames the file, and removes its SQLite companion files.
    ///
    /// - Returns: Its new name.
    func moveAside(_ suffix: String) throws -> URL {
        let manager = FileManager.default
        var aside = URL(filePath: "\(url.path).\(suffix)")
        var number = 2
        while manager.fileExists(atPath: aside.path) {
            aside = URL(filePath: "\(url.path).\(suffix)-\(number)")
            number += 1
        }
        try manager.moveItem(at: url, to: aside)
        for suffix in Self.suffixes { try? manager.removeItem(atPath: url.path + suffix) }
        return aside
    }

    private static let suffixes = ["-journal", "-wal", "-shm"]

    /// Whether the error means that the file is not an intact database.
    static func isDamage(_ error: any Error) -> Bool {
        if case Unusable.damaged = error { return true }
        guard let error = error as? DatabaseError else { return false }
        return [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode)
    }

    // MARK: - Wiping

    /// Makes SQLite overwrite deleted data.
    ///
    /// Copies of data that SQLite has moved within a page remain, however, so deleted data is
    /// certainly gone only after ``rewrite(_:)``.
    static let wiping = "PRAGMA secure_delete = ON"

    /// Rewrites the file, so that no deleted data is left in it or in its log.
    ///
    /// Called outside of a transaction, by the connection that checkpoints.
    static func rewrite(_ database: Database) throws {
        try database.execute(sql: "VACUUM")
        // Without a log, this does nothing.
        _ = try database.checkpoint(.truncate)
    }
}

// Outside of the type, because its own `open` would hide the system's.
private func createPrivateFile(_ path: String) throws {
    let descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
    if descriptor >= 0 {
        close(descriptor)
    } else if FileManager.default.fileExists(atPath: path) {
        // SQLite would open it read-only, and fail at the first write.
        throw DatabaseError(resultCode: .SQLITE_READONLY)
    }
}
