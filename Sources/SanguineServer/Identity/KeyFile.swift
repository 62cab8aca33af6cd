public import Foundation
public import SanguineAuthority

/// The file with the authority's secrets: `keys.json` in the data folder, mode 0600.
public enum KeyFile {
    /// The file's name.
    public static let name = "keys.json"

    /// Reads the keys, or generates and stores new ones at the first start.
    ///
    /// Fails if others may read the file or if it cannot be read, because new keys would sign out
    /// all users.
    ///
    /// - Parameters:
    ///   - folder: The data folder, which must exist.
    ///   - mayBeNew: Whether missing keys are generated. Default: true. Pass false if the storage
    ///     contains accounts, because new keys would sign them out.
    /// - Returns: The keys, which are stored in the file.
    /// - Throws: ``KeyFileError``.
    public static func loadOrCreate(
        in folder: URL,
        mayBeNew: Bool = true
    ) throws(KeyFileError) -> SigningKeys {
        if let keys = try load(in: folder) { return keys }
        let path = folder.appending(path: name)
        guard mayBeNew else { throw .missing(path: path.path) }
        let keys = SigningKeys()
        do throws(OwnerFileError) {
            try OwnerFile(path).create(keys.encoded)
        } catch {
            throw KeyFileError(error)
        }
        return keys
    }

    /// Returns whether the file exists, readable or not.
    public static func exists(in folder: URL) -> Bool {
        FileManager.default.fileExists(atPath: folder.appending(path: name).path)
    }

    /// Reads the keys without generating new ones.
    ///
    /// - Returns: The keys, or `nil` if there is no file.
    /// - Throws: ``KeyFileError``.
    public static func load(in folder: URL) throws(KeyFileError) -> SigningKeys? {
        let path = folder.appending(path: name)
        let data: Data?
        do throws(OwnerFileError) {
            data = try OwnerFile(path).read()
        } catch {
            throw KeyFileError(error)
        }
        guard let data else { return nil }
        guard let keys = SigningKeys(encoded: data) else { throw .unreadable(path: path.path) }
        return keys
    }
}

/// An error that occurs when the keys are read or stored.
public enum KeyFileError: Error, Hashable {
    /// The file is missing, although sessions of existing accounts need it.
    case missing(path: String)
    /// Users other than the owner may read the file.
    case readableByOthers(path: String, mode: Int)
    /// The file exists but contains no valid keys.
    case unreadable(path: String)
    /// The file could not be written.
    case notWritten(path: String, reason: String)

    fileprivate init(_ error: OwnerFileError) {
        self =
            switch error {
            case .readableByOthers(let path, let mode): .readableByOthers(path: path, mode: mode)
            case .unreadable(let path), .noSecret(let path): .unreadable(path: path)
            case .notWritten(let path, let reason): .notWritten(path: path, reason: reason)
            }
    }
}

extension KeyFileError: CustomStringConvertible {
    /// What happened, and how to fix it.
    public var description: String {
        switch self {
        case .missing(let path):
            """
            The signing keys in \(path) are missing although there are accounts: new keys would \
            sign everyone out. Restore the file from a backup.
            """
        case .readableByOthers(let path, let mode):
            """
            The signing keys in \(path) can be read by others (mode \(String(mode, radix: 8))). \
            Run 'chmod 600' on the file; if it may have been read, delete it, which signs everyone \
            out.
            """
        case .unreadable(let path):
            """
            The signing keys in \(path) cannot be read. Restore the file from a backup. Deleting \
            it creates new keys and signs everyone out.
            """
        case .notWritten(let path, let reason):
            """
            The signing keys could not be written to \(path): \(reason). Check the folder's \
            permissions.
            """
        }
    }
}
