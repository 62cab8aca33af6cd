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
        let live = rows.compactMap { row -> SessionRow? in
            guard case .session(let session) = row, now < session.expiresAt else { return nil }
            return session
        }
        .sorted { ($1.rotatedAt, $1.id) < ($0.rotatedAt, $0.id) }
        return Items(items: live.map { $0.info(current: current) })
    }

    /// Ends a session of an account, with its access tokens and live connections.
    ///
    /// - Throws: `not_found` if the account has no such live session.
    package func endSession(
        _ session: Identifier,
        of account: Identifier,
        by note: AuditNote? = nil
    ) async throws(Problem) {
        try await perform(identity.end(session, of: account), by: note)
        tokens.end(session, of: account)
    }

    /// Ends the sessions of an account, except for one.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - kept: The session to keep; `nil` for none.
    ///   - note: The entry of the audit log. Default: none.
    /// - Returns: The number of ended sessions.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails; some sessions may have
    ///   ended then.
    @discardableResult
    package func endSessions(
        of account: Identifier,
        except kept: Identifier? = nil,
        by note: AuditNote? = nil
    ) async throws(Problem) -> Int {
        var (count, note) = (0, note)
        while true {
            let ended = try await perform(identity.endSome(of: account, except: kept), by: note)
            for session in ended { tokens.end(session.id, of: account) }
            guard !ended.isEmpty else { return count }
            count += ended.count
            note = nil  // One entry says that all sessions were ended.
        }
    }

    /// Creates the code with which another device joins the account; an earlier one is void.
    package func issueMoveCode(_ account: Identifier) async throws(Problem) -> MoveCode {
        let code = MoveCodeText.random()
        let commands = MoveCommands(identity: identity)
        return try await perform(
            commands.issue(code, hash: MoveCodeText.hash(code, key: keys.refreshKey), account)
        )
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
        // The account and the device's earlier account are not known before. The command checks
        // that neither has changed since.
        let found = try await load(.moveCode, hash, device: device.id)
        guard let code = found.code else { throw .moveCodeInvalid }
        let commands = MoveCommands(identity: identity)
        let redemption = try await perform(
            commands.redeem(hash, of: code.account, device, from: found.device?.account)
        )
        if let left = redemption.left { tokens.end(left, of: left) }
        return try await signIn(code.account, deviceName: device.deviceName).signedIn
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
