import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// The ways to open a database for reading only.
///
/// Connections to one database share memory through a file, `-shm`, which SQLite creates next to
/// the database. Where it cannot create files, as on a read-only mount, no process can write
/// either, and a connection works without the file.
enum ReadOnlyLocation {
    /// Together with other connections, such as those of a server.
    case shared(DataFolder)
    /// As the only connection, with a log that a crashed process left.
    case withLog(DataFolder)
    /// As the only connection, without a log.
    case withoutLog(DataFolder)

    /// Returns the way to open the folder as the only connection, or `nil` if the folder is
    /// writable, so that other connections may open it.
    static func alone(_ folder: DataFolder) -> ReadOnlyLocation? {
        guard folder.hasDatabase, access(folder.path, W_OK) != 0 else { return nil }
        return DataFolder.size(of: folder.walPath) > 0 ? .withLog(folder) : .withoutLog(folder)
    }

    /// The path for SQLite: a URI (<https://sqlite.org/uri.html>), unless the database is shared.
    var path: String {
        switch self {
        case .shared(let folder): folder.databasePath
        // This VFS takes no locks, which would need a writable file.
        case .withLog(let folder): Self.uri(folder, "mode=ro&vfs=unix-none")
        case .withoutLog(let folder): Self.uri(folder, "mode=ro&immutable=1")
        }
    }

    /// The statement to execute before the database is read, if any.
    ///
    /// A connection in exclusive mode keeps the index of the log in its own memory
    /// (<https://sqlite.org/wal.html>, section 8).
    var pragma: String? {
        if case .withLog = self { "PRAGMA locking_mode = EXCLUSIVE" } else { nil }
    }

    private static func uri(_ folder: DataFolder, _ query: String) -> String {
        URL(filePath: folder.databasePath).absoluteString + "?" + query
    }
}
