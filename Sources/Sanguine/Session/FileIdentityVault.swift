import Foundation

/// Stores the device's identity in a file that only its owner can read (mode 0600).
///
/// The file appears either as a whole or not at all: it is written under another name, flushed to
/// disk, and linked to its own name. The link fails if another process was first; then the other
/// process's identity is used. A file that cannot be decoded is moved aside, never overwritten, and
/// reported: the new identity is another guest, with another balance.
struct FileIdentityVault: IdentityVault {
    private static let name = "device-identity.json"

    private let folder: URL
    private let onMovedAside: @Sendable (URL) -> Void

    /// Creates a vault in a folder.
    ///
    /// - Parameters:
    ///   - folder: The folder; created with mode 0700 if it does not exist.
    ///   - onMovedAside: Called with the new name of a file that could not be read.
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

    /// Returns the stored identity; `nil` if there is none.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if it cannot be read.
    func stored() throws(SanguineError) -> DeviceIdentity? {
        do {
            return try read()
        } catch {
            throw .store(.readFailed("device identity: \(error)"))
        }
    }

    /// Files that could not be read, and were moved aside, are removed too.
    func erase() throws(SanguineError) {
        do {
            try FileManager.default.removeItems(in: folder, withPrefixes: [Self.name])
        } catch {
            throw .store(.notErased(error))
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
        try DurableFile.create(JSONEncoder().encode(identity), at: URL(filePath: path))
    }
}
