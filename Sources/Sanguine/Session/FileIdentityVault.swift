import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Keeps the device's identity in a file that only its owner may read (mode 0600).
///
/// The file appears whole or not at all: it is written under another name, flushed to the disk, and
/// linked to its own name, which fails if another process was first; then the other's is taken.
/// One that cannot be read as an identity is moved aside, never overwritten, and that is told: the
/// new identity is another guest, with another balance.
struct FileIdentityVault: IdentityVault {
    private static let name = "device-identity.json"

    private let folder: URL
    private let onMovedAside: @Sendable (URL) -> Void

    /// Keeps it in a folder.
    ///
    /// - Parameters:
    ///   - folder: Which one; created with mode 0700 if it is not there.
    ///   - onMovedAside: Told of a file that could not be read, by its new name.
    init(folder: URL, onMovedAside: @escaping @Sendable (URL) -> Void = { _ in }) {
        self.folder = folder
        self.onMovedAside = onMovedAside
    }

    private var path: String { folder.appending(path: Self.name).path(percentEncoded: false) }

    func identity() throws(SanguineError) -> DeviceIdentity {
        do {
            if let kept = try read() { return kept }
            try FileManager.default.createDirectory(
                at: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            try keep(.random())
            guard let kept = try read() else { throw POSIXError(.EIO) }
            return kept
        } catch {
            throw .store(.writeFailed("device identity: \(error)"))
        }
    }

    private func read() throws -> DeviceIdentity? {
        let data: Data
        do {
            data = try Data(contentsOf: URL(filePath: path))
        } catch let error as CocoaError where error.code == .fileReadNoSuchFile {
            return nil
        }
        if let kept = try? JSONDecoder().decode(DeviceIdentity.self, from: data) { return kept }
        let aside = "\(path).unreadable-\(UUID())"
        try FileManager.default.moveItem(atPath: path, toPath: aside)
        onMovedAside(URL(filePath: aside))
        return nil
    }

    private func keep(_ identity: DeviceIdentity) throws {
        let draft = "\(path).\(UUID().uuidString)"
        defer { unlink(draft) }
        try writeDurably(JSONEncoder().encode(identity), to: draft)
        if link(draft, path) != 0, errno != EEXIST { throw POSIXError.last }
        try flush(folder.path(percentEncoded: false), flags: O_RDONLY)
    }

    private func writeDurably(_ data: Data, to draft: String) throws {
        let file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw POSIXError.last }
        defer { close(file) }
        // A few hundred bytes: a regular file takes them in one write, or the disk is full.
        let written = data.withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
        guard written == data.count else { throw POSIXError(.ENOSPC) }
        guard fsync(file) == 0 else { throw POSIXError.last }
    }

    private func flush(_ path: String, flags: Int32) throws {
        let file = open(path, flags | O_CLOEXEC)
        guard file >= 0 else { throw POSIXError.last }
        defer { close(file) }
        guard fsync(file) == 0 else { throw POSIXError.last }
    }
}

extension POSIXError {
    fileprivate static var last: POSIXError { POSIXError(Code(rawValue: errno) ?? .EIO) }
}
