import SanguineModel

extension Authority {
    /// Binds the identity of a provider's token to the account, registers the account, and ends all
    /// its other sessions.
    ///
    /// - Parameters:
    ///   - request: The provider, its token and the nonce.
    ///   - identity: The caller.
    ///   - key: The idempotency key, with which a lost response is repeated; `nil` for none.
    /// - Returns: The account with a new session, and the head that includes the change.
    /// - Throws: `invalid_content` for an unknown provider, `identity_token_invalid`,
    ///   `credentials_invalid` for a registered account without a fresh proof, `identity_taken` if
    ///   the identity belongs to another account, or `overloaded` if the provider's keys cannot be
    ///   fetched.
    func register(
        _ request: IdentityRequest,
        _ identity: Identity,
        key: String? = nil
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        let verified = try await identityTokens.verify(request)
        let (_, head) = try await account(identity.account)
        let use = key.map {
            IdentityTokenUse(
                path: "accounts/identity",
                key: $0,
                nonce: request.nonce,
                account: identity.account
            )
        }
        if let signedIn = try await repeated(verified, use) { return (signedIn, head) }
        return try await once(verified, use) { () throws(Problem) in
            try await register(
                .identity(provider: verified.provider, subject: verified.subject),
                email: verified.email,
                refreshToken: request.refreshToken,
                identity
            )
        } session: {
            $0.0.session
        }
    }

    /// Signs in to the account of a provider's identity.
    ///
    /// - Parameters:
    ///   - provider: The name of the provider in the settings.
    ///   - identityToken: The token.
    ///   - nonce: The nonce of the token, as the app created it.
    ///   - guest: The guest that the caller was; merged into the account. `nil` for none.
    ///   - key: The idempotency key, with which a lost response is repeated; `nil` for none.
    ///   - refreshToken: The newest refresh token of the guest, as its proof. Default: none.
    /// - Returns: The account with its new session.
    /// - Throws: `invalid_content` for an unknown provider, `identity_token_invalid`,
    ///   `credentials_invalid` if no account has the identity, `overloaded` if the provider's keys
    ///   cannot be fetched, or the refusal of a merge.
    func signIn(
        provider: String,
        identityToken: String,
        nonce: String,
        as guest: Identity?,
        key: String? = nil,
        refreshToken: String? = nil
    ) async throws(Problem) -> SignedIn {
        let request = IdentityRequest(
            provider: provider,
            identityToken: identityToken,
            nonce: nonce
        )
        let use = key.map {
            IdentityTokenUse(path: "sessions", key: $0, nonce: nonce, account: guest?.account)
        }
        let verified = try await identityTokens.verify(request)
        let account = try await account(of: verified)
        do throws(Problem) {
            if var signedIn = try await repeated(verified, use) {
                if let guest { signedIn.merged = try await merged(guest) }
                return signedIn
            }
            return try await once(verified, use) { () throws(Problem) in
                try await enter(account, as: guest, refreshToken: refreshToken)
            } session: {
                $0.session
            }
        } catch {
            // A merge is repeated without a key as well, and returns the session if it is unused.
            guard error.code == .identityTokenInvalid, let guest,
                try await alias(of: guest.account) == account,
                // No preview has this digest, so nothing but the earlier merge can be returned.
                let signedIn = try? await merge(guest, into: account, expecting: []).0
            else { throw error }
            return signedIn
        }
    }

    /// Returns the account of an identity token, which counts as used afterwards.
    func proven(_ request: IdentityRequest) async throws(Problem) -> Identifier {
        let verified = try await identityTokens.verify(request)
        let account = try await account(of: verified)
        return try await once(verified, nil) { () throws(Problem) in
            account
        } session: { _ in
            nil
        }
    }

    private func account(of verified: VerifiedIdentity) async throws(Problem) -> Identifier {
        let name = Login.Name.identity(provider: verified.provider, subject: verified.subject)
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([Login.key(name.text)])
        }
        guard let login = try loaded.document(Login.self, name.text) else {
            throw Problem(
                .credentialsInvalid,
                """
                No account has this identity. Bind it to a guest's account with POST \
                /v1/accounts/identity; the same token can be used for that.
                """
            )
        }
        return login.account
    }

    /// Returns the response to the same request, which came before; `nil` if there is none.
    ///
    /// The session of the response must be unused, as that of a lost refresh.
    private func repeated(
        _ verified: VerifiedIdentity,
        _ use: IdentityTokenUse?
    ) async throws(Problem) -> SignedIn? {
        guard let use else { return nil }
        let token = SpentIdentityToken(verified, by: use, at: clock.now())
        let found = try await read { storage throws(StorageError) in
            try await storage.load([SpentIdentityToken.key(token.documentID)])
        }
        guard try found.document(SpentIdentityToken.self, token.documentID) != nil else {
            return nil
        }
        let used = IdentityTokenFault.used.problem
        guard let id = try await perform(token.spending)?.session,
            let session = try await session(id), session.generation == 0, session.endedAt == nil
        else { throw used }
        return SignedIn(
            account: try await account(session.account).0,
            session: try await issue(session)
        )
    }

    /// Returns what an account received from a guest; `nil` if it was not merged.
    private func merged(_ guest: Identity) async throws(Problem) -> MergedGuest? {
        let id = CompletedMerge.id(guest.account)
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([CompletedMerge.key(id)])
        }
        return try loaded.document(CompletedMerge.self, id)?.merged
    }

    /// Performs work for which a token may be used once.
    ///
    /// The token is marked before the work. If the work is refused, so that nothing was changed,
    /// the token can be used again: for a sign-in after `identity_taken`, for example.
    private func once<Value: Sendable>(
        _ verified: VerifiedIdentity,
        _ use: IdentityTokenUse?,
        _ work: () async throws(Problem) -> Value,
        session: (Value) -> Session?
    ) async throws(Problem) -> Value {
        let token = SpentIdentityToken(verified, by: use, at: clock.now())
        guard try await perform(token.spending) == nil else {
            // The same request was faster, and has just finished.
            throw .stillRuns
        }
        do throws(Problem) {
            let value = try await work()
            if use != nil, let text = session(value)?.refreshToken,
                let opened = RefreshToken(text, key: keys.refreshKey)
            {
                // Without the record, a repetition is refused.
                try? await perform(token.opened(opened.session))
            }
            return value
        } catch {
            let status = error.code.meaning.status
            // After another error, the work may have been done.
            if status < 500 || error.code == .overloaded {
                try? await perform(token.restoring)
            }
            throw error
        }
    }
}
