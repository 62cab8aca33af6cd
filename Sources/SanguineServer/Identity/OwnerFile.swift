import Foundation

/// A file with a secret that only its owner may read: mode 0600.
struct OwnerFile {
    private let file: URL

    init(_ file: URL) { self.file = file }

    /// Reads the file.
    ///
    /// - Returns: The content, or `nil` if the file does not exist.
    /// - Throws: ``OwnerFileError`` if others may read it, or if the owner cannot.
    func read() throws(OwnerFileError) -> Data? {
        guard FileManager.default.fileExists(atPath: file.path) else { return nil }
        let attributes = try? FileManager.default.attributesOfItem(
            atPath: file.resolvingSymlinksInPath().path
        )
        let mode = (attributes?[.posixPermissions] as? NSNumber)?.intValue ?? 0o777
        guard mode & 0o077 == 0 else { throw .readableByOthers(path: file.path, mode: mode) }
        guard let data = try? Data(contentsOf: file) else { throw .unreadable(path: file.path) }
        return data
    }

    /// Creates the file, which must not exist yet.
    ///
    /// - Throws: ``OwnerFileError/notWritten(path:reason:)``.
    func create(_ data: Data) throws(OwnerFileError) {
        // Written under a temporary name first, so that a crash leaves no partial secret.
        let draft = file.appendingPathExtension("new")
        try? FileManager.default.removeItem(at: draft)
        let descriptor = open(draft.path, O_CREAT | O_EXCL | O_WRONLY, 0o600)
        guard descriptor >= 0 else { throw .notWritten(path: file.path, reason: Self.lastError) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try handle.write(contentsOf: data)
            try handle.synchronize()
            try handle.close()
            try FileManager.default.moveItem(at: draft, to: file)
            // Otherwise a power failure could undo the rename and lose the secret.
            try Self.synchronize(folder: file.deletingLastPathComponent())
        } catch {
            throw .notWritten(path: file.path, reason: "\(error)")
        }
    }

    private static func synchronize(folder: URL) throws {
        let descriptor = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
    }

    private static var lastError: String { String(cString: strerror(errno)) }
}

/// An error that occurs when a secret is read or stored.
public enum OwnerFileError: Error, Hashable {
    /// Users other than the owner may read the file.
    case readableByOthers(path: String, mode: Int)
    /// The file cannot be read.
    case unreadable(path: String)
    /// The file exists but contains no secret.
    case noSecret(path: String)
    /// The file could not be written.
    case notWritten(path: String, reason: String)
}

extension OwnerFileError: CustomStringConvertible {
    /// What happened, and how to fix it.
    public var description: String {
        switch self {
        case .readableByOthers(let path, let mode):
            """
            The secret in \(path) can be read by others (mode \(String(mode, radix: 8))). Run \
            'chmod 600' on the file, and replace the secret if it may have been read.
            """
        case .unreadable(let path): "The secret in \(path) cannot be read. Check the file's owner."
        case .noSecret(let path):
            """
            \(path) does not contain a secret of 32 to 256 visible characters. Restore it from a \
            backup, or delete it: the next start creates a new one.
            """
        case .notWritten(let path, let reason):
            "A secret could not be written to \(path): \(reason). Check the folder's permissions."
        }
    }
}
