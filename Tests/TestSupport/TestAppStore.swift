import Crypto
import Foundation
public import SanguineModel
import SwiftASN1
import X509

/// A made App Store: a root, an intermediate and a leaf certificate with the structure of Apple's,
/// and the key that signs.
public struct TestAppStore: Sendable {
    /// What differs from the real App Store.
    public enum Flaw: Hashable, Sendable, CaseIterable {
        /// The leaf certificate lacks the marker of receipts.
        case leafWithoutMarker
        /// The intermediate certificate lacks the marker of developer relations.
        case intermediateWithoutMarker
        /// The leaf certificate expired a day before.
        case expiredLeaf
    }

    /// The bundle identifier of the app.
    public static let bundle = "com.example.app"
    /// The numeric identifier of the app.
    public static let appleID: Int64 = 1_234_567_890

    /// The root certificate in DER.
    public let root: [UInt8]
    /// The time at which everything is signed, unless a payload says otherwise.
    public let now: Timestamp
    private let chain: [String]
    private let key: P256.Signing.PrivateKey

    /// Creates an App Store with new keys.
    public init(at now: Timestamp, _ flaws: Set<Flaw> = []) throws {
        let keys = (P384.Signing.PrivateKey(), P384.Signing.PrivateKey())
        let names = try ["Root", "Intermediate", "Leaf"].map { name in
            try DistinguishedName { CommonName("Test App Store \(name)") }
        }
        let year = Duration.seconds(366 * 86_400)
        let root = try Self.certificate(
            .init(keys.0.publicKey),
            names[0],
            signedBy: (.init(keys.0), names[0]),
            until: now + year,
            extensions: try Self.authority()
        )
        let intermediate = try Self.certificate(
            .init(keys.1.publicKey),
            names[1],
            signedBy: (.init(keys.0), names[0]),
            until: now + year,
            extensions: try Self.authority(
                marked: !flaws.contains(.intermediateWithoutMarker)
            )
        )
        key = P256.Signing.PrivateKey()
        let leaf = try Self.certificate(
            .init(key.publicKey),
            names[2],
            signedBy: (.init(keys.1), names[1]),
            until: flaws.contains(.expiredLeaf) ? now + .seconds(-86_400) : now + year,
            extensions: try Self.leaf(marked: !flaws.contains(.leafWithoutMarker))
        )
        self.now = now
        self.root = try Self.der(root)
        chain = try [leaf, intermediate, root].map { Data(try Self.der($0)).base64EncodedString() }
    }

    /// Signs a payload as a JWS.
    ///
    /// - Parameters:
    ///   - payload: The payload.
    ///   - algorithm: The name of the algorithm in the header. Default: ES256, which it is.
    ///   - length: The number of certificates in the header. Default: all three.
    ///   - more: Further members of the header. Default: none.
    /// - Returns: The JWS.
    /// - Throws: The error of the encoder.
    public func sign(
        _ payload: [String: JSONValue],
        algorithm: String = "ES256",
        length: Int = 3,
        header more: [String: JSONValue] = [:]
    ) throws -> String {
        let header = JSONValue.object(
            [
                "alg": .string(algorithm),
                "x5c": .array(chain.prefix(length).map(JSONValue.string)),
            ].merging(more) { $1 }
        )
        let encoder = JSONEncoder()
        let text = try [header, .object(payload)].map { Self.text(try encoder.encode($0)) }
            .joined(separator: ".")
        let signature = try key.signature(for: Data(text.utf8)).rawRepresentation
        return "\(text).\(Self.text(signature))"
    }

    /// Returns the payload of a transaction.
    public func transaction(
        _ id: String,
        of product: String,
        _ more: [String: JSONValue] = [:]
    ) -> [String: JSONValue] {
        [
            "transactionId": .string(id), "originalTransactionId": .string(id),
            "productId": .string(product), "bundleId": .string(Self.bundle),
            "environment": "Production", "quantity": 1, "inAppOwnershipType": "PURCHASED",
            "purchaseDate": .integer(now.millisecondsSince1970),
            "signedDate": .integer(now.millisecondsSince1970),
        ].merging(more) { $1 }
    }

    /// Returns a signed notification about a transaction.
    public func notification(
        _ type: String,
        id: String,
        about transaction: [String: JSONValue],
        subtype: String? = nil,
        renewal: [String: JSONValue]? = nil,
        at moment: Timestamp? = nil
    ) throws -> String {
        var content: [String: JSONValue] = [
            "bundleId": .string(Self.bundle), "appAppleId": .integer(Self.appleID),
            "environment": "Production",
            "signedTransactionInfo": .string(try sign(transaction)),
        ]
        if let renewal { content["signedRenewalInfo"] = .string(try sign(renewal)) }
        var payload: [String: JSONValue] = [
            "notificationType": .string(type), "notificationUUID": .string(id), "version": "2.0",
            "signedDate": .integer((moment ?? now).millisecondsSince1970),
            "data": .object(content),
        ]
        if let subtype { payload["subtype"] = .string(subtype) }
        return try sign(payload)
    }

    /// Returns the signed app transaction of an Apple account for a device.
    public func appTransaction(
        _ id: String,
        device: String,
        nonce: String,
        _ more: [String: JSONValue] = [:]
    ) throws -> String {
        let text = nonce.lowercased() + device.lowercased()
        let proof = Data(SHA384.hash(data: Data(text.utf8))).base64EncodedString()
        return try sign(
            [
                "appTransactionId": .string(id), "bundleId": .string(Self.bundle),
                "appAppleId": .integer(Self.appleID),
                "receiptType": "Production", "deviceVerification": .string(proof),
                "deviceVerificationNonce": .string(nonce),
                "receiptCreationDate": .integer(now.millisecondsSince1970),
            ].merging(more) { $1 }
        )
    }

    private static func certificate(
        _ key: Certificate.PublicKey,
        _ name: DistinguishedName,
        signedBy issuer: (key: Certificate.PrivateKey, name: DistinguishedName),
        until end: Timestamp,
        extensions: Certificate.Extensions
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

    private static func authority(marked: Bool = false) throws -> Certificate.Extensions {
        var extensions = try Certificate.Extensions {
            Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
            Critical(KeyUsage(keyCertSign: true))
        }
        if marked { try extensions.append(marker([1, 2, 840, 113635, 100, 6, 2, 1])) }
        return extensions
    }

    private static func leaf(marked: Bool) throws -> Certificate.Extensions {
        var extensions = try Certificate.Extensions {
            Critical(BasicConstraints.notCertificateAuthority)
            Critical(KeyUsage(digitalSignature: true))
        }
        if marked { try extensions.append(marker([1, 2, 840, 113635, 100, 6, 11, 1])) }
        return extensions
    }

    /// An extension whose value is an ASN.1 null, as Apple's markers have it.
    private static func marker(_ oid: ASN1ObjectIdentifier) -> Certificate.Extension {
        Certificate.Extension(oid: oid, critical: false, value: [0x05, 0x00])
    }

    private static func der(_ certificate: Certificate) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }

    private static func text(_ data: Data) -> String {
        data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
    }
}
