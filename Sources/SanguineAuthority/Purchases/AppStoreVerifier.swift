import Crypto
import Foundation
import JWTKit
import SanguineModel
import SwiftASN1
import X509

/// Verifies data that the App Store signed.
///
/// The rules are those of Apple's App Store Server Library:
///
/// 1. The signature is ES256, by the first of exactly three certificates in `x5c`.
/// 2. The certificates form a chain to a configured root, and are valid at the signing time that
///    the payload states. So transactions stay valid after Apple's certificates have expired.
/// 3. The leaf and the intermediate certificate have Apple's marker extensions for receipts and
///    for worldwide developer relations. Other certificates below the same root are refused.
/// 4. The payload is of the configured app and environment. In production, notifications and app
///    transactions also have the configured numeric identifier of the app.
///
/// Certificates are not checked for revocation, which would need a request to Apple for each
/// purchase.
struct AppStoreVerifier: Sendable {
    let settings: AppStoreSettings
    private let chain: X5CVerifier

    /// The maximum size of signed data in bytes.
    static let signedBytes = 1 << 16
    /// The tolerated difference between the clocks of the App Store and the server.
    static let clockTolerance = Duration.seconds(300)

    /// Creates the verifier; `nil` without a root certificate.
    init?(_ settings: AppStoreSettings) {
        let roots = settings.roots.map(\.certificate)
        guard let chain = try? X5CVerifier(rootCertificates: roots) else { return nil }
        self.settings = settings
        self.chain = chain
    }

    /// Verifies a transaction of the configured app.
    ///
    /// - Throws: `purchase_invalid`, `purchase_foreign`.
    func transaction(
        _ signed: String,
        now: Timestamp
    ) async throws(Problem) -> AppStoreTransaction {
        let transaction = try await verify(signed, as: AppStoreTransaction.self, now: now)
        try check(bundle: transaction.bundleID, environment: transaction.environment)
        return transaction
    }

    /// Verifies the state of a renewal.
    func renewal(_ signed: String, now: Timestamp) async throws(Problem) -> AppStoreRenewal {
        let renewal = try await verify(signed, as: AppStoreRenewal.self, now: now)
        try check(bundle: settings.bundleID, environment: renewal.environment)
        return renewal
    }

    /// Verifies a notification; one without content is about no app.
    func notification(
        _ signed: String,
        now: Timestamp
    ) async throws(Problem) -> AppStoreNotification {
        let notification = try await verify(signed, as: AppStoreNotification.self, now: now)
        if let content = notification.content {
            try check(bundle: content.bundleId, environment: content.environment)
            try check(app: content.appAppleId)
        }
        return notification
    }

    /// Verifies an app transaction, and that the device with the verification id requested it.
    ///
    /// The device's proof is SHA-384 of the nonce and the id, both as lower-case UUIDs, as Apple's
    /// documentation of `deviceVerification` states.
    func appTransaction(
        _ signed: String,
        device: String,
        now: Timestamp
    ) async throws(Problem) -> AppStoreAppTransaction {
        let app = try await verify(signed, as: AppStoreAppTransaction.self, now: now)
        try check(bundle: app.bundleID, environment: app.environment)
        try check(app: app.appAppleID)
        let text = app.deviceVerificationNonce.lowercased() + device.lowercased()
        let expected = Array(SHA384.hash(data: Data(text.utf8)))
        guard let proof = Data(base64Encoded: app.deviceVerification), proof.count == 48,
            zip(proof, expected).reduce(UInt8(0), { $0 | ($1.0 ^ $1.1) }) == 0
        else {
            throw Problem(
                .purchaseInvalid,
                """
                Send the app transaction that this device received, with \
                AppStore.deviceVerificationID: it was issued for another device.
                """
            )
        }
        return app
    }

