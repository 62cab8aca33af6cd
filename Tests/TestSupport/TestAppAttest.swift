import Crypto
import Foundation
public import SanguineModel
import SwiftASN1
import X509

/// A made App Attest service: a root and an intermediate certificate, and devices with keys.
public struct TestAppAttest: Sendable {
    /// A difference from a valid attestation or assertion; the name is that of the failed check.
    public enum Flaw: String, Hashable, Sendable, CaseIterable {
        /// Another format than `apple-appattest`.
        case format
        /// The key's certificate expired a day before.
        case expired
        /// The intermediate certificate is not signed by the root.
        case foreignIntermediate
        /// Only the key's certificate is sent.
        case shortChain
        /// The nonce is that of another challenge.
        case nonce
        /// The certificate has no nonce.
        case withoutNonce
        /// The identifier of the credential is another one.
        case credential
        /// The app is another one.
        case app
        /// The counter is not 0.
        case counter
        /// The environment is development.
        case environment
    }

    /// The identifier of the app.
    public static let app = "TEAM123456.com.example.app"

    /// The root certificate in DER.
    public let root: [UInt8]
    /// The time of the certificates.
    public let now: Timestamp
    private let intermediate: Certificate
    private let intermediateKey = P384.Signing.PrivateKey()
    private let names: [DistinguishedName]

    /// Creates a service with new keys.
    public init(at now: Timestamp) throws {
        self.now = now
        names = try ["Root", "Intermediate", "Key"].map { name in
            try DistinguishedName { CommonName("Test App Attestation \(name)") }
        }
        let rootKey = P384.Signing.PrivateKey()
        let authority = try Certificate.Extensions {
            Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
            Critical(KeyUsage(keyCertSign: true))
        }
        let certificate = try Self.certificate(
            .init(rootKey.publicKey),
            names[0],
            signedBy: (.init(rootKey), names[0]),
            until: now + .seconds(366 * 86_400),
            authority
        )
        root = try Self.der(certificate)
        intermediate = try Self.certificate(
            .init(intermediateKey.publicKey),
            names[1],
            signedBy: (.init(rootKey), names[0]),
            until: now + .seconds(366 * 86_400),
            authority
        )
    }

    /// A key in a device's Secure Enclave.
    public struct Key: Sendable {
        fileprivate let key = P256.Signing.PrivateKey()

        /// Creates a key.
        public init() {}

        /// The identifier of the key in base64.
        public var id: String { Data(hash).base64EncodedString() }

        fileprivate var hash: [UInt8] {
            Array(SHA256.hash(data: key.publicKey.x963Representation))
        }

        /// Returns an assertion about a text.
        ///
        /// - Parameters:
        ///   - challenge: The challenge.
        ///   - subject: The device id or refresh token.
        ///   - counter: The counter.
        ///   - app: The identifier of the app.
        ///   - extensions: Bytes after the counter, which newer systems send.
        ///   - isHashedOnce: Whether to sign the nonce without hashing it again, which is wrong.
        /// - Returns: The assertion.
        /// - Throws: An error of the signature.
        public func assertion(
            _ challenge: String,
            for subject: String,
            counter: UInt32,
            app: String = TestAppAttest.app,
            extensions: [UInt8] = [],
            isHashedOnce: Bool = false
        ) throws -> DeviceAssertion {
            let data =
                Array(SHA256.hash(data: Data(app.utf8))) + [extensions.isEmpty ? 0 : 0x40]
                + TestAppAttest.bytes(counter) + extensions
            let nonce = TestAppAttest.nonce(data, "\(challenge).\(subject)")
            let signature =
                isHashedOnce
                ? try key.signature(
                    for: SHA256.hash(
                        data: data + SHA256.hash(data: Data("\(challenge).\(subject)".utf8))
                    )
                )
                : try key.signature(for: Data(nonce))
            let object = TestCBOR.map([
                ("signature", TestCBOR.bytes(Array(signature.derRepresentation))),
                ("authenticatorData", TestCBOR.bytes(data)),
            ])
            return DeviceAssertion(
                keyId: id,
                assertion: Data(object).base64EncodedString(),
                challenge: challenge
            )
        }
    }

