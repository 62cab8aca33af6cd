public import SanguineModel

extension SanguineClient {
    private var credentials: CredentialCalls { CredentialCalls(users: users) }

    /// Signs in to the account of an e-mail address.
    ///
    /// - If a guest uses the app, the guest becomes a part of the account: on the server with
    ///   records, balance, calls and files, and on this device with values, operations that were
    ///   not sent, and running calls. Show ``UserAccount/previewMerge(email:password:)`` first.
    /// - If the account's own session has ended, it continues with everything on this device.
    /// - If the guest of this device was merged into the account on another device, the server
    ///   confirms that, and the account continues with everything on this device as well: values,
    ///   calls, and operations that were not sent. They keep their ids, so that those which arrived
    ///   before the merge take effect once. See ``UserAccount/needsSignIn``.
    /// - If it was merged into another account, the users change. The guest's waiting operations
    ///   are never sent as this account: they are kept for 90 days, counted by ``Outbox/ofOthers``,
    ///   and sent after a sign-in to the account of the merge.
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
        let body = SessionRequest(
            email: email,
            password: password,
            refreshToken: await users.current.guestToken()
        )
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
        let body = SessionRequest(
            provider: provider,
            identityToken: identityToken,
            nonce: nonce,
            refreshToken: await users.current.guestToken()
        )
        return try await credentials.signIn("/v1/sessions", body, .guestToken)
    }

    /// Signs in this device to the account of another one, by the code that it shows; see
    /// ``UserAccount/moveCode()``.
    ///
    /// Both devices then belong to the account, even if it is a guest's. A guest of this device
    /// without data on the server becomes a part of the account, with the operations that wait
    /// here. Any other user changes, as after ``signOut(keeping:)``.
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
    /// - Returns: The progress of the removal, which continues on the server; without the number of
    ///   removed rows if the account was deleted before.
    /// - Throws: ``SanguineError``.
    @discardableResult
    public nonisolated(nonsending) func deleteAccount() async throws(SanguineError)
        -> RemovalStatus
    {
        let user = users.current
        let account = user.session.account
        let response: TransportResponse
        do throws(SanguineError) {
            _ = try await user.authorizer.accessToken()  // The newest token proves the request.
            response = try await credentials.send(
                "DELETE",
                "/v1/account",
                DeletionRequest(refreshToken: user.session.refreshToken),
                as: user
            )
        } catch {
            // The answer was lost, or another device was faster. Another request may have learned
            // it first and ended the user; then the error is only that the user has changed.
            guard user.session.accountIsDeleted, let account else { throw error }
            users.end(user)
            let now = configuration.clock.now()
            return RemovalStatus(account: account, state: .running, startedAt: now, removed: 0)
        }
        let isFaulty = configuration.plantedFault == .keepsDeletedOperations
        users.end(user, keeping: isFaulty ? .waitingOperations() : .nothing)
        return try WireCoding.decode(RemovalAnswer.self, from: response).removal
    }
}

// MARK: - Users of the app's own backend, and the end of a session

extension SanguineClient {
    /// The id of the signed-in account; `nil` before the first call of the server and after a
    /// sign-out.
    ///
    /// It is `nil` as soon as a sign-out begins, and set once everything that the client shows
    /// belongs to this account.
    public var accountId: Identifier? { users.current.session.account }

    /// The data that a sign-out keeps on the device for the user's return.
    public enum Keeping: Hashable, Sendable {
        /// Operations that wait in the outbox or were refused, for this long according to the
        /// device's clock.
        ///
        /// They are removed at the first launch, sign-in or sign-out after that. Default: 90 days,
        /// see ``ClientLimits/waitingOperationsKept``. With a duration of zero or less, nothing is
        /// kept.
        ///
        /// The clock may be wrong: at most 7 days count between two launches, sign-ins or
        /// sign-outs, see ``ClientLimits/countedGap``. If the user is away for longer, the
        /// operations are kept for correspondingly longer.
        case waitingOperations(for: Duration = ClientLimits.waitingOperationsKept)
        /// Nothing: operations that were not sent are lost.
        case nothing

