/// The response to `GET /v1/attestation/challenge`.
public struct AttestationChallenge: Hashable, Codable, Sendable {
    /// The text that the next attestation or assertion must contain; it can be used once.
    public var challenge: String
    /// The seconds until the challenge expires.
    public var expiresIn: Int

    /// Creates the response.
    public init(challenge: String, expiresIn: Int) {
        self.challenge = challenge
        self.expiresIn = expiresIn
    }
}

/// The attestation of a device's key by Apple's App Attest.
///
/// Its client data is the UTF-8 of ``challenge``.
public struct DeviceAttestation: Hashable, Codable, Sendable {
    /// The identifier of the key, as `DCAppAttestService.generateKey()` returned it.
    public var keyId: String
    /// The object that `attestKey(_:clientDataHash:)` returned, in base64.
    public var attestationObject: String
    /// The challenge of the server.
    public var challenge: String

    /// Creates the attestation.
    public init(keyId: String, attestationObject: String, challenge: String) {
        self.keyId = keyId
        self.attestationObject = attestationObject
        self.challenge = challenge
    }
}

/// An assertion with a key that was attested before.
///
/// Its client data is the UTF-8 of ``challenge``, a full stop, and the text that it protects: the
/// `deviceId` of a guest's sign-in, or the `refreshToken` of a refresh.
public struct DeviceAssertion: Hashable, Codable, Sendable {
    /// The identifier of the key.
    public var keyId: String
    /// The object that `generateAssertion(_:clientDataHash:)` returned, in base64.
    public var assertion: String
    /// The challenge of the server.
    public var challenge: String

    /// Creates the assertion.
    public init(keyId: String, assertion: String, challenge: String) {
        self.keyId = keyId
        self.assertion = assertion
        self.challenge = challenge
    }
}
