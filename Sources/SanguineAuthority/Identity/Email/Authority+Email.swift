public import SanguineModel

// Registration, sign-in and the change of credentials with an e-mail address and a password.
extension Authority {
    /// Sends a code to an address, with which a guest registers.
    ///
    /// The address is neither bound nor reserved before the code is verified, and it is not looked
    /// up: the response and its time are the same whether or not it belongs to an account.
    ///
    /// - Parameters:
    ///   - request: The address and the password to set.
    ///   - identity: The caller.
    ///   - address: The network address of the caller; `nil` if there is none.
    /// - Returns: Where the code was sent.
    /// - Throws: `invalid_content`, `rate_limited`, `overloaded`; for a registered account
    ///   `credentials_invalid` without a fresh proof.
    public func upgrade(
        _ request: UpgradeRequest,
        _ identity: Identity,
        from address: String?
    ) async throws(Problem) -> VerificationStarted {
        let email = try email(request.email)
        let password = try Password.new(request.password)
        let proof = try proof(request.refreshToken, of: identity)
        if let login = try await emailLogin(of: identity.account)?.login,
            login.name != Login.Name.email(email.text).text
        {
            throw .hasAddress
        }
        let hash = try await passwords.hash(
            password,
            cost: settings.passwordCost,
            address: address
        )
        return try await start(
            .registration,
            email,
            identity,
            password: hash,
            from: address,
            proof
        )
    }

    /// Registers the account with the address that the code verifies; all other sessions end.
    ///
    /// - Returns: The account with a new session, and the head that includes the change.
    /// - Throws: `verification_failed`, `email_taken`.
    public func verifyUpgrade(
        _ request: CodeRequest,
        _ identity: Identity
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        try await confirm(.registration, request.code, identity)
    }

    /// Signs in with an e-mail address and its password.
    ///
    /// The password is compared with a decoy if the address is unknown, so that the time is the
    /// same.
    ///
    /// - Parameters:
    ///   - request: The address and the password.
    ///   - guest: The guest that the caller is, which is merged into the account; `nil` for none.
    ///   - address: The network address of the caller; `nil` if there is none.
    /// - Returns: The account with a new session.
    /// - Throws: `invalid_content`, `rate_limited`, `overloaded`, `credentials_invalid`.
    public func signIn(
        _ request: SessionRequest,
        as guest: Identity? = nil,
        from address: String?
    ) async throws(Problem) -> SignedIn {
        let login = try await proven(request, from: address)
        let signedIn = try await enter(
            login.account,
            as: guest,
            refreshToken: request.refreshToken
        )
        // A password that was changed while it was compared must not leave a session.
        guard try await self.login(of: try email(request.email ?? "")) == login else {
            let identity = try await tokens.verify(signedIn.session.accessToken)
            try await signOut(identity)
            throw .credentialsInvalid
        }
        return signedIn
    }

    /// Returns the login of an e-mail address, after checking its password.
    ///
    /// - Throws: `invalid_content`, `rate_limited`, `credentials_invalid`, `overloaded`.
    func proven(
        _ request: SessionRequest,
        from address: String?
    ) async throws(Problem) -> Login {
        guard let text = request.email, let password = request.password else {
            throw Problem(.invalidContent, "Add the members 'email' and 'password'.")
        }
        let email = try email(text)
        let login = try await login(of: email)
        try await check(password, of: login, email, from: address)
        guard let login else { throw .credentialsInvalid }
        return login
    }

    /// Sends a code with which the owner of an address sets a new password.
    ///
    /// Nothing is sent to an address that belongs to no account; response and time are the same.
    ///
    /// - Throws: `invalid_content`, `rate_limited`.
    public func requestPasswordReset(
        _ request: PasswordResetRequest,
        from address: String?
    ) async throws(Problem) -> VerificationStarted {
        let email = try email(request.email)
        let login = try await login(of: email)
        let name = emailSecrets.name(of: email.text)
        var (verification, mail) = try draft(
            .passwordReset,
            id: Verification.id(.passwordReset, name),
            to: email,
            account: login?.account,
            isDecoy: login == nil
        )
        verification.loginState = login.map(emailSecrets.state)
        let limits = codeLimits(of: nil, email, address)
        try await perform(emailCommands.start(verification, mail, limits))
        return started(verification, email)
    }

