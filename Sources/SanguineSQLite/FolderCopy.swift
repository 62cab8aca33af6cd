public import Foundation
import GRDB
import GRDBSQLite
import SanguineAuthority
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Makes a consistent copy of a data folder, even while a server writes to it.
///
/// The database is copied by SQLite's online backup, on one snapshot and by a read-only connection,
/// which never checkpoints, so the server remains the only writer. Then the files in the copied
/// database are copied; their bytes were stored before their rows. Everything is written to
/// `<target>.incomplete`, examined, and renamed: a folder with the name of the target is complete.
///
/// Mutable state: `isStopped`, atomic.
public final class FolderCopy: Sendable {
    /// The properties of a copy.
    public struct Report: Hashable, Sendable {
        /// The result of examining the copy, which contains no damage.
        public var examination: DataExamination
        /// The size of the database file in bytes.
        public var databaseBytes: Int64
        /// The new location of the folder that was replaced, or `nil` if there was none.
        public var replaced: URL?
    }

    /// The number of pages of the database that are copied at a time.
    private static let pagesPerStep: CInt = 1_024

    private let source: DataFolder
    private let target: DataFolder
    private let files: [String]
    private let replaces: Bool
    private let upgrades: Bool
    private let isStopped = Atomic(false)

    /// Creates a copy operation, without starting it.
    ///
    /// - Parameters:
    ///   - source: The data folder, which a server may have open.
    ///   - target: The folder to create. It must not exist, or be empty.
    ///   - files: The names of additional files in the folder that are copied if they exist.
    ///   - replaces: Whether to move an existing folder aside.
    ///   - upgrades: Whether to upgrade the copy to the schema of this version.
    public init(
        of source: URL,
        to target: URL,
        with files: [String] = [],
        replaces: Bool = false,
        upgrades: Bool = false
    ) {
        self.source = DataFolder(source)
        // Replace the folder itself, not a link to it, which may lead to another disk.
        self.target = DataFolder(target.resolvingSymlinksInPath())
        self.files = files
        self.replaces = replaces
        self.upgrades = upgrades
    }

    /// Makes the copy, examines it, and renames it to the target.
    ///
    /// If this fails, or the calling task is cancelled, the copy is removed.
    ///
    /// - Parameter finish: Called with the folder before it is renamed, while no other process
    ///   knows it and its lock is free.
    /// - Returns: The properties of the copy.
    /// - Throws: ``FolderCopyError``, `SQLiteStorageError`, `StorageError`, or `finish`'s error.
    public func make(finishing finish: (URL) async throws -> Void = { _ in }) async throws -> Report
    {
        guard source.hasDatabase else { throw SQLiteStorageError.noData(folder: source.path) }
        let occupied = try occupiedTarget()
        defer { occupied?.release() }
        let draft = DataFolder(URL(filePath: target.path + ".incomplete"))
        try draft.create()
        let lock = try LockFile(in: draft)
        do {
            try clear(draft, except: [draft.lockPath])
            let schema = try await DedicatedThread.run { [self] in
                try copy(to: draft)
            } onCancel: { [self] in
                isStopped.store(true, ordering: .releasing)
            }
            let examination = try await examine(draft, schema)
            let size = DataFolder.size(of: draft.databasePath)
            lock.release()
            try await finish(URL(filePath: draft.path, directoryHint: .isDirectory))
            try checkStopped()
            unlink(draft.lockPath)
            let replaced = try publish(draft, replacing: occupied != nil)
            return Report(examination: examination, databaseBytes: size, replaced: replaced)
        } catch {
            lock.release()
            try? FileManager.default.removeItem(atPath: draft.path)
            throw wasStopped ? FolderCopyError.stopped : explained(error)
        }
    }

    /// Replaces SQLite's errors of an unreadable database, which mention neither the folder nor a
    /// remedy.
    private func explained(_ error: any Error) -> any Error {
        switch error {
        case SQLiteStorageError.damaged(let reason):
            FolderCopyError.damaged(source: source.path, findings: [reason])
        case SQLiteStorageError.failed(let reason):
            FolderCopyError.unreadable(source: source.path, reason: reason)
        case let error as DatabaseError:
            explained(SQLiteStorageError(SQLFailure(error)))
        default: error
        }
    }

    /// Returns the lock of the folder to be replaced, or `nil` if the target is free.
    private func occupiedTarget() throws -> LockFile? {
        let manager = FileManager.default
        guard manager.fileExists(atPath: target.path) else { return nil }
        guard !SystemCall.isMountPoint(target.path) else {
            throw FolderCopyError.mountPoint(path: target.path)
        }
        let names = try? manager.contentsOfDirectory(atPath: target.path)
        if names == [] { return nil }
        guard replaces, names != nil else { throw FolderCopyError.notEmpty(path: target.path) }
        return try LockFile(in: target)
    }

