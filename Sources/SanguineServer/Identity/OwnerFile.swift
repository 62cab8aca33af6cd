import Foundation

/// A file with a secret, which nobody but its owner may read: mode 0600.
struct OwnerFile {
    private let file: URL

    init(_ file: URL) { self.file = file }

    /// Reads the file.
    ///
    /// - Returns: What is in it, or `nil` if there is no such file.
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

    /// Writes the file, which is not there yet.
    ///
    /// - Throws: ``OwnerFileError/notWritten(path:reason:)``.
    func create(_ data: Data) throws(OwnerFileError) {
        // Written whole under another name first: a crash leaves no half of a secret.
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
            // Without it a loss of power can take the name back, and with it the secret.
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

/// A reason why a secret is not to be had.
public enum OwnerFileError: Error, Hashable {
    /// Others than the owner may read the file.
    case readableByOthers(path: String, mode: Int)
    /// The file cannot be read.
    case unreadable(path: String)
    /// The file is there, and has no secret in it.
    case noSecret(path: String)
    /// The file could not be written.
    case notWritten(path: String, reason: String)
}

extension OwnerFileError: CustomStringConvertible {
    /// What happened, and what to do about it.
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
            \(path) has no secret of 32 to 256 visible characters. Restore it from a backup, or \
            delete it: the next start makes a new one.
            """
        case .notWritten(let path, let reason):
            "A secret could not be written to \(path): \(reason). Check the folder's rights."
        }
    }
}
