import SanguineModel

extension Authority {
    /// Binds a checked login to the account, which becomes registered, and ends all other access.
    ///
    /// - Parameters:
    ///   - login: The login's name, whose ownership was checked.
    ///   - password: The hash of the password, for an e-mail address.
    ///   - email: The e-mail address that the profile shows, unless it has one and the login is not
    ///     an address; `nil` to leave it.
    ///   - refreshToken: The newest refresh token of the caller's session, as the proof that its
    ///     device asks. Default: none, which is enough for a guest, or soon after a sign-in.
    ///   - identity: The caller.
    /// - Returns: The account with a new session, and the head that includes the change.
    /// - Throws: `credentials_invalid` without the proof, `session_ended`; `email_taken` or
    ///   `identity_taken` if the login belongs to another account.
    func register(
        _ login: Login.Name,
        password: String? = nil,
        email: String?,
        refreshToken: String? = nil,
        _ identity: Identity
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        let caller = try await caller(identity, try proof(refreshToken, of: identity))
        let done = try await perform(
            self.identity.register(
                login,
                password: password,
                email: email,
                identity.account,
                by: caller
            )
        )
        return try await complete(done)
    }

    /// Returns the session that changes the logins of its account.
    ///
    /// - Parameters:
    ///   - identity: The caller.
    ///   - proof: The proof that the command checks; `nil` if the request was proved in another
    ///     way.
    /// - Returns: The session with its device.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails.
    func caller(
        _ identity: Identity,
        _ proof: FreshProof?
    ) async throws(Problem) -> IdentityCommands.Caller {
        let device = try await session(identity.session)?.device
        return IdentityCommands.Caller(session: identity.session, device: device, proof: proof)
    }

    /// Ends what a registration replaces in this process, and issues the tokens of the new session.
    func complete(
        _ registration: IdentityCommands.Registration
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        let account = registration.account
        await eraBegan(of: account.id)
        let signedIn = SignedIn(
            account: account.profile(at: clock.now()),
            session: try await issue(registration.session)
        )
        return (signedIn, registration.head)
    }

    /// Opens a session of an account for a caller whose credentials were checked.
    ///
    /// - Parameters:
    ///   - account: The account of the credentials.
    ///   - guest: The guest that the caller was; merged into the account. `nil` for none.
    ///   - refreshToken: The newest refresh token of the guest, as its proof. Default: none.
    /// - Returns: The account with its new session, and what it received from the guest.
    /// - Throws: `not_found` if the account is gone, or the refusal of a merge; see
    ///   ``merge(_:into:expecting:refreshToken:)``.
    func enter(
        _ account: Identifier,
        as guest: Identity? = nil,
        refreshToken: String? = nil
    ) async throws(Problem) -> SignedIn {
        guard let guest, guest.account != account else {
            return try await signIn(account).signedIn
        }
        return try await merge(guest, into: account, refreshToken: refreshToken).0
    }
}

extension IdentityCommands {
    /// The result of binding a login.
    struct Registration: Sendable {
        var account: AccountRow
        /// The session that it opened, the only one of the account.
        var session: SessionRow
        var head: Int64
    }

    /// The session that changes the logins of its account.
    struct Caller: Sendable {
        var session: Identifier
        /// The device of the session, which keeps its access; `nil` if it is not known.
        var device: String?
        /// The proof, if the account needs one; `nil` if the request was proved in another way.
        var proof: FreshProof?

        var keys: [Key] { [.session(session)] + (device.map { [.device($0)] } ?? []) }
    }

    /// Binds a login to an account, begins a new era of access, and opens its first session.
    ///
    /// The era ends sessions, devices and codes. The device of the caller keeps its access: if the
    /// answer is lost, its secret finds the account.
    ///
    /// - Parameters:
    ///   - login: The login.
    ///   - password: The hash of the password; `nil` for none, or to keep a known one.
    ///   - email: The address that the profile shows, unless it has one and the login is not an
    ///     address; `nil` to leave it.
    ///   - account: The account.
    ///   - caller: The session that asks; `nil` if the request has none.
    ///   - replaced: The login that the caller removes in the same transaction. Default: none.
    /// - Returns: The command. It refuses with `credentials_invalid`, `session_ended`,
    ///   `email_taken`, `identity_taken`, or `invalid_content` for one login too many.
    func register(
        _ login: Login.Name,
        password: String?,
        email: String?,
        _ account: Identifier,
        by caller: Caller?,
        replacing replaced: Login.Name? = nil
    ) -> Command<Registration> {
        let keys = profileKeys(account) + [Login.key(login.text)] + (caller?.keys ?? [])
        return Command(keys: keys) { loaded, reader throws(Problem) in
            guard var row = loaded.account(account), row.state == .active,
                var feed = loaded.balance(account)
            else { throw .noAccount }
            if let caller { try check(caller, row, loaded) }
            let wasGuest = row.profile.kind == .guest
            let known = try loaded.document(Login.self, login.text)
            if let known, known.account != account { throw .taken(login) }
            if known == nil, !wasGuest {
                try checkRoom(for: account, replacing: replaced, reader)
            }
            let bound = Login(
                name: login.text,
                account: account,
                passwordHash: password ?? known?.passwordHash,
                createdAt: known?.createdAt ?? now
            )
            let device = caller?.device.flatMap(loaded.device)
            let keepsDevice =
                device.map { $0.account == account && (wasGuest || $0.era == row.era) } ?? false
            row.profile.kind = .registered
            row.era += 1
            // A verified address is not replaced by one that a provider only shows.
            if let email, login.isEmail || row.profile.email == nil { row.profile.email = email }
            let session = newSession(for: row, device: caller?.device)
            var changes = store(&row, &feed, loaded, quotas: false)
            if keepsDevice, let device { changes.append(.put(.device(device.withAccess(to: row)))) }
            return Decision(
                Registration(account: row, session: session, head: feed.head),
                changes: [.put(bound)] + changes + [.put(.session(session))]
                    + (wasGuest
                        ? [.event(AnalyticsEvent(.accountUpgraded, of: account, at: now))] : [])
            )
        }
    }

    /// Checks that the caller's session has not ended, and its proof.
    ///
    /// A guest's device keeps access to the account also if another one registers it with a stolen
    /// access token.
    private func check(
        _ caller: Caller,
        _ row: AccountRow,
        _ loaded: Loaded
    ) throws(Problem) {
        if let proof = caller.proof, proof.isNeeded(by: row, settings) {
            return try proof.check(loaded, in: row, at: now)
        }
        guard loaded.session(caller.session)?.isOpen(in: row) == true else { throw .sessionOver }
    }

    /// Checks that an account can have one more login.
    private func checkRoom(
        for account: Identifier,
        replacing replaced: Login.Name?,
        _ reader: any RecordReader
    ) throws(Problem) {
        let rows: OwnedRows
        do {
            rows = try reader.ownedRows(of: account)
        } catch {
            // The driver fails the command.
            throw Problem(.internalFault, "Send the request again: it takes effect once.")
        }
        let logins = rows.documents.count { $0.kind == .login && $0.id != replaced?.text }
        guard logins < max(1, settings.loginsPerAccount) else {
            throw Problem(
                .invalidContent,
                """
                Sign in with one of the account's logins: it has \(logins), and at most \
                \(settings.loginsPerAccount) are possible.
                """
            )
        }
    }

    /// Returns the sessions as ended.
    static func ended(_ sessions: [SessionRow], at now: Timestamp) -> [SessionRow] {
        sessions.map { row in
            var row = row
            row.endedAt = now
            return row
        }
    }
}
