import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// The mark of a sign-out whose removals may not be on disk yet: an empty file.
///
/// A file of its own and not a row, because it must be there when the database fails: a user who
/// has signed out must not be back at the next launch.
struct SignOutMark: Sendable {
    static let name = "signed-out"

    private let folder: URL

    /// The mark of the store in this folder.
    init(folder: URL) { self.folder = folder }

    private var path: String { folder.appending(path: Self.name).path }

    /// Whether a sign-out was begun and not finished.
    var isSet: Bool { FileManager.default.fileExists(atPath: path) }

    /// Sets the mark.
    ///
    /// Durable when it returns.
    func set() throws {
        try flush(path, O_CREAT | O_WRONLY)
        try flush(folder.path, O_RDONLY)
    }

    /// Removes the mark.
    ///
    /// Durable when it returns.
    func clear() throws {
        if unlink(path) != 0, errno != ENOENT { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        try flush(folder.path, O_RDONLY)
    }

    private func flush(_ path: String, _ flags: Int32) throws {
        let file = open(path, flags | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        defer { close(file) }
        guard fsync(file) == 0 else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
    }
}
