import Foundation
import SanguineModel
import Synchronization

/// The current keys of an S3 storage, from the settings or from a file.
///
/// Another program may replace the keys in the file, for example before a session token expires.
/// The file is read again when the storage refuses the keys.
///
/// Mutable state: `keys`, guarded by its mutex.
final class S3Keys: Sendable {
    /// The maximum size of the file in bytes: 64 KiB.
    static let fileBytes = 1 << 16

    private let keys: Mutex<S3Credentials>
    private let file: String?

    /// Creates keys that do not change.
    init(_ keys: S3Credentials) {
        self.keys = Mutex(keys)
        file = nil
    }

    /// Reads the keys of the profile `default` in a file of the form of AWS's `credentials`.
    ///
    /// - Throws: ``S3KeysError``.
    init(file: String) throws(S3KeysError) {
        keys = Mutex(try Self.read(file))
        self.file = file
    }

    /// The keys with which to sign the next request.
    var current: S3Credentials { keys.withLock { $0 } }

    /// Reads the file again.
    ///
    /// - Parameter old: The keys that were refused.
    /// - Returns: Whether there are other keys now.
    func reload(after old: S3Credentials) -> Bool {
        if let file, let new = try? Self.read(file) { keys.withLock { $0 = new } }
        return current != old
    }

    private static func read(_ path: String) throws(S3KeysError) -> S3Credentials {
        let data: Data?
        do throws(OwnerFileError) {
            data = try OwnerFile(URL(filePath: path)).read()
        } catch {
            throw .file(error)
        }
        guard let data, data.count <= fileBytes,
            let keys = S3Credentials(file: String(decoding: data, as: UTF8.self))
        else { throw .noKeys(path: path) }
        return keys
    }
}

/// An error that occurs when the file with the keys of an S3 storage is read.
enum S3KeysError: Error, Hashable, CustomStringConvertible {
    /// The file cannot be read, or others may read it.
    case file(OwnerFileError)
    /// The file is missing, or has no keys.
    case noKeys(path: String)

    var description: String {
        switch self {
        case .file(let error): error.description
        case .noKeys(let path):
            """
            '\(path)' has no keys of an S3 storage. Write 'aws_access_key_id = …' and \
            'aws_secret_access_key = …' into it, below a line '[default]'.
            """
        }
    }
}

extension S3Credentials {
    /// Reads the profile `default` of a file, or the lines before the first profile.
    init?(file text: String) {
        var values: [String: String] = [:]
        var isOurs = true
        for line in text.split(whereSeparator: \.isNewline) {
            let line = line.trimmingCharacters(in: .whitespaces)
            if line.hasPrefix("#") || line.hasPrefix(";") { continue }
            if line.hasPrefix("[") {
                let name = line.dropFirst().prefix { $0 != "]" }
                isOurs = name.trimmingCharacters(in: .whitespaces) == "default"
                continue
            }
            let parts = line.split(separator: "=", maxSplits: 1)
                .map { $0.trimmingCharacters(in: .whitespaces) }
            guard isOurs, parts.count == 2 else { continue }
            values[parts[0].lowercased()] = parts[1]
        }
        guard let access = values["aws_access_key_id"], Self.isKey(access),
            let secret = values["aws_secret_access_key"], Self.isKey(secret)
        else { return nil }
        let token = values["aws_session_token"]
        guard token.map(Self.isKey) ?? true else { return nil }
        self.init(
            accessKey: Secret(access),
            secretKey: Secret(secret),
            sessionToken: token.map { Secret($0) }
        )
    }

    /// Whether a header may contain the key: visible characters only.
    static func isKey(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}
