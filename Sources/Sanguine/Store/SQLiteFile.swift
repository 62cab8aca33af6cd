import Foundation
import GRDB

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// One database file of the client: how it is opened, migrated, wiped and put aside.
///
/// Every file has ``wiping`` set, is its owner's alone (mode 0600 in a folder of mode 0700), and
/// says in `user_version` which schema it has.
struct SQLiteFile: Sendable {
    /// How changes reach the disk.
    enum Journal: Sendable {
        /// A rollback journal, flushed with each commit: for a file that two processes may write.
        case rollback
        /// A write-ahead log that is not flushed with each commit and that nobody but the owner
        /// checkpoints: SQLite up to 3.51.2 can damage a log that two write or checkpoint.
        case log
        /// Read only, beside a connection that writes.
        case readOnly
    }

    /// What the file has to be like.
    struct Schema: Sendable {
        var version: Int
        /// Makes tables of what an older version has left; 0 is an empty file.
        var migrate: @Sendable (Database, _ from: Int) throws -> Void
        /// Checks what a first page cannot say.
        var check: @Sendable (Database) throws -> Void = { _ in }
    }

    /// Why a file that is there was not used.
    enum Unusable: Error {
        case damaged(String)
        case newerSchema(Int)
    }

    let url: URL
    private let label: String
    private let journal: Journal
    private let schema: Schema?
    private let pageSize: Int?

    /// Describes a file; nothing is opened.
    ///
    /// - Parameters:
    ///   - url: Where it lies.
    ///   - label: What it is called in the debugger.
    ///   - journal: How changes reach the disk.
    ///   - schema: What it has to be like; `nil` for a connection beside one that has seen to it.
    ///   - pageSize: How large the pages of a new file are, in bytes. Default: SQLite's.
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
    /// - Throws: ``Unusable``, or what the database threw.
    func open() throws -> DatabaseQueue {
        if journal != .readOnly {
            try Self.makePrivateFolder(url.deletingLastPathComponent())
            // Created here, so that it is nobody else's from the first moment; SQLite gives the
            // same mode to the files beside it.
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
                // Checkpoints wait for the disk: they come when nobody is kept waiting by them.
                try database.execute(sql: "PRAGMA wal_autocheckpoint = 0")
            }
            try database.execute(sql: Self.wiping)
        }
        let database = try DatabaseQueue(path: url.path, configuration: options)
        try schema.map { try Self.prepare(database, $0) }
        return database
    }

    /// A database without a file; without tables, if there is no schema.
    static func inMemory(_ label: String, _ schema: Schema?) throws -> DatabaseQueue {
        let database = try DatabaseQueue(configuration: options(label))
        try schema.map { try prepare(database, $0) }
        return database
    }

    private static func options(_ label: String) -> Configuration {
        var options = Configuration()
        options.busyMode = .timeout(ClientLimits.databaseLockWait / .seconds(1))
        options.label = label
        options.allowsUnsafeTransactions = true  // They may end in a call of their own.
        return options
    }

    private static func prepare(_ database: DatabaseQueue, _ schema: Schema) throws {
        func version(_ database: Database) throws -> Int {
            try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        }
        // To write takes a lock for which another process may have to be waited for.
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

    /// Removes the file, and what SQLite keeps beside it.
    func remove() {
        for suffix in [""] + Self.suffixes {
            try? FileManager.default.removeItem(atPath: url.path + suffix)
        }
    }

    /// Renames the file, and removes what SQLite keeps beside it.
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

    /// Whether the error says that the file is no sound database.
    static func isDamage(_ error: any Error) -> Bool {
        if case Unusable.damaged = error { return true }
        guard let error = error as? DatabaseError else { return false }
        return [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode)
    }

    // MARK: - Wiping

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
}

// Outside of the type, whose own `open` would hide the system's.
private func createPrivateFile(_ path: String) throws {
    let descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
    if descriptor >= 0 {
        close(descriptor)
    } else if FileManager.default.fileExists(atPath: path) {
        // SQLite would open it to read, and fail at the first write.
        throw DatabaseError(resultCode: .SQLITE_READONLY)
    }
}
