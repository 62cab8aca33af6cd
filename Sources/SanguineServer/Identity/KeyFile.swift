public import Foundation
public import SanguineAuthority

/// The file that keeps the authority's secrets: `keys.json` in the data folder, mode 0600.
public enum KeyFile {
    /// The file's name.
    public static let name = "keys.json"

    /// Reads the keys, or makes and keeps new ones at the first start.
    ///
    /// A file that others may read is refused, and so is one that cannot be read: making new keys
    /// instead would sign everyone out.
    ///
    /// - Parameter folder: The data folder, which exists.
    /// - Returns: The keys, which are in the file by then.
    /// - Throws: ``KeyFileError``.
    public static func loadOrCreate(in folder: URL) throws(KeyFileError) -> SigningKeys {
        let path = folder.appending(path: name)
        let file = OwnerFile(path)
        do throws(OwnerFileError) {
            if let data = try file.read() {
                guard let keys = SigningKeys(encoded: data) else {
                    throw .unreadable(path: path.path)
                }
                return keys
            }
            let keys = SigningKeys()
            try file.create(keys.encoded)
            return keys
        } catch {
            switch error {
            case .readableByOthers(let path, let mode):
                throw .readableByOthers(path: path, mode: mode)
            case .unreadable(let path): throw .unreadable(path: path)
            case .notWritten(let path, let reason): throw .notWritten(path: path, reason: reason)
            }
        }
    }
}

/// A reason why the keys are not to be had.
public enum KeyFileError: Error, Hashable {
    /// Others than the owner may read the file.
    case readableByOthers(path: String, mode: Int)
    /// The file is there, and its content is no keys.
    case unreadable(path: String)
    /// The file could not be written.
    case notWritten(path: String, reason: String)
}

extension KeyFileError: CustomStringConvertible {
    /// What happened, and what to do about it.
    public var description: String {
        switch self {
        case .readableByOthers(let path, let mode):
            """
            The signing keys in \(path) can be read by others (mode \(String(mode, radix: 8))). \
            Run 'chmod 600' on the file; if it may have been read, delete it, which signs everyone \
            out.
            """
        case .unreadable(let path):
            """
            The signing keys in \(path) cannot be read. Restore the file from a backup; deleting \
            it makes new keys and signs everyone out.
            """
        case .notWritten(let path, let reason):
            """
            The signing keys could not be written to \(path): \(reason). Check the folder's rights.
            """
        }
    }
}
