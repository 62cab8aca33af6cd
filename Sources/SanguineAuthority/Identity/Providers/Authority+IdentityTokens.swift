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
    ///   `identity_taken` if the identity belongs to another account, or `overloaded` if the
    ///   provider's keys cannot be fetched.
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
                identity
            )
        }
    }

    /// Signs in to the account of a provider's identity.
    ///
    /// A merge whose response was lost can be repeated by the guest with the same token. It returns
    /// the session that the merge opened, if it was not used yet.
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
        } repeating: { account throws(Problem) in
            guard let guest, try await alias(of: guest.account) == account else { return nil }
            // No preview has this digest, so nothing but the earlier merge can be returned.
            return try? await merge(guest, into: account, expecting: []).0
        }
    }

    /// Performs work for the account of an identity token, which counts as used afterwards.
    ///
    /// - Parameters:
    ///   - request: The token.
    ///   - work: The work for the account.
    ///   - repeated: Returns the result of the same work for a token that was used; `nil` if it was
    ///     used for something else. Default: always `nil`.
    /// - Returns: The result.
    /// - Throws: see ``signIn(provider:identityToken:nonce:as:)``.
    func proven<Value: Sendable>(
        _ request: IdentityRequest,
        _ work: (Identifier) async throws(Problem) -> Value,
        repeating repeated: (Identifier) async throws(Problem) -> Value? = { _ in nil }
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
        return try await once(verified) { () throws(Problem) in
            try await work(login.account)
        } repeating: { () throws(Problem) in
            try await repeated(login.account)
        }
    }

    /// Performs work for which a token may be used once.
    ///
    /// The token is marked before the work. If the work is refused, so that nothing was changed,
    /// the token can be used again: for a sign-in after `identity_taken`, for example.
    private func once<Value: Sendable>(
        _ verified: VerifiedIdentity,
        _ work: () async throws(Problem) -> Value,
        repeating repeated: () async throws(Problem) -> Value? = { nil }
    ) async throws(Problem) -> Value {
        let token = SpentIdentityToken(verified)
        do throws(Problem) {
            try await perform(token.spending)
        } catch {
            guard error.code == .identityTokenInvalid, let value = try await repeated() else {
                throw error
            }
            return value
        }
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
