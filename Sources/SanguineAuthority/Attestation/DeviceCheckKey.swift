import JWTKit
package import SanguineModel

/// A private key of Apple's developer account that signs requests to DeviceCheck.
///
/// The key is created at Apple under *Keys*, with DeviceCheck enabled, and downloaded once as a
/// `.p8` file. It is not shown in logs.
public struct DeviceCheckKey: Sendable {
    private struct Claims: JWTPayload {
        var iss: String
        var iat: Int

        // The token is only issued here.
        func verify(using algorithm: some JWTAlgorithm) {}
    }

    // A task, because the collection is an actor; the first use waits for it.
    private let keys: Task<JWTKeyCollection, Never>
    private let id: JWKIdentifier
    private let team: String

    /// Reads a key.
    ///
    /// - Parameters:
    ///   - pem: The content of the `.p8` file: a key on P-256 in PEM.
    ///   - id: The key's identifier, 10 characters.
    ///   - team: The identifier of the team, 10 characters.
    /// - Throws: ``DeviceCheckKeyError`` if the text is no such key.
    public init(pem: String, id: String, team: String) throws(DeviceCheckKeyError) {
        let key: ES256PrivateKey
        do { key = try ES256PrivateKey(pem: pem) } catch { throw DeviceCheckKeyError() }
        let name = JWKIdentifier(string: id)
        keys = Task { await JWTKeyCollection().add(ecdsa: key, kid: name) }
        self.id = name
        self.team = team
    }

    /// Returns the token that authorizes a request: a JWT (RFC 7519) signed with ES256.
    package func token(at now: Timestamp) async throws -> String {
        let claims = Claims(iss: team, iat: Int(now.millisecondsSince1970 / 1_000))
        return try await keys.value.sign(claims, kid: id)
    }
}

/// The error for a file that contains no key of DeviceCheck.
public struct DeviceCheckKeyError: Error, Hashable, CustomStringConvertible {
    /// What happened, and how to fix it.
    public var description: String {
        """
        The file contains no private key on P-256 in PEM. Download a key for DeviceCheck from \
        Apple's developer account, a .p8 file.
        """
    }
}
