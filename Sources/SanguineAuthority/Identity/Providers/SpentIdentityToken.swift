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

extension IdentityCommands {
    /// Marks a token as used.
    ///
    /// The command throws `identity_token_invalid` if it was used before.
    func spend(_ token: SpentIdentityToken) -> Command<Void> {
        Command(keys: [SpentIdentityToken.key(token.documentID)]) { loaded throws(Problem) in
            guard try loaded.document(SpentIdentityToken.self, token.documentID) == nil else {
                throw IdentityTokenFault.used.problem
            }
            return Decision((), changes: [.put(token)])
        }
    }

    /// Makes a token usable again, because the request that used it was refused.
    func restore(_ token: SpentIdentityToken) -> Command<Void> {
        Command(keys: [SpentIdentityToken.key(token.documentID)]) { _ in
            Decision((), changes: [.delete(token)])
        }
    }
}
