public import Foundation
public import SanguineModel

// Upgrade: a guest becomes a registered user with the same account.
extension UserAccount {
    private var calls: CredentialCalls { CredentialCalls(users: users) }

    /// Whether the user must sign in: the session of a registered user was ended, for example from
    /// another device, or the guest was registered, or merged into an account, on another device.
    ///
    /// The user's data on this device stays readable, and operations wait. After a sign-in to the
    /// same account, or to the one into which the guest was merged, everything continues. After a
    /// sign-in to any other account, and after ``SanguineClient/signOut(keeping:)``, operations
    /// that were not sent are kept for the former user for 90 days, and sent as no other user; see
    /// ``Outbox/ofOthers``.
    public var needsSignIn: Bool { users.current.session.needsSignIn }

    /// Sends a code to an e-mail address, which the account gets when the code is verified.
    ///
    /// Nothing is bound or reserved before ``verify(code:)``.
    ///
    /// - Parameters:
    ///   - email: The address.
    ///   - password: The password for later sign-ins, 8 to 256 characters.
    /// - Returns: The masked address, and the time after which the code is void.
    /// - Throws: ``SanguineError``: a problem with `invalid_content` or `rate_limited`.
    @discardableResult
    public nonisolated(nonsending) func upgrade(
        email: String,
        password: String
    ) async throws(SanguineError) -> VerificationStarted.Verification {
        let body = UpgradeRequest(
            email: email,
            password: password,
            refreshToken: try await newestToken()
        )
        return try await started("POST", "/v1/accounts/upgrade", body)
    }

    /// Binds the e-mail address of ``upgrade(email:password:)`` to the account.
    ///
    /// The account keeps its id and everything on this device. All other sessions end.
    ///
    /// - Throws: ``SanguineError``: a problem with `verification_failed` for a wrong code, or
    ///   `email_taken` if the address belongs to another account: sign in to that account instead.
    @discardableResult
    public nonisolated(nonsending) func verify(
        code: String
    ) async throws(SanguineError) -> Account {
        try await calls.signIn("/v1/accounts/verify", CodeRequest(code: code), .token)
    }

    /// Binds an identity of an OpenID provider to the account, which becomes registered.
    ///
    /// - Parameters:
    ///   - provider: The provider's name in the server's configuration, such as `apple`.
    ///   - identityToken: The token from the provider.
    ///   - nonce: The random string with which the token was requested.
    /// - Returns: The account, with the same id.
    /// - Throws: ``SanguineError``: a problem with `identity_token_invalid`, or `identity_taken` if
    ///   the identity belongs to another account: sign in to that account instead.
    @discardableResult
    public nonisolated(nonsending) func link(
        provider: String,
        identityToken: String,
        nonce: String
    ) async throws(SanguineError) -> Account {
        let body = IdentityRequest(
            provider: provider,
            identityToken: identityToken,
            nonce: nonce,
            refreshToken: try await newestToken()
        )
        return try await calls.signIn("/v1/accounts/identity", body, .token)
    }

    // MARK: - Ways to sign in

    /// Returns the ways to sign in to the account, the oldest first; none for a guest.
    ///
    /// - Throws: ``SanguineError``.
    public nonisolated(nonsending) func logins() async throws(SanguineError) -> [LoginInfo] {
        let response = try await calls.send("GET", "/v1/account/logins")
        return try WireCoding.decode(Items<LoginInfo>.self, from: response).items
    }

    /// Removes a way to sign in, and signs out all other devices of the account.
    ///
    /// Their waiting operations stay there until the user signs in again, with another login.
    ///
    /// - Parameter login: The id of the login; see ``logins()``.
    /// - Returns: The remaining logins.
    /// - Throws: ``SanguineError``: a problem with `last_login` for the only login, or `not_found`.
    @discardableResult
    public nonisolated(nonsending) func unlink(
        _ login: LoginInfo.ID
    ) async throws(SanguineError) -> [LoginInfo] {
        let allowed = CharacterSet.urlPathAllowed.subtracting(CharacterSet(charactersIn: "/;"))
        let id = login.addingPercentEncoding(withAllowedCharacters: allowed) ?? login
        let body = LoginRemoval(refreshToken: try await newestToken())
        let response = try await calls.send("DELETE", "/v1/account/logins/\(id)", body)
        services.queries.invalidate(.account)
        return try WireCoding.decode(Items<LoginInfo>.self, from: response).items
    }

    // MARK: - Password and e-mail

    /// Sends a code for a new password to an e-mail address, if it belongs to an account.
    ///
    /// - Throws: ``SanguineError``; an unknown address is no error.
    public nonisolated(nonsending) func resetPassword(
        email: String
    ) async throws(SanguineError) {
        let body = PasswordResetRequest(email: email)
        try await calls.send("POST", "/v1/accounts/password/reset", body, .nothing)
    }

    /// Sets a new password with the code of ``resetPassword(email:)``.
    ///
    /// Sign in with it afterwards.
    ///
    /// - Throws: ``SanguineError``: a problem with `verification_failed` or `invalid_content`.
    public nonisolated(nonsending) func resetPassword(
        email: String,
        code: String,
        password: String
    ) async throws(SanguineError) {
        let body = PasswordResetVerification(email: email, code: code, password: password)
        try await calls.send("POST", "/v1/accounts/password/reset/verify", body, .nothing)
    }

