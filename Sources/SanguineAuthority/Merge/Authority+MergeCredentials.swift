import SanguineModel

extension Authority {
    /// Returns the account of credentials, after checking them.
    ///
    /// - Parameters:
    ///   - credentials: The credentials: an e-mail address with its password, or an identity token.
    ///   - address: The address of the caller, which counts failures.
    /// - Returns: The account.
    /// - Throws: `invalid_content`, `rate_limited`, `credentials_invalid`.
    func account(
        proving credentials: MergePreviewRequest,
        from address: String?
    ) async throws(Problem) -> Identifier {
        throw Problem(
            .credentialsInvalid,
            "Check the e-mail address and the password, or get a new identity token."
        )
    }
}