    /// Sets a new password with the code, and signs in; all other sessions end.
    ///
    /// A code is void once the password or the address was changed in another way.
    ///
    /// - Returns: The account with a new session, and the head that includes the change.
    /// - Throws: `invalid_content`, `rate_limited`, `overloaded`, `verification_failed`.
    public func verifyPasswordReset(
        _ request: PasswordResetVerification,
        from address: String?
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        let email = try email(request.email)
        let password = try Password.new(request.password)
        guard let code = VerificationCode.digits(of: request.code) else {
            throw .verificationFailed
        }
        // A hash is computed for each attempt, so attempts are limited first.
        let limits = failureLimits(email: nil, address)
        let attempt = try await begin(limits)
        defer { pendingAttempts.end(attempt) }
        let hash = try await hash(password, limits, from: address)
        let id = Verification.id(.passwordReset, emailSecrets.name(of: email.text))
        let name = Login.Name.email(email.text).text
        let registration = try await confirming { () async throws(Problem) in
            let loaded = try await read { storage throws(StorageError) in
                try await storage.load([Verification.key(id), Login.key(name)])
            }
            guard let known = try loaded.document(Verification.self, id) else {
                throw .verificationFailed
            }
            guard let login = try loaded.document(Login.self, name),
                known.loginState.map({ $0 == emailSecrets.state(of: login) }) ?? true
            else { return emailCommands.reject(known, of: email) }
            return emailCommands.reset(
                known,
                login,
                of: email,
                codeHash: emailSecrets.hash(ofCode: code, for: id),
                password: hash,
                notice: try notice(mailText.passwordChanged(), to: email, login.account)
            )
        }
        try await perform(emailCommands.forgive(limits))
        return try await complete(registration)
    }

    /// Changes the password of the account; all other sessions end.
    ///
    /// - Returns: The account with a new session, and the head that includes the change.
    /// - Throws: `invalid_content`, `rate_limited`, `overloaded`, `credentials_invalid`.
    public func changePassword(
        _ request: PasswordChange,
        _ identity: Identity,
        from address: String?
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        let password = try Password.new(request.password)
        var new: PasswordHash?
        let registration = try await lookingAgain {
            () async throws(Problem) -> IdentityCommands.Registration? in
            let (email, login) = try await ownLogin(identity)
            try await check(request.current, of: login, email, from: address)
            let hash =
                if let new { new } else { try await hash(password, [], from: address) }
            new = hash
            let notice = try notice(mailText.passwordChanged(), to: email, login.account)
            let caller = try await caller(identity, nil)
            return try await perform(
                emailCommands.setPassword(login, of: email, hash, notice, by: caller)
            )
        }
        return try await complete(registration)
    }

    /// Sends a code to a new address of the account.
    ///
    /// - Throws: `invalid_content`, `rate_limited`, `overloaded`, `credentials_invalid`.
    public func changeEmail(
        _ request: EmailChange,
        _ identity: Identity,
        from address: String?
    ) async throws(Problem) -> VerificationStarted {
        let new = try email(request.email)
        let (email, login) = try await ownLogin(identity)
        try await check(request.password, of: login, email, from: address)
        return try await start(.emailChange, new, identity, password: nil, from: address)
    }

    /// Replaces the address of the account with the one that the code verifies; all other sessions
    /// end, and the previous address receives a notice.
    ///
    /// - Returns: The account with a new session, and the head that includes the change.
    /// - Throws: `verification_failed`, `email_taken`.
    public func verifyEmailChange(
        _ request: CodeRequest,
        _ identity: Identity
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        try await confirm(.emailChange, request.code, identity)
    }

    // MARK: - Codes

    private func start(
        _ purpose: Verification.Purpose,
        _ email: EmailAddress,
        _ identity: Identity,
        password: PasswordHash?,
        from address: String?,
        _ proof: FreshProof? = nil
    ) async throws(Problem) -> VerificationStarted {
        let (verification, mail) = try draft(
            purpose,
            id: Verification.id(purpose, identity.account.description),
            to: email,
            account: identity.account,
            password: password
        )
        let limits = codeLimits(of: identity.account, email, address)
        try await perform(emailCommands.start(verification, mail, limits, proof))
        return started(verification, email)
    }

