import Crypto
import Foundation
import SanguineModel

/// Issues and verifies the challenges of attestations, without storing them.
///
/// A challenge consists of the time at which it expires, 16 random bytes, and a MAC over both. A
/// used one is stored until it expires, so that it works once.
struct AttestationChallenges: Sendable {
    /// The time for which a challenge is valid.
    static let life = Duration.seconds(300)

    private let key: SymmetricKey

    init(keys: SigningKeys) {
        key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: keys.refreshKey,
            info: Data("challenges of attestations".utf8),
            outputByteCount: 32
        )
    }

    /// Returns a new challenge.
    func issue(at now: Timestamp) -> AttestationChallenge {
        let end = UInt64(bitPattern: (now + Self.life).millisecondsSince1970)
        let content =
            (0..<8).map { UInt8(truncatingIfNeeded: end >> (56 - 8 * UInt64($0))) }
            + (0..<16).map { _ in UInt8.random(in: 0...255) }
        let code = HMAC<SHA256>.authenticationCode(for: content, using: key)
        return AttestationChallenge(
            challenge: Base64URL.encode(content + code),
            expiresIn: Self.life.secondsRoundedUp
        )
    }

    /// Returns the mark that a valid challenge is used.
    ///
    /// - Throws: `challenge` for one that this server did not issue, or that has expired.
    func spend(
        _ challenge: String,
        at now: Timestamp
    ) throws(AttestationFault) -> SpentChallenge {
        guard challenge.utf8.count == 75, let bytes = Base64URL.decode(challenge),
            bytes.count == 56,
            HMAC<SHA256>.isValidAuthenticationCode(
                bytes[24...],
                authenticating: bytes[..<24],
                using: key
            )
        else { throw .challenge }
        let end = Timestamp(
            millisecondsSince1970: Int64(
                bitPattern: bytes[..<8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            )
        )
        guard now < end else { throw .challenge }
        return SpentChallenge(nonce: Base64URL.encode(bytes[8..<24]), expiresAt: end)
    }
}

/// A challenge that was used, until it expires.
struct SpentChallenge: StoredDocument, Hashable {
    static let kind = DocumentKind.attestation

    /// The random part of the challenge.
    var nonce: String
    var expiresAt: Timestamp

    var documentID: String { "challenge \(nonce)" }
    var documentAccount: Identifier? { nil }
    var documentExpiry: Timestamp? { expiresAt }
}
