import SanguineModel

/// A token that was used, until it can no longer be.
struct SpentIdentityToken: StoredDocument, Hashable {
    static let kind = DocumentKind.identityToken

    /// See ``VerifiedIdentity/fingerprint``.
    var fingerprint: String
    /// See ``VerifiedIdentity/expiresAt``.
    var expiresAt: Timestamp

    var documentID: String { fingerprint }
    var documentAccount: Identifier? { nil }
    var documentExpiry: Timestamp? { expiresAt }

    init(_ verified: VerifiedIdentity) {
        fingerprint = verified.fingerprint
        expiresAt = verified.expiresAt
    }
}

extension SpentIdentityToken {
    /// Marks the token as used.
    ///
    /// The command throws `identity_token_invalid` if it was used before.
    var spending: Command<Void> {
        Command(keys: [Self.key(documentID)]) { loaded throws(Problem) in
            guard try loaded.document(Self.self, documentID) == nil else {
                throw IdentityTokenFault.used.problem
            }
            return Decision((), changes: [.put(self)])
        }
    }

    /// Makes the token usable again, because the request that used it was refused.
    var restoring: Command<Void> {
        Command(keys: [Self.key(documentID)]) { _ in Decision((), changes: [.delete(self)]) }
    }
}
