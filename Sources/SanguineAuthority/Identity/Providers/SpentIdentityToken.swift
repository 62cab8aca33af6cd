import SanguineModel

/// A token that was used, until it can no longer be.
struct SpentIdentityToken: StoredDocument, Hashable {
    static let kind = DocumentKind.identityToken
    /// The time for which the response to the request that used the token is repeated: 60 s.
    ///
    /// As for refresh tokens, only until the session of the response is used.
    static let repeated = Duration.seconds(60)

    /// See ``VerifiedIdentity/fingerprint``.
    var fingerprint: String
    /// See ``VerifiedIdentity/expiresAt``.
    var expiresAt: Timestamp
    /// The hash of the request that used it, or `nil` if it had no idempotency key.
    ///
    /// See ``IdentityTokenUse``.
    var request: String?
    /// The time at which it was used.
    var usedAt: Timestamp?
    /// The session that the request opened; `nil` before it is open.
    var session: Identifier?

    var documentID: String { fingerprint }
    var documentAccount: Identifier? { nil }
    var documentExpiry: Timestamp? { expiresAt }

    init(_ verified: VerifiedIdentity, by use: IdentityTokenUse?, at now: Timestamp) {
        fingerprint = verified.fingerprint
        expiresAt = verified.expiresAt
        request = use?.hash
        usedAt = now
    }
}

/// A request that uses an identity token under an idempotency key.
///
/// A repetition must be the same request, with the same key: a copy of the token is not enough.
struct IdentityTokenUse: Hashable, Sendable {
    /// The path of the request.
    var path: String
    /// The `Idempotency-Key`.
    var key: String
    /// The nonce of the token.
    var nonce: String
    /// The account of the access token; `nil` for none.
    var account: Identifier?

    /// The hash of the request.
    var hash: String {
        let parts = Fingerprint(path, key, nonce, account?.description ?? "")
        return Base64URL.encode(parts.bytes)
    }
}

extension SpentIdentityToken {
    /// Marks the token as used.
    ///
    /// The outcome is `nil`, or what is stored of the same request, which came before.
    ///
    /// The command throws `identity_token_invalid` if another request used the token, and
    /// `operation_in_progress` if the same request has not finished.
    var spending: Command<SpentIdentityToken?> {
        Command(keys: [Self.key(documentID)]) { loaded throws(Problem) in
            guard let spent = try loaded.document(Self.self, documentID) else {
                return Decision(nil, changes: [.put(self)])
            }
            guard let request, spent.request == request, let now = usedAt, let first = spent.usedAt,
                first <= now, now - first <= Self.repeated
            else { throw IdentityTokenFault.used.problem }
            guard spent.session != nil else { throw .stillRuns }
            return Decision(spent)
        }
    }

    /// Records the session that the request opened, for a repetition.
    func opened(_ session: Identifier) -> Command<Void> {
        Command(keys: [Self.key(documentID)]) { loaded throws(Problem) in
            guard var spent = try loaded.document(Self.self, documentID) else {
                return Decision(())
            }
            spent.session = session
            return Decision((), changes: [.put(spent)])
        }
    }

    /// Makes the token usable again, because the request that used it was refused.
    var restoring: Command<Void> {
        Command(keys: [Self.key(documentID)]) { _ in Decision((), changes: [.delete(self)]) }
    }
}
