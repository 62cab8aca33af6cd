import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// How a database is opened that is only read.
///
/// Connections to one database share memory by a file, `-shm`, which SQLite makes beside the
/// database. Where nothing can be made, as on a read-only mount, nobody writes either, and a
/// connection can do without.
enum ReadOnlyPlace {
    /// Beside others, a server perhaps.
    case shared(DataFolder)
    /// Alone, with the log that a process has left which died.
    case withLog(DataFolder)
    /// Alone, without a log.
    case withoutLog(DataFolder)

    /// The place for those who are alone, or `nil` if the folder can be written, so that others
    /// may come.
    static func alone(_ folder: DataFolder) -> ReadOnlyPlace? {
        guard folder.hasDatabase, access(folder.path, W_OK) != 0 else { return nil }
        return DataFolder.size(of: folder.walPath) > 0 ? .withLog(folder) : .withoutLog(folder)
    }

    /// What SQLite is given as the path: a URI (<https://sqlite.org/uri.html>), unless it is
    /// shared.
    var path: String {
        switch self {
        case .shared(let folder): folder.databasePath
        // The VFS takes no locks, which a file that is only read does not have for this use.
        case .withLog(let folder): Self.uri(folder, "mode=ro&vfs=unix-none")
        case .withoutLog(let folder): Self.uri(folder, "mode=ro&immutable=1")
        }
    }

    /// What is done before the database is read, or `nil`.
    ///
    /// A connection that excludes others keeps the index of the log in its own memory
    /// (<https://sqlite.org/wal.html>, section 8).
    var pragma: String? {
        if case .withLog = self { "PRAGMA locking_mode = EXCLUSIVE" } else { nil }
    }

    private static func uri(_ folder: DataFolder, _ query: String) -> String {
        URL(filePath: folder.databasePath).absoluteString + "?" + query
    }
}