    private func confirm(
        _ purpose: Verification.Purpose,
        _ code: String,
        _ identity: Identity
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        guard let code = VerificationCode.digits(of: code) else { throw .verificationFailed }
        let id = Verification.id(purpose, identity.account.description)
        let caller = try await caller(identity, nil)
        let registration = try await confirming { () async throws(Problem) in
            let loaded = try await read { storage throws(StorageError) in
                try await storage.load([Verification.key(id), .account(identity.account)])
            }
            guard let account = loaded.account(identity.account) else { throw .noAccount }
            guard let known = try loaded.document(Verification.self, id),
                let new = known.email.flatMap({ EmailAddress($0) })
            else { throw .verificationFailed }
            var notice: Mail?
            if let old = account.profile.email.flatMap({ EmailAddress($0) }) {
                notice = try self.notice(mailText.emailChanged(to: new), to: old, account.id)
            }
            return emailCommands.confirm(
                known,
                new,
                of: identity.account,
                replacing: account.profile.email,
                codeHash: emailSecrets.hash(ofCode: code, for: id),
                notice: notice,
                by: caller
            )
        }
        return try await complete(registration)
    }

    /// Performs the command of a code, looking again while other requests change the account.
    ///
    /// - Parameter command: Looks the account up, and returns the command.
    /// - Returns: The registration of the right code.
    /// - Throws: `verification_failed` for a wrong code, or the problem of the command.
    private func confirming(
        _ command: () async throws(Problem) -> Command<EmailCommands.Confirmation>
    ) async throws(Problem) -> IdentityCommands.Registration {
        try await lookingAgain { () async throws(Problem) -> IdentityCommands.Registration? in
            switch try await perform(try await command()) {
            case .done(let registration): return registration
            case .wrongCode: throw .verificationFailed
            case .changed: return nil
            }
        }
    }

    private func draft(
        _ purpose: Verification.Purpose,
        id: String,
        to email: EmailAddress,
        account: Identifier?,
        password: PasswordHash? = nil,
        isDecoy: Bool = false
    ) throws(Problem) -> (Verification, Mail) {
        let now = clock.now()
        let code = VerificationCode.random()
        let verification = Verification(
            id: id,
            purpose: purpose,
            account: account,
            email: purpose == .passwordReset ? nil : email.text,
            passwordHash: password?.text,
            codeHash: emailSecrets.hash(ofCode: code, for: id),
            expiresAt: now + settings.emailCodeLife
        )
        let mail = try mail(
            mailText.code(code, purpose, validFor: settings.emailCodeLife),
            to: email,
            account: account,
            isDecoy: isDecoy,
            life: settings.emailCodeLife
        )
        return (verification, mail)
    }

    private func started(
        _ verification: Verification,
        _ email: EmailAddress
    ) -> VerificationStarted {
        VerificationStarted(
            verification: .init(sentTo: email.masked, expiresAt: verification.expiresAt)
        )
    }

    // MARK: - Mail

    private func notice(
        _ text: (subject: String, text: String),
        to email: EmailAddress,
        _ account: Identifier
    ) throws(Problem) -> Mail {
        // A day, because a notice is useful later too.
        try mail(text, to: email, account: account, isDecoy: false, life: .seconds(86_400))
    }

    private func mail(
        _ content: (subject: String, text: String),
        to email: EmailAddress,
        account: Identifier?,
        isDecoy: Bool,
        life: Duration
    ) throws(Problem) -> Mail {
        let now = clock.now()
        let id = Identifier(at: now).description
        let message = MailMessage(
            to: email.text,
            subject: content.subject,
            text: content.text,
            at: now
        )
        return Mail(
            id: id,
            account: account,
            sealed: try emailSecrets.seal(message, id: id),
            isDecoy: isDecoy,
            dueAt: now,
            endsAt: now + life
        )
    }

    private var mailText: MailText { MailText(appName: settings.appName) }

    // MARK: - Credentials

    private var emailCommands: EmailCommands { EmailCommands(identity: identity) }

    private func email(_ text: String) throws(Problem) -> EmailAddress {
        guard let email = EmailAddress(text) else {
            throw Problem(
                .invalidContent,
                """
                Set 'email' to an address such as ana@example.org, in ASCII. Write an \
                internationalized domain in its form 'xn--…'.
                """
            )
        }
        return email
    }

    private func login(of email: EmailAddress) async throws(Problem) -> Login? {
        let name = Login.Name.email(email.text).text
        return try await read { storage throws(StorageError) in
            try await storage.load([Login.key(name)])
        }.document(Login.self, name)
    }