    private func clear(_ folder: DataFolder, except kept: Set<String>) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            let path = "\(folder.path)/\(name)"
            if !kept.contains(path) { try FileManager.default.removeItem(atPath: path) }
        }
    }

    /// Copies everything, and returns the schema of the copy.
    private func copy(to draft: DataFolder) throws -> Schema {
        try draft.secureDatabase()
        let copied = try DatabaseQueue(path: draft.databasePath)
        defer { try? copied.close() }
        let options = SQLiteStorageOptions()
        let original = try Connections.reader(in: source, options: options, schema: nil)
        defer { try? original.close() }
        try original.unsafeRead { try checkLog(of: $0) }
        let schema = try copied.writeWithoutTransaction { copied in
            try original.unsafeRead { try copyPages(of: $0, to: copied) }
            // SQLite accepts an empty file as a database without tables.
            guard try Schema.version(of: copied) > 0 else {
                throw FolderCopyError.damaged(
                    source: source.path,
                    findings: ["The database is empty"]
                )
            }
            // A single file can be read from any medium. A server turns its log on again.
            try copied.execute(sql: "PRAGMA journal_mode = DELETE")
            if upgrades { try Schema.current.migrate(copied) }
            let schema = try Schema.current.known(to: copied)
            if schema.hasBlobs, !source.hasFilesElsewhere {
                try original.unsafeRead { try copyBlobs(in: copied, from: $0, to: draft) }
            }
            return schema
        }
        for name in files + [DataFolder.elsewhereName] { try copyFile(name, to: draft) }
        return schema
    }

    /// Refuses a folder whose log belongs to another state of its database.
    ///
    /// The missing commits would also be missing in the copy, where they could not be detected.
    private func checkLog(of original: Database) throws {
        guard let handle = original.sqliteConnection else { return }
        guard try !Integrity.isLeftMixed(handle, in: source) else {
            throw SQLiteStorageError.mixed(folder: source.path)
        }
    }

    private func copyPages(of original: Database, to copied: Database) throws {
        // The snapshot is held during all steps. Otherwise each write of the server would restart
        // the copying.
        try original.execute(sql: "BEGIN")
        defer { try? original.execute(sql: "COMMIT") }
        _ = try Int.fetchOne(original, sql: "SELECT count(*) FROM sqlite_master")
        try original.backup(to: copied, pagesPerStep: Self.pagesPerStep) { [self] _ in
            try checkStopped()
        }
    }

    /// Copies the files in the copied database; internal for tests.
    ///
    /// The server continues in the meantime. A file that it has removed since the snapshot is also
    /// removed from the copied database. A file that is missing although the original names it is
    /// left for the examination to report.
    func copyBlobs(
        in copied: Database,
        from original: Database,
        to draft: DataFolder
    ) throws {
        var folders: Set<String> = []
        var removed: [Data] = []
        let ids = try Data.fetchCursor(copied, sql: "SELECT DISTINCT id FROM blobs")
        while let bytes = try ids.next() {
            guard let id = BlobID(bytes: [UInt8](bytes)) else { continue }
            let folder = URL(filePath: draft.blobPath(id)).deletingLastPathComponent().path
            for path in [draft.blobsPath, folder] where folders.insert(path).inserted {
                guard mkdir(path, 0o700) == 0 else { throw ChunkedReader.Failure(path) }
            }
            if try copyFile(draft.blobName(id), to: draft) { continue }
            let query = "SELECT 1 FROM blobs WHERE id = ?"
            if try Bool.fetchOne(original, sql: query, arguments: [bytes]) == nil {
                removed.append(bytes)
            } else {
                // The file may have been removed and stored again.
                try copyFile(draft.blobName(id), to: draft)
            }
        }
        for bytes in removed {
            try copied.execute(sql: "DELETE FROM blobs WHERE id = ?", arguments: [bytes])
        }
        for folder in folders { try ChunkedReader.flush(folder) }
    }

    /// Copies a file of the folder, and returns whether it exists.
    @discardableResult
    private func copyFile(_ name: String, to draft: DataFolder) throws -> Bool {
        let (from, to) = ("\(source.path)/\(name)", "\(draft.path)/\(name)")
        let file = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw ChunkedReader.Failure(to) }
        defer { Foundation.close(file) }
        var writer = PacedWriter(file, to)
        do {
            try ChunkedReader.forEach(from) { piece in
                try checkStopped()
                try writer.write(piece)
            }
        } catch let failure as ChunkedReader.Failure where failure.code == ENOENT {
            unlink(to)
            return false
        }
        try writer.finish()
        return true
    }

    /// Examines the copy as data of the version that wrote it.
    private func examine(_ draft: DataFolder, _ schema: Schema) async throws -> DataExamination {
        let examiner = Examiner(of: draft, options: SQLiteStorageOptions(), schema: schema)
        let examination: DataExamination
        do throws(StorageError) {
            examination = try await examiner.examine()
        } catch {
            throw error == .closed ? FolderCopyError.stopped : error
        }
        guard examination.damage.isEmpty else {
            throw FolderCopyError.damaged(source: source.path, findings: examination.damage)
        }
        return examination
    }

    /// Renames the draft to the target, and returns the new location of the replaced folder.
    ///
    /// The two folders exchange their names in one step, so that a data folder exists at every
    /// moment: a server that starts without one would create an empty one. Before that, the draft
    /// is renamed to the name for a replaced folder, because the next copy clears a folder with a
    /// draft's name.
    private func publish(_ draft: DataFolder, replacing: Bool) throws -> URL? {
        try ChunkedReader.flush(draft.path)
        let parent = URL(filePath: target.path).deletingLastPathComponent().path
        guard replacing else {
            try rename(draft.path, to: target.path)
            try ChunkedReader.flush(parent)
            return nil
        }
        let aside = asidePath()
        if try !exchange(draft.path, aside: aside) { try replace(by: draft.path, aside: aside) }
        try ChunkedReader.flush(parent)
        return URL(filePath: aside, directoryHint: .isDirectory)
    }

    /// Exchanges the draft and the target, which is then moved aside, in one step.
    ///
    /// - Returns: `false` if the file system does not support it. The draft then has its original
    ///   name.
    private func exchange(_ draft: String, aside: String) throws -> Bool {
        try rename(draft, to: aside)
        let result = Result { try SystemCall.exchange(aside, target.path) }
        if case .success(true) = result { return true }
        try rename(aside, to: draft)
        return try result.get()
    }

    /// Replaces the target in two steps.
    private func replace(by draft: String, aside: String) throws {
        try rename(target.path, to: aside)
        do {
            try rename(draft, to: target.path)
        } catch {
            guard (try? rename(aside, to: target.path)) != nil else {
                throw FolderCopyError.displaced(path: target.path, aside: aside)
            }
            throw error
        }
    }

    private func rename(_ path: String, to other: String) throws(ChunkedReader.Failure) {
        guard Foundation.rename(path, other) == 0 else { throw ChunkedReader.Failure(other) }
    }

    private func asidePath() -> String {
        let manager = FileManager.default
        let numbers = (1...).lazy.map { "\(self.target.path).replaced-\($0)" }
        return numbers.first { !manager.fileExists(atPath: $0) } ?? target.path
    }

    private func checkStopped() throws {
        if wasStopped { throw FolderCopyError.stopped }
    }

    /// Whether the calling task was cancelled: while a thread copies, which belongs to no task, or
    /// while the task itself examines and finishes the copy.
    private var wasStopped: Bool { isStopped.load(ordering: .acquiring) || Task.isCancelled }
}

