package import SanguineModel

// The sessions of an account, and the codes that move it to another device.
extension Authority {
    /// Returns the live sessions of an account, most recently used first.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - current: The session of the caller; `nil` for none.
    /// - Returns: At most ``AuthoritySettings/sessionsPerAccount`` sessions.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails.
    package func sessions(
        of account: Identifier,
        current: Identifier? = nil
    ) async throws(Problem) -> Items<SessionInfo> {
        let now = clock.now()
        let query = AccountRowsQuery(
            .sessions,
            of: account,
            limit: max(1, settings.sessionsPerAccount)
        )
        let rows = try await read { storage throws(StorageError) in try await storage.rows(query) }
        let owner = try await read { storage throws(StorageError) in
            try await storage.load([.account(account)])
        }
        .account(account)
        let live = rows.compactMap { row -> SessionRow? in
            guard case .session(let session) = row, session.isOpen(in: owner),
                now < session.expiresAt
            else { return nil }
            return session
        }
        .sorted { ($1.rotatedAt, $1.id) < ($0.rotatedAt, $0.id) }
        return Items(items: live.map { $0.info(current: current) })
    }

    /// Ends a session of an account, with its access tokens and live connections, and the access of
    /// its device to a registered account.
    ///
    /// - Throws: `not_found` if the account has no such live session.
    package func endSession(
        _ session: Identifier,
        of account: Identifier,
        by note: AuditNote? = nil
    ) async throws(Problem) {
        guard let row = try await self.session(session), row.account == account else {
            throw .noSession
        }
        try await perform(identity.end(row), by: note)
        tokens.end(session, of: account)
    }

    /// Ends all access to an account in one commit: its sessions, the codes for other devices, and
    /// the access of devices to a registered account.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - kept: The session to keep, with its device; `nil` for none.
    ///   - note: The entry of the audit log. Default: none.
    /// - Returns: The number of ended sessions.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails.
    @discardableResult
    package func endSessions(
        of account: Identifier,
        except kept: Identifier? = nil,
        by note: AuditNote? = nil
    ) async throws(Problem) -> Int {
        var row: SessionRow?
        if let kept, let found = try await session(kept), found.account == account { row = found }
        try await perform(identity.beginEra(of: account, except: row), by: note)
        return await eraBegan(of: account)
    }

    /// Ends what earlier eras of an account have in this process, and marks their sessions as
    /// ended.
    ///
    /// Call it after the era is stored. The marks are no condition for the end of the sessions, so
    /// an error of the storage is not reported: the remaining sessions expire unmarked.
    ///
    /// - Returns: The number of sessions that were marked.
    @discardableResult
    func eraBegan(of account: Identifier) async -> Int {
        tokens.review(account)
        var count = 0
        while let ended = try? await perform(identity.endSome(of: account)), !ended.isEmpty {
            count += ended.count
        }
        return count
    }

    func session(_ id: Identifier) async throws(Problem) -> SessionRow? {
        try await read { storage throws(StorageError) in
            try await storage.load([.session(id)])
        }
        .session(id)
    }

    /// Creates the code with which another device joins the account; an earlier one is void.
    ///
    /// - Parameters:
    ///   - identity: The caller.
    ///   - request: The proof that the caller's device asks, as for a deletion of the account.
    /// - Returns: The code.
    /// - Throws: `credentials_invalid` without the proof, `session_ended`, `not_found`.
    package func issueMoveCode(
        _ identity: Identity,
        _ request: MoveCodeRequest
    ) async throws(Problem) -> MoveCode {
        let code = MoveCodeText.random()
        let commands = MoveCommands(identity: self.identity)
        return try await perform(
            commands.issue(
                code,
                hash: MoveCodeText.hash(code, key: keys.refreshKey),
                identity.account,
                try proof(request.refreshToken, of: identity)
            )
        )
    }

    /// Returns the proof that a request with an access token also has.
    ///
    /// - Throws: `credentials_invalid` for a refresh token that this server did not make.
    func proof(
        _ refreshToken: String?,
        of identity: Identity
    ) throws(Problem) -> FreshProof {
        guard let refreshToken else { return FreshProof(session: identity.session) }
        guard let token = RefreshToken(refreshToken, key: keys.refreshKey) else {
            throw .proofWrong
        }
        return FreshProof(session: identity.session, token: token)
    }

    /// Redeems a code, and gives the device to the account of the code.
    ///
    /// A device that redeems the same code again, because the response was lost, is signed in
    /// again.
    ///
    /// - Parameters:
    ///   - request: The code and the device.
    ///   - address: The caller's address, whose attempts are limited; `nil` for none.
    /// - Returns: The account with a new session.
    /// - Throws: in this order `rate_limited`, `invalid_content`, `move_code_invalid`,
    ///   `device_secret_mismatch`, `identity_taken` if the device is another guest with data.
    package func redeemMoveCode(
        _ request: RedeemRequest,
        from address: String?
    ) async throws(Problem) -> SignedIn {
        try moveAttempts.count(address, at: clock.now())
        let guest = GuestRequest(
            deviceId: request.deviceId,
            deviceSecret: request.deviceSecret,
            deviceName: request.deviceName
        )
        let device = try check(guest)
        guard let text = MoveCodeText.canonical(request.code) else { throw .moveCodeInvalid }
        let hash = MoveCodeText.hash(text, key: keys.refreshKey)
        let account = try await redeem(hash, device)
        let accounts = IdentityCommands.DeviceAccounts(own: account)
        guard let outcome = try await open(device, account, of: accounts) else {
            throw .moveCodeInvalid
        }
        return outcome.signedIn
    }

    /// Gives the device to the account of the code, and returns the account.
    private func redeem(
        _ hash: String,
        _ device: IdentityCommands.Device
    ) async throws(Problem) -> Identifier {
        let commands = MoveCommands(identity: identity)
        // The account and the device's earlier account are not known before. The device may become
        // a new guest between the look-up and the command.
        return try await lookingAgain { () async throws(Problem) -> Identifier? in
            let found = try await load(.moveCode, hash, device: device.id)
            guard let code = found.code else { throw .moveCodeInvalid }
            let command = commands.redeem(
                hash,
                of: code.account,
                device,
                from: found.device?.account
            )
            guard let redemption = try await perform(command) else { return nil }
            if let left = redemption.left { tokens.end(left, of: left) }
            return code.account
        }
    }

    private func load(
        _ kind: DocumentKind,
        _ hash: String,
        device: String
    ) async throws(Problem) -> (code: OpenMoveCode?, device: DeviceRow?) {
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([OpenMoveCode.key(hash), .device(device)])
        }
        return (try loaded.document(OpenMoveCode.self, hash), loaded.device(device))
    }
}