    /// Changes the password.
    ///
    /// - Throws: ``SanguineError``: a problem with `credentials_invalid` for a wrong password.
    public nonisolated(nonsending) func changePassword(
        _ current: String,
        to password: String
    ) async throws(SanguineError) {
        let body = PasswordChange(current: current, password: password)
        try await calls.send("PUT", "/v1/account/password", body)
    }

    /// Sends a code to a new e-mail address, which replaces the old one when the code is verified.
    ///
    /// - Returns: The masked address, and the time after which the code is void.
    /// - Throws: ``SanguineError``: a problem with `credentials_invalid` for a wrong password.
    @discardableResult
    public nonisolated(nonsending) func changeEmail(
        to email: String,
        password: String
    ) async throws(SanguineError) -> VerificationStarted.Verification {
        let body = EmailChange(email: email, password: password)
        return try await started("POST", "/v1/account/email", body)
    }

    /// Replaces the e-mail address with that of ``changeEmail(to:password:)``.
    ///
    /// - Throws: ``SanguineError``: a problem with `verification_failed` or `email_taken`.
    public nonisolated(nonsending) func verifyEmail(
        code: String
    ) async throws(SanguineError) {
        try await calls.send("POST", "/v1/account/email/verify", CodeRequest(code: code))
        services.queries.invalidate(.account)
    }

    /// Returns the newest refresh token, which proves that the user's own device asks; signs in a
    /// guest if there is no user.
    private nonisolated(nonsending) func newestToken() async throws(SanguineError) -> String? {
        let user = users.current
        user.authorizer.allowSignIn()
        _ = try await user.authorizer.accessToken()
        return user.session.refreshToken
    }

    private nonisolated(nonsending) func started(
        _ method: String,
        _ path: String,
        _ body: some Encodable & Sendable
    ) async throws(SanguineError) -> VerificationStarted.Verification {
        let response = try await calls.send(method, path, body)
        return try WireCoding.decode(VerificationStarted.self, from: response).verification
    }

    // MARK: - Second device

    /// Returns a short code that signs in a second device to this account, even for a guest.
    ///
    /// The code is valid once and for ten minutes. Show it to the user, who types it on the other
    /// device; see ``SanguineClient/signIn(moveCode:)``.
    ///
    /// - Throws: ``SanguineError``: a problem with `rate_limited` after too many codes.
    public nonisolated(nonsending) func moveCode() async throws(SanguineError) -> MoveCode {
        let body = MoveCodeRequest(refreshToken: try await newestToken())
        let response = try await calls.send("POST", "/v1/sessions/codes", body)
        return try WireCoding.decode(MoveCode.self, from: response)
    }

    // MARK: - Merge

    /// Returns what a sign-in of this guest to an existing account would do, without doing it.
    ///
    /// - Throws: ``SanguineError``: a problem with `credentials_invalid`.
    public nonisolated(nonsending) func previewMerge(
        email: String,
        password: String
    ) async throws(SanguineError) -> MergeOffer {
        try await preview(SessionRequest(email: email, password: password))
    }

    /// Returns what a sign-in of this guest to an existing account would do, without doing it.
    ///
    /// - Throws: ``SanguineError``: a problem with `identity_token_invalid`.
    public nonisolated(nonsending) func previewMerge(
        provider: String,
        identityToken: String,
        nonce: String
    ) async throws(SanguineError) -> MergeOffer {
        try await preview(
            SessionRequest(provider: provider, identityToken: identityToken, nonce: nonce)
        )
    }

    private nonisolated(nonsending) func preview(
        _ body: SessionRequest
    ) async throws(SanguineError) -> MergeOffer {
        let response = try await calls.send("POST", "/v1/accounts/merge/preview", body)
        return try WireCoding.decode(MergeOffer.self, from: response)
    }

    /// Merges this guest into the account of a preview, and continues as that account.
    ///
    /// The user keeps everything on this device, as with
    /// ``SanguineClient/signIn(email:password:)``.
    ///
    /// - Throws: ``SanguineError``: a problem with `merge_stale` if one side has changed since the
    ///   preview: request another one.
    @discardableResult
    public nonisolated(nonsending) func merge(
        _ offer: MergeOffer
    ) async throws(SanguineError) -> Account {
        let body = MergeRequest(
            mergeToken: offer.mergeToken,
            refreshToken: await users.current.guestToken()
        )
        return try await calls.signIn("/v1/accounts/merge", body, .guest)
    }

    // MARK: - Export

    /// Writes everything of the account to a file, as JSON Lines, when it has arrived completely.
    ///
    /// The file is written as it arrives, so that its size is not limited by memory.
    ///
    /// - Parameter file: The file, which is replaced.
    /// - Throws: ``SanguineError``; the file has not changed then.
    public nonisolated(nonsending) func export(to file: URL) async throws(SanguineError) {
        let user = users.current
        user.authorizer.allowSignIn()
        let request = try TransportRequest(
            base: services.configuration.server,
            path: "/v1/account/export",
            headers: ["Accept": "application/jsonl"],
            timeout: SessionLimits.exportTimeout
        )
        try await AccountExport(request, of: user, to: file).run()
    }
}