    /// Returns the attestation of a key.
    public func attestation(
        of key: Key,
        _ challenge: String,
        _ flaw: Flaw? = nil
    ) throws -> DeviceAttestation {
        let data = authenticatorData(of: key, flaw)
        let nonce = Self.nonce(data, flaw == .nonce ? "another challenge" : challenge)
        var extensions = try Certificate.Extensions {
            Critical(BasicConstraints.notCertificateAuthority)
            Critical(KeyUsage(digitalSignature: true))
        }
        if flaw != .withoutNonce {
            try extensions.append(
                Certificate.Extension(
                    oid: [1, 2, 840, 113635, 100, 8, 2],
                    critical: false,
                    value: ([0x30, 0x24, 0xA1, 0x22, 0x04, 0x20] + nonce)[...]
                )
            )
        }
        let signer = flaw == .foreignIntermediate ? P384.Signing.PrivateKey() : intermediateKey
        let leaf = try Self.certificate(
            .init(key.key.publicKey),
            names[2],
            signedBy: (.init(signer), names[1]),
            until: now + .seconds(flaw == .expired ? -86_400 : 3 * 86_400),
            extensions
        )
        let chain = [leaf] + (flaw == .shortChain ? [] : [intermediate])
        let statement = TestCBOR.map([
            ("x5c", TestCBOR.array(try chain.map { TestCBOR.bytes(try Self.der($0)) })),
            ("receipt", TestCBOR.bytes([UInt8](repeating: 9, count: 300))),
        ])
        let object = TestCBOR.map([
            ("fmt", TestCBOR.text(flaw == .format ? "packed" : "apple-appattest")),
            ("attStmt", statement), ("authData", TestCBOR.bytes(data)),
        ])
        return DeviceAttestation(
            keyId: key.id,
            attestationObject: Data(object).base64EncodedString(),
            challenge: challenge
        )
    }

    private func authenticatorData(of key: Key, _ flaw: Flaw?) -> [UInt8] {
        let app = flaw == .app ? "TEAM123456.com.example.other" : Self.app
        let environment =
            flaw == .environment
            ? Array("appattestdevelop".utf8)
            : Array("appattest".utf8) + [UInt8](repeating: 0, count: 7)
        let id = flaw == .credential ? [UInt8](repeating: 1, count: 32) : key.hash
        return Array(SHA256.hash(data: Data(app.utf8))) + [0x40]
            + Self.bytes(flaw == .counter ? 1 : 0) + environment + [0, 32] + id
    }

    private static func bytes(_ number: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * UInt32($0))) }
    }

    private static func nonce(_ data: [UInt8], _ clientData: String) -> [UInt8] {
        Array(SHA256.hash(data: data + SHA256.hash(data: Data(clientData.utf8))))
    }

    private static func certificate(
        _ key: Certificate.PublicKey,
        _ name: DistinguishedName,
        signedBy issuer: (key: Certificate.PrivateKey, name: DistinguishedName),
        until end: Timestamp,
        _ extensions: Certificate.Extensions
    ) throws -> Certificate {
        try Certificate(
            version: .v3,
            serialNumber: .init(),
            publicKey: key,
            notValidBefore: (end + .seconds(-800 * 86_400)).date,
            notValidAfter: end.date,
            issuer: issuer.name,
            subject: name,
            extensions: extensions,
            issuerPrivateKey: issuer.key
        )
    }

    private static func der(_ certificate: Certificate) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}

/// Encodes CBOR (RFC 8949).
public enum TestCBOR {
    /// Encodes bytes.
    public static func bytes(_ bytes: [UInt8]) -> [UInt8] { head(2, bytes.count) + bytes }

    /// Encodes a text.
    public static func text(_ text: String) -> [UInt8] {
        head(3, text.utf8.count) + Array(text.utf8)
    }

    /// Encodes an array of encoded values.
    public static func array(_ values: [[UInt8]]) -> [UInt8] {
        head(4, values.count) + values.joined()
    }

    /// Encodes a map of encoded values.
    public static func map(_ members: [(String, [UInt8])]) -> [UInt8] {
        head(5, members.count) + members.flatMap { text($0.0) + $0.1 }
    }

    private static func head(_ type: UInt8, _ length: Int) -> [UInt8] {
        switch length {
        case 0..<24: [type << 5 | UInt8(length)]
        case 24..<256: [type << 5 | 24, UInt8(length)]
        default: [type << 5 | 25, UInt8(length >> 8), UInt8(length & 0xFF)]
        }
    }
}