    /// Returns the account's login with an e-mail address; `nil` if it has none.
    private func emailLogin(
        of account: Identifier
    ) async throws(Problem) -> (email: EmailAddress, login: Login)? {
        let profile = try await self.account(account).0
        guard let email = profile.email.flatMap({ EmailAddress($0) }),
            let login = try await login(of: email), login.account == account
        else { return nil }
        return (email, login)
    }

    private func ownLogin(
        _ identity: Identity
    ) async throws(Problem) -> (email: EmailAddress, login: Login) {
        guard let own = try await emailLogin(of: identity.account) else {
            throw Problem(
                .invalidContent,
                "The account has no password. Register with POST /v1/accounts/upgrade first."
            )
        }
        return own
    }

    /// Compares a password with that of a login, or with a decoy.
    ///
    /// - Throws: `invalid_content`, `rate_limited`, `overloaded`, `credentials_invalid`.
    private func check(
        _ password: String,
        of login: Login?,
        _ email: EmailAddress,
        from address: String?
    ) async throws(Problem) {
        let bytes = try Password.bytes(of: password)
        let limits = failureLimits(email: email, address)
        let attempt = try await begin(limits)
        defer { pendingAttempts.end(attempt) }
        let hash = login?.passwordHash.flatMap { PasswordHash($0) }
        let matches: Bool
        do throws(Problem) {
            matches = try await passwords.matches(
                bytes,
                hash ?? PasswordHash(decoyOf: settings.passwordCost),
                address: address
            )
        } catch {
            // Not an attempt: nothing was compared.
            try await perform(emailCommands.forgive(limits))
            throw error
        }
        guard matches, hash != nil else { throw .credentialsInvalid }
        try await perform(emailCommands.forgive(limits))
    }

    private func hash(
        _ password: [UInt8],
        _ limits: [AttemptLimit],
        from address: String?
    ) async throws(Problem) -> PasswordHash {
        do throws(Problem) {
            return try await passwords.hash(
                password,
                cost: settings.passwordCost,
                address: address
            )
        } catch {
            try await perform(emailCommands.forgive(limits))
            throw error
        }
    }

    // MARK: - Limits

    /// Counts an attempt, and waits while undecided attempts may be among those that reach a limit.
    ///
    /// - Returns: The attempt, which the caller ends.
    /// - Throws: `rate_limited`.
    private func begin(_ limits: [AttemptLimit]) async throws(Problem) -> PendingAttempts.Attempt {
        var attempt = pendingAttempts.begin(limits.map(\.id))
        var turns = 0
        while true {
            do throws(Problem) {
                try await perform(emailCommands.count(limits))
                return attempt
            } catch {
                turns += 1
                guard error.code == .rateLimited, turns < EmailLimits.turns else {
                    pendingAttempts.end(attempt)
                    throw error
                }
                guard let next = await pendingAttempts.waitForTurn(attempt) else { throw error }
                attempt = next
            }
        }
    }

    private func failureLimits(email: EmailAddress?, _ address: String?) -> [AttemptLimit] {
        var limits: [AttemptLimit] = []
        if let email {
            limits.append(
                AttemptLimit(
                    count: EmailLimits.failuresPerEmail,
                    window: EmailLimits.failureWindow,
                    id: "failures \(emailSecrets.name(of: "email \(email.text)"))"
                )
            )
        }
        if let address {
            limits.append(
                AttemptLimit(
                    count: EmailLimits.failuresPerAddress,
                    window: EmailLimits.failureWindow,
                    id: "failures \(emailSecrets.name(of: "address \(address)"))"
                )
            )
        }
        return limits
    }

    private func codeLimits(
        of account: Identifier?,
        _ email: EmailAddress,
        _ address: String?
    ) -> [AttemptLimit] {
        let subjects = [
            account.map { ("account \($0)", EmailLimits.codesPerAccount) },
            ("email \(email.text)", EmailLimits.codesPerEmail),
            address.map { ("address \($0)", max(1, settings.codesPerHour)) },
        ]
        return subjects.compactMap(\.self).map { subject, count in
            AttemptLimit(
                count: count,
                window: EmailLimits.codeWindow,
                id: "codes \(emailSecrets.name(of: subject))"
            )
        }
    }
}
