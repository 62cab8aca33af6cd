import Foundation
import SanguineAuthority

/// Where the driver's files are, and who may read them.
struct DataFolder: Sendable {
    /// The folder's path.
    let path: String

    var databasePath: String { path + "/sanguine.sqlite" }
    var walPath: String { databasePath + "-wal" }
    var lockPath: String { path + "/sanguine.lock" }
    var historyPath: String { path + "/sanguine.history" }
    var blobsPath: String { path + "/blobs" }

    /// The name of a file in the folder: `blobs/ab/abcdef…`.
    func blobName(_ id: BlobID) -> String {
        let name = id.description
        return "blobs/\(name.prefix(2))/\(name)"
    }

    /// The path of a file.
    func blobPath(_ id: BlobID) -> String { "\(path)/\(blobName(id))" }

    init(_ folder: URL) {
        let path = folder.standardizedFileURL.path(percentEncoded: false)
        self.path = path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
    }

    /// Whether there is a database.
    var hasDatabase: Bool { FileManager.default.fileExists(atPath: databasePath) }

    /// The bytes of the database; 0 if there is none.
    var size: Int64 { Self.size(of: databasePath) }

    /// The free bytes of its disk, or `nil` if the system does not say.
    var space: DiskSpace? { DiskSpace(of: path) }

    /// Refuses a folder that others than its owner may enter or list.
    func checkPrivate() throws(SQLiteStorageError) {
        guard let mode = Self.mode(of: path) else { return }
        guard mode & 0o077 == 0 else { throw .openToOthers(folder: path, mode: mode) }
    }

    /// The permissions of a file or folder, or `nil` if there is none.
    static func mode(of path: String) -> Int? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Int(status.st_mode & 0o7777)
    }

    /// The bytes of a file; 0 if there is none.
    static func size(of path: String) -> Int64 {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : 0
    }

    /// Makes the folder, for its owner alone, unless it is there.
    func create() throws(SQLiteStorageError) {
        let manager = FileManager.default
        guard !manager.fileExists(atPath: path) else { return }
        let parent = URL(filePath: path).deletingLastPathComponent()
        do {
            try manager.createDirectory(at: parent, withIntermediateDirectories: true)
        } catch {
            throw .failed("\(parent.path): \(error.localizedDescription)")
        }
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
            throw .failed("\(path): \(String(cString: strerror(errno)))")
        }
    }

    /// Makes the database's file, readable for its owner alone.
    ///
    /// SQLite gives the log the same mode.
    ///
    /// Only under the lock and before SQLite opens the file: closing a file drops every lock that
    /// the process has on it.
    func secureDatabase() throws(SQLiteStorageError) {
        let file = open(databasePath, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else {
            throw .failed("\(databasePath): \(String(cString: strerror(errno)))")
        }
        defer { Foundation.close(file) }
        guard fchmod(file, 0o600) == 0 else {
            throw .failed("\(databasePath): \(String(cString: strerror(errno)))")
        }
    }
}
