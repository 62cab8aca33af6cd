import Foundation
import SanguineAuthority

/// The paths and permissions of the driver's files.
struct DataFolder: Sendable {
    /// The folder's path.
    let path: String

    var databasePath: String { path + "/sanguine.sqlite" }
    var walPath: String { databasePath + "-wal" }
    var lockPath: String { path + "/sanguine.lock" }
    var historyPath: String { path + "/sanguine.history" }
    var blobsPath: String { path + "/blobs" }
    /// The file that records that the bytes of files are in another store.
    var elsewherePath: String { "\(path)/\(Self.elsewhereName)" }

    static let elsewhereName = "sanguine.blobs"

    /// Returns the name of a file in the folder: `blobs/ab/abcdef…`.
    func blobName(_ id: BlobID) -> String {
        let name = id.description
        return "blobs/\(name.prefix(2))/\(name)"
    }

    /// Returns the path of a file.
    func blobPath(_ id: BlobID) -> String { "\(path)/\(blobName(id))" }

    init(_ folder: URL) {
        let path = folder.standardizedFileURL.path(percentEncoded: false)
        self.path = path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
    }

    /// Whether the bytes of files are in another store, such as a bucket.
    var hasFilesElsewhere: Bool { FileManager.default.fileExists(atPath: elsewherePath) }

    /// Refuses to change the place of files, because those in the old place would be lost.
    ///
    /// The first time that they are elsewhere, it records this, so that no check of the folder
    /// expects them here.
    func settleFiles(areElsewhere: Bool) throws(SQLiteStorageError) {
        guard areElsewhere != hasFilesElsewhere else { return }
        guard areElsewhere else { throw .filesElsewhere(folder: path) }
        guard try isWithoutFiles() else { throw .filesHere(folder: path) }
        let text = Array("The bytes of the files are in another store.\n".utf8)
        do throws(ChunkedReader.Failure) {
            let file = open(elsewherePath, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
            guard file >= 0 else { throw ChunkedReader.Failure(elsewherePath) }
            defer { Foundation.close(file) }
            var writer = PacedWriter(file, elsewherePath)
            try writer.write(text)
            try writer.finish()
            try ChunkedReader.flush(path)
        } catch {
            throw .failed("\(elsewherePath): \(error.reason)")
        }
    }

    /// Returns whether there is no file in the folders of files.
    ///
    /// - Throws: An error if a folder cannot be listed: it may have files.
    private func isWithoutFiles() throws(SQLiteStorageError) -> Bool {
        do throws(ChunkedReader.Failure) {
            for name in try blobFolders()
            where try !ChunkedReader.names(in: "\(blobsPath)/\(name)").isEmpty {
                return false
            }
            return true
        } catch {
            throw .failed("\(error.path): \(error.reason)")
        }
    }

    /// Returns the names of the folders of files, in order: `ab` for `blobs/ab`.
    func blobFolders() throws(ChunkedReader.Failure) -> [String] {
        let digits = Set("0123456789abcdef")
        return try ChunkedReader.names(in: blobsPath)
            .filter { $0.count == 2 && digits.isSuperset(of: $0) }
            .sorted()
    }

    /// Whether the folder contains a database.
    var hasDatabase: Bool { FileManager.default.fileExists(atPath: databasePath) }

    /// The size of the database in bytes, 0 if there is none.
    var size: Int64 { Self.size(of: databasePath) }

    /// The free space of the folder's disk, or `nil` if the system does not report it.
    var space: DiskSpace? { DiskSpace(of: path) }

    /// Refuses a folder that users other than its owner may enter or list.
    func checkPrivate() throws(SQLiteStorageError) {
        guard let mode = Self.mode(of: path) else { return }
        guard mode & 0o077 == 0 else { throw .openToOthers(folder: path, mode: mode) }
    }

    /// Returns the permissions of a file or folder, or `nil` if it does not exist.
    static func mode(of path: String) -> Int? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Int(status.st_mode & 0o7777)
    }

    /// Returns the size of a file in bytes, 0 if it does not exist.
    static func size(of path: String) -> Int64 {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : 0
    }

    /// Creates the folder, accessible only to its owner, unless it exists.
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

    /// Creates the database file, readable only by its owner.
    ///
    /// SQLite gives the log the same permissions.
    ///
    /// Call it only under the lock and before SQLite opens the file: closing a file releases all
    /// locks that the process holds on it.
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
