import Crypto
import Foundation
public import SanguineModel
import SwiftASN1
@_spi(FixedExpiryValidationTime) import X509

/// Verifies attestations and assertions of Apple's App Attest.
///
/// The checks are those of Apple's *Validating apps that connect to your server*, in its order:
///
/// 1. The certificates `x5c`, the key's and an intermediate one, are a chain to a configured root.
/// 2. The key's certificate contains SHA-256(authenticator data ‖ SHA-256(client data)) in the
///    extension 1.2.840.113635.100.8.2.
/// 3. The key's identifier is the SHA-256 of its public key, and the identifier of the credential.
/// 4. The authenticator data is of the configured app and environment, with the counter 0.
///
/// Certificates are not checked for revocation, which would need a request to Apple.
public struct AppAttest: AttestationVerifier {
    private let settings: AppAttestSettings
    private let app: [UInt8]

    /// Creates the verifier of an app.
    public init(_ settings: AppAttestSettings) {
        self.settings = settings
        app = Array(SHA256.hash(data: Data(settings.appID.utf8)))
    }

    /// The maximum number of characters of an attestation or assertion.
    static let objectCharacters = 4 * CBORItem.bytesLimit / 3

    /// Verifies an attestation.
    ///
    /// - Parameters:
    ///   - attestation: The attestation.
    ///   - clientData: The bytes whose hash the device attested.
    ///   - now: The time at which the certificates must be valid.
    /// - Returns: The key.
    /// - Throws: `format`, `certificates`, `nonce`, `keyID`, `app`, `counter` or `environment`.
    public func attest(
        _ attestation: DeviceAttestation,
        clientData: [UInt8],
        at now: Timestamp
    ) async throws(AttestationFault) -> AttestedPublicKey {
        try await attest(attestation, hash: Array(SHA256.hash(data: clientData)), at: now)
    }

    /// Verifies an attestation of a hash of client data.
    func attest(
        _ attestation: DeviceAttestation,
        hash: [UInt8],
        at now: Timestamp
    ) async throws(AttestationFault) -> AttestedPublicKey {
        let object = try AttestationObject(attestation.attestationObject)
        let key = try await LongWork.shared.run(for: .anonymous) {
            () async throws(AttestationFault) -> AttestedPublicKey in
            let certificate = try await verify(object.certificates, at: now)
            let nonce = Self.nonce(object.authenticatorData, hash)
            // A sequence of one element with the tag 1, an octet string of 32 bytes.
            let expected = [0x30, 0x24, 0xA1, 0x22, 0x04, 0x20] + nonce
            guard let value = certificate.extensions[oid: Self.nonceExtension]?.value,
                Array(value) == expected
            else { throw .nonce }
            guard let key = P256.Signing.PublicKey(certificate.publicKey) else { throw .keyID }
            let point = Array(key.x963Representation)
            return AttestedPublicKey(id: Array(SHA256.hash(data: point)), point: point)
        }
        guard AttestationObject.bytes(attestation.keyId) == key.id else { throw .keyID }
        let data = try AuthenticatorData(object.authenticatorData)
        guard data.app == app else { throw .app }
        guard data.counter == 0 else { throw .counter }
        guard let credential = try data.credential() else { throw .format }
        guard credential.environment == settings.environment.attestationID else {
            throw .environment
        }
        guard credential.id == key.id else { throw .keyID }
        return key
    }

    /// Verifies an assertion.
    ///
    /// - Parameters:
    ///   - assertion: The assertion.
    ///   - clientData: The bytes whose hash the device signed.
    ///   - key: The key that was attested.
    /// - Returns: The counter.
    /// - Throws: `format`, `signature` or `app`.
    public func verify(
        _ assertion: DeviceAssertion,
        clientData: [UInt8],
        by key: AttestedPublicKey
    ) async throws(AttestationFault) -> UInt32 {
        let object = try AssertionObject(assertion.assertion)
        guard let point = try? P256.Signing.PublicKey(x963Representation: key.point),
            let signature = try? P256.Signing.ECDSASignature(derRepresentation: object.signature)
        else { throw .signature }
        // The message is the nonce, so that it is hashed twice.
        let hash = Array(SHA256.hash(data: clientData))
        let nonce = Data(Self.nonce(object.authenticatorData, hash))
        guard point.isValidSignature(signature, for: nonce) else { throw .signature }
        let data = try AuthenticatorData(object.authenticatorData)
        guard data.app == app else { throw .app }
        return data.counter
    }