/// The reason why a data folder was not copied.
public enum FolderCopyError: Error, Hashable {
    /// The target exists and is not empty.
    case notEmpty(path: String)
    /// A disk is mounted at the target, which therefore cannot be renamed.
    case mountPoint(path: String)
    /// The folder at the target was moved aside, but something else was created there in the
    /// meantime.
    case displaced(path: String, aside: String)
    /// The source is damaged.
    case damaged(source: String, findings: [String])
    /// The source cannot be read.
    case unreadable(source: String, reason: String)
    /// The copying was cancelled.
    case stopped
}

extension FolderCopyError: CustomStringConvertible {
    /// The error, and what to do about it.
    public var description: String {
        switch self {
        case .notEmpty(let path):
            """
            \(path) exists and is not an empty folder, so nothing was written. Name a folder that \
            does not exist or is empty.
            """
        case .mountPoint(let path):
            """
            A disk is mounted at \(path), so nothing was written: the folder is renamed when it \
            is complete, and a mount point cannot be renamed. Name a folder inside it, such as \
            \(path)/data.
            """
        case .displaced(let path, let aside):
            """
            The previous folder at \(path) was moved to \(aside), but the copy could not be moved \
            to \(path), because something else was created there. Stop the server, remove \
            \(path), move \(aside) back, and run the command again.
            """
        case .damaged(let source, let findings):
            """
            The data in \(source) is damaged and was not copied: \(findings.count) findings, the \
            first: \(findings.first ?? "none"). Run 'sanguine doctor' on it, or use another backup.
            """
        case .unreadable(let source, let reason):
            """
            The data in \(source) cannot be read and was not copied: \(reason). Check the disk \
            and the folder's permissions, or use another backup.
            """
        case .stopped:
            "Stopped before the copy was complete; its files were removed. Run the command again."
        }
    }
}
