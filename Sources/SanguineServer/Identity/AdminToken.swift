import Crypto
public import Foundation
import SanguineAuthority
import SanguineModel

/// The token for `/admin`, which the first start generates and stores in the file `admin-token` of
/// the data folder, mode 0600.
///
/// ```sh
/// curl -H "Authorization: Bearer $(cat data/admin-token)" http://127.0.0.1:8081/admin/v1/accounts
/// ```
///
/// To replace it, delete the file and restart the server. Further tokens with fewer rights are
/// named by the setting `admin.tokens`; that of `anna` is in the file `admin-token.anna`.
public struct AdminToken: Sendable {
    /// The file's name.
    public static let name = "admin-token"

    /// The name in the audit log.
    public let owner: String
    /// The rights.
    public let role: AdminRole

    private let secret: Secret
    private let digest: SHA256Digest

    /// Generates a token from the system's random numbers.
    ///
    /// - Parameters:
    ///   - owner: The name in the audit log. Default: `owner`.
    ///   - role: The rights. Default: all.
    public init(owner: String = "owner", role: AdminRole = .owner) {
        let key = SymmetricKey(size: .bits256)
        self.init(owner, role, Base64URL.encode(key.withUnsafeBytes { Array($0) }))
    }

    private init(_ owner: String, _ role: AdminRole, _ text: String) {
        self.owner = owner
        self.role = role
        secret = Secret(text)
        digest = SHA256.hash(data: Data(text.utf8))
    }

    /// Reads the token, or generates and stores one at the first start.
    ///
    /// - Parameter folder: The data folder, which must exist.
    /// - Returns: The token, which is stored in the file.
    /// - Throws: ``OwnerFileError`` if others may read the file, if it contains no token of 32 to
    ///   256 visible characters, or if it cannot be written.
    public static func loadOrCreate(in folder: URL) throws(OwnerFileError) -> AdminToken {
        try loadOrCreate(at: folder.appending(path: name), ownerName, .owner)
    }

    /// Reads or generates the token of a name in the settings.
    static func loadOrCreate(
        in folder: URL,
        name owner: String,
        role: AdminRole
    ) throws(OwnerFileError) -> AdminToken {
        try loadOrCreate(at: folder.appending(path: "\(name).\(owner)"), owner, role)
    }

    private static func loadOrCreate(
        at path: URL,
        _ owner: String,
        _ role: AdminRole
    ) throws(OwnerFileError) -> AdminToken {
        let file = OwnerFile(path)
        guard let data = try file.read() else {
            let token = AdminToken(owner: owner, role: role)
            try file.create(Data("\(token.reveal())\n".utf8))
            return token
        }
        let text = String(decoding: data, as: UTF8.self).filter { !$0.isNewline }
        guard (32...256).contains(text.utf8.count),
            text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { throw .noSecret(path: path.path) }
        return AdminToken(owner, role, text)
    }

    /// Returns the text of the token.
    public func reveal() -> String { secret.reveal() }

    /// Returns whether a string is the token, in a time that does not depend on how much matches.
    func matches(_ text: String) -> Bool { SHA256.hash(data: Data(text.utf8)) == digest }

    /// Returns a cookie value that replaces the token in a browser until the given time.
    func pass(until end: Timestamp) -> String {
        let milliseconds = end.millisecondsSince1970
        let code = HMAC<SHA256>.authenticationCode(for: Self.content(milliseconds), using: key)
        return "\(milliseconds).\(Base64URL.encode(code))"
    }

    /// Returns whether a string is a valid cookie value that has not expired.
    func accepts(_ pass: String, at now: Timestamp) -> Bool {
        let parts = pass.split(separator: ".", maxSplits: 1)
        guard parts.count == 2, let milliseconds = Int64(parts[0]),
            milliseconds > now.millisecondsSince1970, let code = Base64URL.decode(parts[1])
        else { return false }
        return HMAC<SHA256>.isValidAuthenticationCode(
            code,
            authenticating: Self.content(milliseconds),
            using: key
        )
    }

    private var key: SymmetricKey { SymmetricKey(data: Data(secret.reveal().utf8)) }

    private static func content(_ end: Int64) -> Data { Data("admin session until \(end)".utf8) }
}