    private func verify(
        _ certificates: [[UInt8]],
        at now: Timestamp
    ) async throws(AttestationFault) -> Certificate {
        var chain: [Certificate] = []
        for bytes in certificates {
            guard let certificate = try? Certificate(derEncoded: bytes) else {
                throw .certificates
            }
            chain.append(certificate)
        }
        guard chain.count == Self.chainLength - 1 else { throw .certificates }
        var verifier = Verifier(
            rootCertificates: CertificateStore(settings.roots.map(\.certificate))
        ) {
            RFC5280Policy(fixedExpiryValidationTime: now.date)
            ChainPolicy()
        }
        let result = await verifier.validate(
            leaf: chain[0],
            intermediates: CertificateStore([chain[1]])
        )
        guard case .validCertificate = result else { throw .certificates }
        return chain[0]
    }

    /// Leaf, intermediate and root.
    private static let chainLength = 3
    private static let nonceExtension: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 8, 2]

    static func nonce(_ authenticatorData: [UInt8], _ hash: [UInt8]) -> [UInt8] {
        Array(SHA256.hash(data: authenticatorData + hash))
    }

    /// Accepts only chains of App Attest's structure.
    private struct ChainPolicy: VerifierPolicy {
        let verifyingCriticalExtensions: [ASN1ObjectIdentifier] = []

        func chainMeetsPolicyRequirements(
            chain: UnverifiedCertificateChain
        ) -> PolicyEvaluationResult {
            chain.count == AppAttest.chainLength
                ? .meetsPolicy
                : .failsToMeetPolicy(reason: "The chain does not have three certificates.")
        }
    }
}

extension AppAttestSettings.Environment {
    /// The identifier (`aaguid`) in authenticator data.
    var attestationID: [UInt8] {
        switch self {
        case .production: Array("appattest".utf8) + [UInt8](repeating: 0, count: 7)
        case .development: Array("appattestdevelop".utf8)
        }
    }
}

/// The object that a device received from App Attest.
struct AttestationObject: Hashable, Sendable {
    /// The key's certificate and the intermediate one, in DER.
    var certificates: [[UInt8]]
    var authenticatorData: [UInt8]

    /// Reads an object in base64.
    init(_ text: String) throws(AttestationFault) {
        guard let bytes = Self.bytes(text), let item = CBORItem(bytes),
            item["fmt"] == .text("apple-appattest"),
            case .array(let certificates)? = item["attStmt"]?["x5c"],
            let data = item["authData"]?.data
        else { throw .format }
        self.certificates = certificates.compactMap(\.data)
        guard self.certificates.count == certificates.count else { throw .format }
        authenticatorData = data
    }

    /// Returns the bytes of base64, with either alphabet, with or without padding.
    static func bytes(_ text: String) -> [UInt8]? {
        guard text.utf8.count <= AppAttest.objectCharacters else { return nil }
        let bare = text.replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
        return Base64URL.decode(bare)
    }
}

/// The object of an assertion.
struct AssertionObject: Hashable, Sendable {
    /// The signature in DER.
    var signature: [UInt8]
    var authenticatorData: [UInt8]

    /// Reads an object in base64.
    init(_ text: String) throws(AttestationFault) {
        guard let bytes = AttestationObject.bytes(text), let item = CBORItem(bytes),
            let signature = item["signature"]?.data,
            let data = item["authenticatorData"]?.data
        else { throw .format }
        self.signature = signature
        authenticatorData = data
    }
}

/// The part of authenticator data that App Attest uses (W3C, Web Authentication, section 6.1).
///
/// Assertions of newer systems have extensions after the counter, even if no flag announces them.
/// The signature covers them, and they are ignored.
struct AuthenticatorData: Hashable, Sendable {
    /// The SHA-256 of the app's id.
    let app: [UInt8]
    let counter: UInt32
    private let rest: [UInt8]

    init(_ bytes: [UInt8]) throws(AttestationFault) {
        guard bytes.count >= 37 else { throw .format }
        app = Array(bytes[..<32])
        counter = bytes[33..<37].reduce(0) { $0 << 8 | UInt32($1) }
        rest = Array(bytes[37...])
    }

    /// The environment and the identifier of an attested key; `nil` if there is none.
    func credential() throws(AttestationFault) -> (environment: [UInt8], id: [UInt8])? {
        guard rest.count >= 18 else { return nil }
        let length = Int(rest[16]) << 8 | Int(rest[17])
        guard rest.count >= 18 + length else { throw .format }
        return (Array(rest[..<16]), Array(rest[18..<18 + length]))
    }
}
