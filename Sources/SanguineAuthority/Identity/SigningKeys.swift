import Crypto
public import Foundation
import JWTKit

/// The authority's secrets: the signing key of access tokens, and the key of refresh tokens.
///
/// These secrets allow a sign-in to any account. They are created at the first start and stored in
/// a file that only the server's user can read; this type does no I/O.
public struct SigningKeys: Sendable {
    /// The name of the signing key in a token's header, so that keys can be replaced.
    public let keyID: String
    let signingKey: Curve25519.Signing.PrivateKey
    let refreshKey: SymmetricKey

    /// Creates random keys.
    public init() {
        signingKey = Curve25519.Signing.PrivateKey()
        refreshKey = SymmetricKey(size: .bits256)
        keyID = Self.keyID(of: signingKey)
    }

    /// Decodes keys from ``encoded``, or returns `nil` if the data is invalid.
    public init?(encoded: Data) {
        guard let file = try? JSONDecoder().decode(File.self, from: encoded),
            file.version == File.currentVersion,
            file.refreshKey.count == 32,
            let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: file.signingKey)
        else { return nil }
        signingKey = key
        refreshKey = SymmetricKey(data: file.refreshKey)
        keyID = Self.keyID(of: key)
    }

    /// The keys as JSON.
    ///
    /// Keep it secret.
    public var encoded: Data {
        let file = File(
            version: File.currentVersion,
            signingKey: signingKey.rawRepresentation,
            refreshKey: refreshKey.withUnsafeBytes { Data($0) }
        )
        return Data(ResponseEncoder.encode(file))
    }

    private struct File: Codable {
        static let currentVersion = 1
        var version: Int
        var signingKey: Data
        var refreshKey: Data
    }

    /// The first 16 hexadecimal digits of the public key's SHA-256.
    private static func keyID(of key: Curve25519.Signing.PrivateKey) -> String {
        SHA256.hash(data: key.publicKey.rawRepresentation).prefix(8)
            .map { String($0 >> 4, radix: 16) + String($0 & 0xF, radix: 16) }
            .joined()
    }
}
