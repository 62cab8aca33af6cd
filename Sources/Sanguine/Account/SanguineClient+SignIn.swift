public import SanguineModel

extension SanguineClient {
    private var credentials: CredentialCalls { CredentialCalls(users: users) }

    /// Signs in to the account of an e-mail address.
    ///
    /// - If a guest uses the app, the guest becomes a part of the account: on the server with
    ///   records, balance, calls and files, and on this device with values, operations that were
    ///   not sent, and running calls. Show ``UserAccount/previewMerge(email:password:)`` first.
    /// - If the account's own session has ended, it continues with everything on this device.
    /// - If another registered user is signed in, the users change: the device keeps nothing of the
    ///   former one except waiting operations, as after ``signOut(keeping:)``.
    ///
    /// - Returns: The account.
    /// - Throws: ``SanguineError``: a problem with `credentials_invalid`, or `rate_limited` after
    ///   too many failures.
    @discardableResult
    public nonisolated(nonsending) func signIn(
        email: String,
        password: String
    ) async throws(SanguineError) -> Account {
        let body = SessionRequest(email: email, password: password)
        return try await credentials.signIn("/v1/sessions", body, .guestToken)
    }

    /// Signs in to the account of an OpenID identity; see ``signIn(email:password:)``.
    ///
    /// - Parameters:
    ///   - provider: The provider's name in the server's configuration, such as `apple`.
    ///   - identityToken: The token from the provider.
    ///   - nonce: The random string with which the token was requested.
    /// - Returns: The account.
    /// - Throws: ``SanguineError``: a problem with `identity_token_invalid` or
    ///   `credentials_invalid`.
    @discardableResult
    public nonisolated(nonsending) func signIn(
        provider: String,
        identityToken: String,
        nonce: String
    ) async throws(SanguineError) -> Account {
        let body = SessionRequest(provider: provider, identityToken: identityToken, nonce: nonce)
        return try await credentials.signIn("/v1/sessions", body, .guestToken)
    }

    /// Signs in this device to the account of another one, by the code that it shows; see
    /// ``UserAccount/moveCode()``.
    ///
    /// Both devices then belong to the account, also if it is a guest's. If this device has another
    /// account, the users change as after ``signOut(keeping:)``, unless the server merges them.
    ///
    /// - Parameter moveCode: The code; case, blanks and hyphens do not matter.
    /// - Returns: The account.
    /// - Throws: ``SanguineError``: a problem with `move_code_invalid` or `rate_limited`.
    @discardableResult
    public nonisolated(nonsending) func signIn(
        moveCode: String
    ) async throws(SanguineError) -> Account {
        let device = try session.device()
        let body = RedeemRequest(
            code: moveCode,
            deviceId: device.deviceId,
            deviceSecret: device.deviceSecret
        )
        return try await credentials.signIn("/v1/sessions/codes/redeem", body, .guestToken)
    }

    /// The signed-in devices of the account.
    public var sessions: DeviceSessions { DeviceSessions(users: users) }

    /// Deletes the account with all data on the server, and then the user's data on this device.
    ///
    /// The server keeps only anonymous ledger entries. Other devices of the account lose their
    /// sessions. On this device, the method does what ``signOut(keeping:)`` does without keeping
    /// anything, but only after the server has accepted: if it cannot be reached, nothing changes.
    ///
    /// - Returns: The progress of the removal, which continues on the server.
    /// - Throws: ``SanguineError``.
    @discardableResult
    public nonisolated(nonsending) func deleteAccount() async throws(SanguineError)
        -> RemovalStatus
    {
        let user = users.current
        _ = try await user.authorizer.accessToken()  // The newest token proves the request.
        let response = try await credentials.send(
            "DELETE",
            "/v1/account",
            DeletionRequest(refreshToken: user.session.refreshToken),
            as: user
        )
        let isFaulty = configuration.plantedFault == .keepsDeletedOperations
        users.end(user, keeping: isFaulty ? .waitingOperations() : .nothing)
        return try WireCoding.decode(RemovalAnswer.self, from: response).removal
    }
}

/// The signed-in devices of the user's account.
public struct DeviceSessions: Sendable {
    let users: UserSwitcher

    private var calls: CredentialCalls { CredentialCalls(users: users) }

    /// Returns the devices of the account.
    ///
    /// - Throws: ``SanguineError``.
    public nonisolated(nonsending) func list() async throws(SanguineError) -> [SessionInfo] {
        let response = try await calls.send("GET", "/v1/sessions")
        return try WireCoding.decode(Items<SessionInfo>.self, from: response).items
    }

    /// Signs out another device.
    ///
    /// - Parameter id: The id of its session; see ``list()``.
    /// - Throws: ``SanguineError``: a problem with `not_found`.
    public nonisolated(nonsending) func revoke(_ id: Identifier) async throws(SanguineError) {
        try await calls.send("DELETE", "/v1/sessions/\(id)")
    }

    /// Signs out all devices of the account, this one too.
    ///
    /// - Parameter keeping: The data that stays on this device; see
    ///   ``SanguineClient/signOut(keeping:)``.
    /// - Throws: ``SanguineError`` if the server cannot be reached; no device is signed out then.
    public nonisolated(nonsending) func signOutEverywhere(
        keeping: SanguineClient.Keeping = .waitingOperations()
    ) async throws(SanguineError) {
        let user = users.current
        try await calls.send("DELETE", "/v1/sessions", as: user)
        users.end(user, keeping: keeping)
    }
}
