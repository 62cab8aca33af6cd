import SanguineModel

/// The proof that the device of a session asks, and not only someone with a copy of its access
/// token.
///
/// It is needed for a request whose effect lasts longer than the access token: the deletion of the
/// account, another login of a registered account, and a code for another device. With
/// ``AuthoritySettings/guestsNeedProof``, the registration and the merge of a guest need it too.
struct FreshProof: Hashable, Sendable {
    /// The time after a sign-in in which no other proof is needed: 10 minutes.
    static let freshTime = Duration.seconds(600)

    /// The session of the access token.
    var session: Identifier
    /// The refresh token that the body repeats, which must be the newest of the session; `nil` for
    /// none.
    var token: RefreshToken?

    /// The key of the row that ``check(_:in:at:)`` needs.
    var key: Key { .session(session) }

    /// Whether a request about an account must have the proof.
    ///
    /// By default, the registration of a guest needs none, because other clients do not send it. A
    /// proof that is sent must be right.
    func isNeeded(by account: AccountRow, _ settings: AuthoritySettings) -> Bool {
        token != nil || account.profile.kind == .registered || settings.guestsNeedProof
    }

    /// Checks that the session has not ended, and the proof.
    ///
    /// - Throws: `session_ended`, or `credentials_invalid` without the proof.
    func check(
        _ loaded: Loaded,
        in account: AccountRow,
        at now: Timestamp
    ) throws(Problem) {
        guard let session = loaded.session(session), session.isOpen(in: account) else {
            throw .sessionOver
        }
        if let token {
            guard token.session == session.id, token.generation == session.generation else {
                throw .proofWrong
            }
        } else {
            guard now - session.id.moment <= Self.freshTime else { throw .proofMissing }
        }
    }
}

extension Problem {
    fileprivate static var proofMissing: Problem {
        Problem(
            .credentialsInvalid,
            """
            Repeat the session's newest refresh token as 'refreshToken', or sign in again: within \
            ten minutes of a sign-in no token is needed.
            """
        )
    }
}
