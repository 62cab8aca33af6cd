import Crypto
import Foundation
import SanguineModel

/// A key that a device has attested.
struct AttestedKey: StoredDocument, Hashable {
    static let kind = DocumentKind.attestation

    var key: AttestedPublicKey
    /// See ``AttestedUse/device(_:)``.
    var device: String
    /// The account of the device at the attestation.
    var account: Identifier
    /// The counter of the last assertion; 0 before the first one.
    var counter: UInt32

    var documentID: String { Self.id(key.id) }
    var documentAccount: Identifier? { account }

    /// The number of bytes of a key's identifier, a SHA-256.
    static let idBytes = 32

    static func id(_ key: [UInt8]) -> String { "key \(Base64URL.encode(key))" }
}

/// The key of a device or of a session.
struct AttestedUse: StoredDocument, Hashable {
    static let kind = DocumentKind.attestation

    /// See ``device(_:)`` and ``session(_:)``.
    var user: String
    /// The identifier of the key.
    var key: [UInt8]
    var account: Identifier
    /// The end of the session; `nil` for a device.
    var expiresAt: Timestamp?

    var documentID: String { user }
    var documentAccount: Identifier? { account }
    var documentExpiry: Timestamp? { expiresAt }

    /// Ids of devices may contain any character, those of documents only ASCII.
    static func device(_ id: String) -> String {
        "device \(Base64URL.encode(SHA256.hash(data: Data(id.utf8))))"
    }

    static func session(_ id: Identifier) -> String { "session \(id)" }
}

/// A verified attestation or assertion, before it takes effect.
struct DeviceProof: Hashable, Sendable {
    var challenge: SpentChallenge
    var key: AttestedPublicKey
    /// The counter of an assertion; `nil` for an attestation.
    var counter: UInt32?

    /// The keys of the documents that ``apply(to:of:_:)`` reads.
    func keys(of device: String?) -> [Key] {
        [SpentChallenge.key(challenge.documentID), AttestedKey.key(AttestedKey.id(key.id))]
            + (device.map { [AttestedUse.key(AttestedUse.device($0))] } ?? [])
    }

    /// Returns the changes of a proof of a device.
    ///
    /// An attestation gives the device a new key; the same one again changes at most the account of
    /// the key. An assertion must be by the device's key, with a larger counter than the last one.
    ///
    /// - Parameters:
    ///   - device: The device.
    ///   - account: Its account.
    ///   - loaded: The documents of ``keys(of:)``.
    /// - Returns: The changes.
    /// - Throws: `attestation_failed`.
    func apply(
        to device: String,
        of account: Identifier,
        _ loaded: Loaded
    ) throws(Problem) -> [Change] {
        let user = AttestedUse.device(device)
        if counter != nil {
            guard try loaded.document(AttestedUse.self, user)?.key == key.id else {
                throw AttestationFault.key.problem
            }
            return try assert(loaded)
        }
        let known = try loaded.document(AttestedKey.self, AttestedKey.id(key.id))
        let former = try loaded.document(AttestedUse.self, user)?.key
        // The nonce of an attestation contains its challenge, so this is the same request again,
        // whose response was lost.
        if try isSpent(loaded), var known, known.device == user, former == key.id {
            guard known.account != account else { return [] }
            // The device has moved to another account since the first request.
            known.account = account
            return [.put(known), .put(AttestedUse(user: user, key: key.id, account: account))]
        }
        let spent = try spend(loaded)
        guard known == nil else { throw AttestationFault.key.problem }
        let new = AttestedKey(key: key, device: user, account: account, counter: 0)
        return (former.map { [.delete(AttestedKey.key(AttestedKey.id($0)))] } ?? [])
            + [spent, .put(new), .put(AttestedUse(user: user, key: key.id, account: account))]
    }

    /// Returns the changes of an assertion.
    ///
    /// - Throws: `attestation_failed`.
    func assert(_ loaded: Loaded) throws(Problem) -> [Change] {
        let spent = try spend(loaded)
        guard let counter,
            var known = try loaded.document(AttestedKey.self, AttestedKey.id(key.id)),
            known.key == key
        else { throw AttestationFault.key.problem }
        guard counter > known.counter else { throw AttestationFault.counter.problem }
        known.counter = counter
        return [spent, .put(known)]
    }

    private func spend(_ loaded: Loaded) throws(Problem) -> Change {
        guard try !isSpent(loaded) else { throw AttestationFault.challengeUsed.problem }
        return .put(challenge)
    }

    private func isSpent(_ loaded: Loaded) throws(Problem) -> Bool {
        try loaded.document(SpentChallenge.self, challenge.documentID) != nil
    }

    /// Returns the change that binds a session to the key.
    static func bind(_ session: SessionRow, to key: [UInt8]) -> Change {
        .put(
            AttestedUse(
                user: AttestedUse.session(session.id),
                key: key,
                account: session.account,
                expiresAt: session.expiresAt
            )
        )
    }
}