        /// The time for which operations are kept, bounded to what any clock can reach.
        var duration: Duration {
            switch self {
            case .waitingOperations(let duration):
                min(max(duration, .zero), .hours(24 * 366 * 10_000))
            case .nothing: .zero
            }
        }
    }

    /// The id that ``signIn(as:)`` was called with; `nil` before the call and after a sign-out.
    ///
    /// It is `nil` as soon as a sign-out begins, and set once everything that the client shows
    /// belongs to this user. It survives a restart. On a client with a Sanguine server it is `nil`;
    /// see ``accountId``.
    public var userID: String? { users.current.owner?.userID }

    /// Signs in a user of the app's own backend, who owns cached values and operations afterwards.
    ///
    /// ```swift
    /// tokens.current = session.token
    /// try client.signIn(as: session.user.id)
    /// ```
    ///
    /// - If no user is signed in, the user takes over the values and operations that the app has
    ///   set, fetched and performed so far: a guest who signs in keeps everything.
    /// - If this user is signed in, nothing happens: call it at each launch.
    /// - If another user is signed in, they are signed out first, as ``signOut(keeping:)`` does by
    ///   default.
    ///
    /// When the method returns, operations that the user left at an earlier sign-out are visible,
    /// and the client sends them. Observed queries without a value are fetched. The user is also
    /// stored for the next launch, so the call waits a few milliseconds for the disk.
    ///
    /// Call ``signOut(keeping:)`` before ``Configuration/baseHeaders`` returns another user's
    /// token.
    ///
    /// - Parameter userID: The id of the user in the backend, 1 to ``ClientLimits/userIDBytes``
    ///   bytes without control characters. Ids are compared by their bytes.
    /// - Throws: ``SanguineError``: ``SanguineError/signInRefused(_:)`` if the id is not valid, or
    ///   if the client has a Sanguine server, whose sessions identify the user;
    ///   ``SanguineError/store(_:)`` if the user cannot be stored: then no user is signed in, and a
    ///   previous one is signed out; ``SanguineError/closed``.
    public func signIn(as userID: String) throws(SanguineError) {
        if let refusal = configuration.refusal { throw refusal }
        guard configuration.server == nil else {
            throw .signInRefused(
                """
                The client has a Sanguine 'server', whose sessions determine the user. Leave \
                signIn(as:) out, or create the client without 'server'
                """
            )
        }
        try users.signIn(as: AccountKey(userID: userID))
    }

    /// Signs the user out: ends the session and removes their balance, records and cached values
    /// from memory and from the client's files, byte for byte.
    ///
    /// Operations that were not sent, or were refused, stay in the outbox until the user returns,
    /// for as long as `keeping` says. No other user sees or sends them; see ``Outbox/ofOthers``.
    ///
    /// All of this is done before the method suspends, and a response that arrives later changes
    /// nothing. Then the client ends the session on the Sanguine server, in one attempt of at most
    /// 8 seconds. If the server cannot be reached, the session expires there.
    ///
    /// If the disk fails, the remaining data is marked and not read again, neither now nor at the
    /// next launch; ``storeReport`` contains the failure.
    ///
    /// The device's identity stays. A guest of a Sanguine server who signs out and continues is
    /// this device's guest again, with the same account and the same balance.
    ///
    /// - Parameter keeping: The data that stays on the device. Default: waiting operations, for 90
    ///   days.
    public nonisolated(nonsending) func signOut(
        keeping: Keeping = .waitingOperations()
    ) async {
        await users.signOut(keeping)
    }

    /// Removes all data of the client from memory and from disk, of every user and of the device;
    /// operations that were not sent are lost.
    ///
    /// The user is signed out, and operations that former users left for their return are removed,
    /// as are the values with the device's ``Policy/Audience``. The client then continues like a
    /// new one, in the same folder. It does not touch the app's own files there.
    ///
    /// With a Sanguine server, the session ends as in a sign-out, and the device's identity is
    /// erased: the next call signs in a new guest, and the former guest's account can no longer be
    /// reached.
    ///
    /// All of this is done before the method suspends. A companion switches to the fresh client on
    /// its own.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if some data could not be removed: it is not read
    ///   again, and another call removes it; ``SanguineError/closed``.
    public nonisolated(nonsending) func eraseLocalData() async throws(SanguineError) {
        try await users.erase()
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
