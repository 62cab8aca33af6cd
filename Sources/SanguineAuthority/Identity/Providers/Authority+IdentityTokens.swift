import SanguineModel

extension Authority {
    /// Binds the identity of a provider's token to the account, registers the account, and ends all
    /// its other sessions.
    ///
    /// - Parameters:
    ///   - request: The provider, its token and the nonce.
    ///   - identity: The caller.
    /// - Returns: The account with a new session, and the head that includes the change.
    /// - Throws: `invalid_content` for an unknown provider, `identity_token_invalid`,
    ///   `credentials_invalid` for a registered account without a fresh proof, `identity_taken` if
    ///   the identity belongs to another account, or `overloaded` if the provider's keys cannot be
    ///   fetched.
    func register(
        _ request: IdentityRequest,
        _ identity: Identity
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        let verified = try await identityTokens.verify(request)
        let account = try await account(identity.account).0
        return try await once(verified) { () throws(Problem) in
            try await register(
                .identity(provider: verified.provider, subject: verified.subject),
                // A verified login is not replaced by an address that is only shown.
                email: account.email == nil ? verified.email : nil,
                refreshToken: request.refreshToken,
                identity
            )
        }
    }

    /// Signs in to the account of a provider's identity.
    ///
    /// - Parameters:
    ///   - provider: The name of the provider in the settings.
    ///   - identityToken: The token.
    ///   - nonce: The nonce of the token, as the app created it.
    ///   - guest: The guest that the caller was; merged into the account. `nil` for none.
    /// - Returns: The account with its new session.
    /// - Throws: `invalid_content` for an unknown provider, `identity_token_invalid`,
    ///   `credentials_invalid` if no account has the identity, `overloaded` if the provider's keys
    ///   cannot be fetched, or the refusal of a merge.
    func signIn(
        provider: String,
        identityToken: String,
        nonce: String,
        as guest: Identity?
    ) async throws(Problem) -> SignedIn {
        let request = IdentityRequest(
            provider: provider,
            identityToken: identityToken,
            nonce: nonce
        )
        return try await proven(request) { account throws(Problem) in
            try await enter(account, as: guest)
        }
    }

    /// Performs work for the account of an identity token, which counts as used afterwards.
    func proven<Value: Sendable>(
        _ request: IdentityRequest,
        _ work: (Identifier) async throws(Problem) -> Value
    ) async throws(Problem) -> Value {
        let verified = try await identityTokens.verify(request)
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
        return try await once(verified) { () throws(Problem) in try await work(login.account) }
    }

    /// Performs work for which a token may be used once.
    ///
    /// The token is marked before the work. If the work is refused, so that nothing was changed,
    /// the token can be used again: for a sign-in after `identity_taken`, for example.
    private func once<Value: Sendable>(
        _ verified: VerifiedIdentity,
        _ work: () async throws(Problem) -> Value
    ) async throws(Problem) -> Value {
        let token = SpentIdentityToken(verified)
        try await perform(token.spending)
        do throws(Problem) {
            return try await work()
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
