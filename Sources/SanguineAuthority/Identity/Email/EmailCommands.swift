import SanguineModel

/// The commands of e-mail addresses, passwords and codes.
struct EmailCommands: Sendable {
    let identity: IdentityCommands

    private var now: Timestamp { identity.now }

    /// The result of presenting a code.
    enum Confirmation: Sendable {
        case done(IdentityCommands.Registration)
        case wrongCode
        /// The account or its login was changed by another request: the caller looks again.
        case changed
    }

    /// Counts an attempt against all limits.
    func count(_ limits: [AttemptLimit]) -> Command<Void> {
        Command(keys: limits.map(\.key)) { loaded throws(Problem) in
            Decision((), changes: try changes(of: limits, loaded))
        }
    }

    /// Removes one counted attempt from all limits.
    func forgive(_ limits: [AttemptLimit]) -> Command<Void> {
        Command(keys: limits.map(\.key)) { loaded throws(Problem) in
            var changes: [Change] = []
            for limit in limits {
                if let change = try limit.forgiving(loaded, at: now) { changes.append(change) }
            }
            return Decision((), changes: changes)
        }
    }

    /// Stores a request that waits for its code, and the message with the code.
    ///
    /// - Parameters:
    ///   - verification: The request.
    ///   - mail: The message.
    ///   - limits: The limits that count it.
    ///   - proof: The proof, if the account needs one; `nil` if it was proved in another way.
    /// - Returns: The command. It refuses with `session_ended`, `credentials_invalid` or
    ///   `rate_limited`.
    func start(
        _ verification: Verification,
        _ mail: Mail,
        _ limits: [AttemptLimit],
        _ proof: FreshProof? = nil
    ) -> Command<Void> {
        let account = verification.account
        let proofKeys = proof.map { proof in [proof.key] + (account.map { [.account($0)] } ?? []) }
        return Command(keys: limits.map(\.key) + (proofKeys ?? [])) { loaded throws(Problem) in
            if let proof, let row = account.flatMap(loaded.account),
                proof.isNeeded(by: row, identity.settings)
            {
                try proof.check(loaded, in: row, at: now)
            }
            let counted = try changes(of: limits, loaded)
            return Decision((), changes: counted + [.put(verification), .put(mail)])
        }
    }

    /// Binds the address of a registration or a change, if the code is right.
    ///
    /// - Parameters:
    ///   - known: The request as it was read; it must not have been replaced since.
    ///   - address: The address to bind.
    ///   - account: The account.
    ///   - old: The address that the account had when it was read.
    ///   - codeHash: The keyed hash of the presented code.
    ///   - notice: The message to the old address.
    ///   - caller: The session that presents the code.
    /// - Returns: The command. It refuses with `verification_failed`, `email_taken`, or
    ///   `session_ended`.
    func confirm(
        _ known: Verification,
        _ address: EmailAddress,
        of account: Identifier,
        replacing old: String?,
        codeHash: String,
        notice: Mail?,
        by caller: IdentityCommands.Caller
    ) -> Command<Confirmation> {
        let login = Login.Name.email(address.text)
        let oldLogin = old.map { Login.Name.email($0) }
        let bind = identity.register(
            login,
            password: nil,
            email: address.text,
            account,
            by: caller
        )
        return Command(
            keys: bind.keys + [Verification.key(known.id)]
                + (oldLogin.map { [Login.key($0.text)] } ?? [])
        ) { loaded, reader throws(Problem) in
            if let wrong = try presented(codeHash, known, loaded) { return wrong }
            guard loaded.account(account)?.profile.email == old else {
                return Decision(.changed)
            }
            var previous: Login?
            if let oldLogin, let found = try loaded.document(Login.self, oldLogin.text),
                found.account == account
            {
                previous = found
            }
            if known.purpose == .registration, let previous, previous.name != login.text {
                throw .hasAddress
            }
            let decided = try identity.register(
                login,
                password: known.passwordHash ?? previous?.passwordHash,
                email: address.text,
                account,
                by: caller,
                replacing: previous == nil ? nil : oldLogin
            ).decide(loaded, reader)
            var changes = decided.changes + [.delete(known)]
            if let previous, previous.name != login.text {
                changes.append(.delete(previous))
                if let notice { changes.append(.put(notice)) }
            }
            return Decision(.done(decided.outcome), changes: changes)
        }
    }

