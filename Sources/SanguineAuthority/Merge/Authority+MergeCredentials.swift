import SanguineModel

extension Authority {
    /// Returns the account of credentials, after checking them.
    ///
    /// An identity token counts as used: the merge itself needs only the token of the preview.
    ///
    /// - Parameters:
    ///   - credentials: The credentials: an e-mail address with its password, or an identity token.
    ///   - address: The address of the caller, which counts failures.
    /// - Returns: The account.
    /// - Throws: `invalid_content`, `rate_limited`, `credentials_invalid`,
    ///   `identity_token_invalid`.
    func account(
        proving credentials: SessionRequest,
        from address: String?
    ) async throws(Problem) -> Identifier {
        if let request = try credentials.identity {
            return try await proven(request)
        }
        return try await proven(credentials, from: address).account
    }
}

extension SessionRequest {
    /// The identity token; `nil` for an e-mail address.
    ///
    /// - Throws: `invalid_content` if a member is missing.
    var identity: IdentityRequest? {
        get throws(Problem) {
            guard let provider else { return nil }
            guard let identityToken, let nonce else {
                throw Problem(
                    .invalidContent,
                    "Add the members 'identityToken' and 'nonce', or send 'email' and 'password'."
                )
            }
            return IdentityRequest(provider: provider, identityToken: identityToken, nonce: nonce)
        }
    }
}
