import Foundation

/// Where the driver's files are, and who may read them.
struct DataFolder: Sendable {
    /// The folder's path.
    let path: String

    var databasePath: String { path + "/sanguine.sqlite" }
    var lockPath: String { path + "/sanguine.lock" }

    init(_ folder: URL) {
        let path = folder.standardizedFileURL.path(percentEncoded: false)
        self.path = path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
    }

    /// Whether there is a database.
    var hasDatabase: Bool { FileManager.default.fileExists(atPath: databasePath) }

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