    /// Sets the password of a login, if the code is right.
    ///
    /// - Throws: The command refuses with `verification_failed`.
    func reset(
        _ known: Verification,
        _ login: Login,
        of address: EmailAddress,
        codeHash: String,
        password: PasswordHash,
        notice: Mail
    ) -> Command<Confirmation> {
        let bind = setPassword(login, of: address, password, notice, by: nil)
        return Command(keys: bind.keys + [Verification.key(known.id)]) {
            loaded,
            reader throws(Problem) in
            if let wrong = try presented(codeHash, known, loaded) { return wrong }
            let decided = try bind.decide(loaded, reader)
            guard let registration = decided.outcome else { return Decision(.changed) }
            return Decision(
                .done(registration),
                changes: decided.changes + [.delete(known)]
            )
        }
    }

    /// Counts any code as wrong, because the address belongs to no account.
    ///
    /// The command loads as many rows as ``reset(_:_:of:codeHash:password:notice:)`` does.
    func reject(_ known: Verification, of address: EmailAddress) -> Command<Confirmation> {
        let nobody = Identifier(at: now)
        let bind = identity.register(
            .email(address.text),
            password: nil,
            email: nil,
            nobody,
            by: nil
        )
        let current = CurrentMoveCode.key(CurrentMoveCode.id(nobody))
        return Command(keys: bind.keys + [current, Verification.key(known.id)]) {
            loaded throws(Problem) in
            try presented("", known, loaded) ?? Decision(.wrongCode)
        }
    }

    /// Sets the password of a login that is still as it was read, opens a session, and ends all
    /// other access; the device of the caller keeps it, if there is a caller.
    ///
    /// - Returns: The command; `nil` as its result if the login was changed by another request, so
    ///   that the caller looks again. It refuses with `session_ended`.
    func setPassword(
        _ login: Login,
        of address: EmailAddress,
        _ password: PasswordHash,
        _ notice: Mail,
        by caller: IdentityCommands.Caller?
    ) -> Command<IdentityCommands.Registration?> {
        let bind = identity.register(
            .email(address.text),
            password: password.text,
            email: nil,
            login.account,
            by: caller
        )
        let current = CurrentMoveCode.id(login.account)
        return Command(keys: bind.keys + [CurrentMoveCode.key(current)]) {
            loaded,
            reader throws(Problem) in
            guard try loaded.document(Login.self, login.name) == login else {
                // A change of the login may have ended the caller's session.
                if caller != nil { _ = try bind.decide(loaded, reader) }
                return Decision(nil)
            }
            let decided = try bind.decide(loaded, reader)
            let code = try loaded.document(CurrentMoveCode.self, current)
            return Decision(
                decided.outcome,
                changes: decided.changes + [.put(notice)] + voided(login.account, code)
            )
        }
    }

    /// Returns the changes that void the codes which the account's sessions have requested.
    ///
    /// Otherwise a stolen session, which a new password ends, could still change the address or add
    /// a device.
    private func voided(_ account: Identifier, _ code: CurrentMoveCode?) -> [Change] {
        let changes = Verification.voided(of: account)
        guard let code else { return changes }
        return changes + [.delete(code), .delete(OpenMoveCode.key(code.hash))]
    }

    /// Returns the decision for a wrong code, or `nil` if the code is right.
    ///
    /// - Throws: `verification_failed` for a request that was replaced, used, has expired, or has
    ///   had too many wrong codes.
    private func presented(
        _ codeHash: String,
        _ known: Verification,
        _ loaded: Loaded
    ) throws(Problem) -> Decision<Confirmation>? {
        guard var stored = try loaded.document(Verification.self, known.id),
            stored.isSame(as: known), now < stored.expiresAt,
            stored.wrong < Verification.wrongCodes
        else { throw .verificationFailed }
        guard !stored.hasCode(hash: codeHash) else { return nil }
        stored.wrong += 1
        return Decision(.wrongCode, changes: [.put(stored)])
    }

    private func changes(
        of limits: [AttemptLimit],
        _ loaded: Loaded
    ) throws(Problem) -> [Change] {
        var changes: [Change] = []
        for limit in limits { changes.append(try limit.counting(loaded, at: now)) }
        return changes
    }
}