    private func verify<Content: AppStoreSigned>(
        _ signed: String,
        as type: Content.Type,
        now: Timestamp
    ) async throws(Problem) -> Content {
        guard signed.utf8.count <= Self.signedBytes, Self.hasExpectedHeader(signed) else {
            throw .purchaseInvalid
        }
        let chain = chain
        let payload = try await LongWork.shared.run(for: .anonymous) {
            () async throws(Problem) -> Signed<Content> in
            do {
                return try await chain.verifyJWS(
                    Array(signed.utf8),
                    as: Signed<Content>.self,
                    jsonDecoder: JSONDecoder(),
                    policy: { AppStorePolicy() }
                )
            } catch {
                throw .purchaseInvalid
            }
        }
        guard payload.content.signedAt <= now + Self.clockTolerance else {
            throw Problem(
                .purchaseInvalid,
                "Send it again later: it was signed after the time of the server's clock."
            )
        }
        return payload.content
    }

    /// Whether the header has ES256, three certificates and no critical extension; everything else
    /// is refused before any certificate is parsed.
    private static func hasExpectedHeader(_ signed: String) -> Bool {
        struct Header: Decodable {
            var alg: String
            var x5c: [String]
            /// Extensions that must be understood (RFC 7515, 4.1.11); the App Store uses none.
            var crit: [String]?
        }
        let parts = signed.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = Base64URL.decode(String(parts[0])),
            let header = try? JSONDecoder().decode(Header.self, from: Data(bytes))
        else { return false }
        return header.alg == "ES256" && header.crit == nil
            && header.x5c.count == AppStorePolicy.chainLength
    }

    private func check(bundle: String?, environment: String?) throws(Problem) {
        guard bundle == settings.bundleID else {
            throw Problem(.purchaseForeign, "Buy it in this server's app: this is of another app.")
        }
        guard environment == settings.environment.rawValue else {
            throw Problem(
                .purchaseForeign,
                """
                Use a server for this environment of the App Store: this one accepts only \
                \(settings.environment.rawValue).
                """
            )
        }
    }

    private func check(app: Int64?) throws(Problem) {
        guard settings.environment == .production else { return }
        guard let expected = settings.appAppleID else {
            throw Problem(
                .purchaseForeign,
                "Configure 'appStore.appAppleId' on the server: production demands it."
            )
        }
        guard app == expected else {
            throw Problem(.purchaseForeign, "Buy it in this server's app: this is of another app.")
        }
    }
}

/// Accepts only chains of the App Store's structure.
private struct AppStorePolicy: VerifierPolicy {
    /// Leaf, intermediate and root.
    static let chainLength = 3
    private static let receiptSigning: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 11, 1]
    private static let developerRelations: ASN1ObjectIdentifier = [
        1, 2, 840, 113635, 100, 6, 2, 1,
    ]

    let verifyingCriticalExtensions: [ASN1ObjectIdentifier] = []

    func chainMeetsPolicyRequirements(
        chain: UnverifiedCertificateChain
    ) -> PolicyEvaluationResult {
        guard chain.count == Self.chainLength else {
            return .failsToMeetPolicy(reason: "The chain does not have three certificates.")
        }
        guard chain[0].extensions[oid: Self.receiptSigning] != nil,
            chain[1].extensions[oid: Self.developerRelations] != nil
        else { return .failsToMeetPolicy(reason: "A marker extension is missing.") }
        return .meetsPolicy
    }
}

/// The payload in the form that JWTKit verifies: at its signing time.
private struct Signed<Content: AppStoreSigned>: ValidationTimePayload {
    let content: Content

    var signedDate: Date { content.signedAt.date }

    init(from decoder: any Decoder) throws { content = try Content(from: decoder) }

    // JWTKit requires payloads to be encodable; these are only read.
    func encode(to encoder: any Encoder) throws {
        throw EncodingError.invalidValue(
            self,
            .init(codingPath: encoder.codingPath, debugDescription: "Only Apple signs it.")
        )
    }

    // The signature and the certificates are the whole proof.
    func verify(using algorithm: some JWTAlgorithm) {}
}
