import SanguineModel

extension Authority {
    /// Binds a checked login to the account, which becomes registered, and ends its other
    /// sessions.
    ///
    /// - Parameters:
    ///   - login: The login's name, whose ownership was checked.
    ///   - password: The hash of the password, for an e-mail address.
    ///   - email: The verified e-mail address that the profile shows; `nil` to leave it.
    ///   - identity: The caller.
    /// - Returns: The account with a new session, and the head that includes the change.
    /// - Throws: `email_taken` or `identity_taken` if the login belongs to another account.
    func register(
        _ login: Login.Name,
        password: String? = nil,
        email: String?,
        _ identity: Identity
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        let done = try await perform(
            self.identity.register(login, password: password, email: email, identity.account)
        )
        return try await complete(done)
    }

    /// Ends the sessions that a registration replaces, and issues the tokens of the new one.
    func complete(
        _ registration: IdentityCommands.Registration
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        var signIn = registration.signIn
        // A command ends a bounded number of sessions.
        while !signIn.ended.isEmpty {
            for session in signIn.ended { tokens.end(session.id, of: signIn.account.id) }
            signIn.ended = try await perform(
                self.identity.endSessions(of: signIn.account.id, except: signIn.session.id)
            )
        }
        let signedIn = SignedIn(
            account: signIn.account.profile(at: clock.now()),
            session: try await issue(signIn.session)
        )
        return (signedIn, registration.head)
    }

    /// Opens a session of an account for a caller whose credentials were checked.
    ///
    /// - Parameters:
    ///   - account: The account of the credentials.
    ///   - guest: The guest that the caller was; merged into the account. `nil` for none.
    ///   - deviceName: The name of the caller's device. Default: none.
    /// - Returns: The account with its new session, and what it received from the guest.
    /// - Throws: `not_found` if the account is gone, or the refusal of a merge; see
    ///   ``merge(_:into:expecting:)``.
    func enter(
        _ account: Identifier,
        as guest: Identity? = nil,
        deviceName: String? = nil
    ) async throws(Problem) -> SignedIn {
        guard let guest, guest.account != account else {
            return try await signIn(account, deviceName: deviceName).signedIn
        }
        return try await merge(guest, into: account).0
    }
}

extension IdentityCommands {
    /// The result of binding a login.
    struct Registration: Sendable {
        var signIn: SignIn
        var head: Int64
    }

    /// Binds a login to an account, opens a session, and ends others.
    ///
    /// - Parameters:
    ///   - login: The login.
    ///   - password: The hash of the password; `nil` to leave it.
    ///   - email: The address that the profile shows; `nil` to leave it.
    ///   - account: The account.
    ///   - replaced: The login that the caller removes in the same transaction. Default: none.
    /// - Returns: The command. It refuses with `invalid_content` one login too many.
    func register(
        _ login: Login.Name,
        password: String?,
        email: String?,
        _ account: Identifier,
        replacing replaced: Login.Name? = nil
    ) -> Command<Registration> {
        Command(
            keys: profileKeys(account) + [Login.key(login.text)],
            surplus: SurplusSessions(of: account, kept: 0)
        ) { loaded, reader throws(Problem) in
            guard var row = loaded.account(account), row.state == .active,
                var feed = loaded.balance(account)
            else { throw .noAccount }
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
            row.profile.kind = .registered
            if let email { row.profile.email = email }
            let session = newSession(for: account)
            let ended = end(loaded.surplusSessions)
            let changes = store(&row, &feed, loaded, quotas: false)
            return Decision(
                Registration(
                    signIn: SignIn(account: row, session: session, ended: ended),
                    head: feed.head
                ),
                changes: [.put(bound)] + changes + (ended + [session]).map { .put(.session($0)) }
                    + (wasGuest
                        ? [.event(AnalyticsEvent(.accountUpgraded, of: account, at: now))] : [])
            )
        }
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

    /// Ends sessions of an account, except one; returns those that it ended, at most
    /// ``SurplusSessions/limit``.
    func endSessions(of account: Identifier, except kept: Identifier?) -> Command<[SessionRow]> {
        // The kept session may not be the newest: another one can be as new, or newer.
        let others = SurplusSessions(of: account, kept: 0)
        return Command(keys: [], surplus: others) { loaded in
            let ended = end(loaded.surplusSessions.filter { $0.id != kept })
            return Decision(ended, changes: ended.map { .put(.session($0)) })
        }
    }

    private func end(_ sessions: [SessionRow]) -> [SessionRow] {
        Self.ended(sessions, at: now)
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

extension Problem {
    /// The refusal of a login that belongs to another account.
    static func taken(_ login: Login.Name) -> Problem {
        switch login {
        case .email:
            Problem(
                .emailTaken,
                """
                This e-mail address belongs to another account. Sign in to it with POST \
                /v1/sessions, which can merge this account into it.
                """
            )
        case .identity:
            Problem(
                .identityTaken,
                """
                This identity belongs to another account. Sign in to it with POST /v1/sessions, \
                which can merge this account into it.
                """
            )
        }
    }
}
