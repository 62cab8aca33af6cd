import Crypto
public import SanguineModel

/// The result of a guest's sign-in.
public struct GuestOutcome: Sendable {
    /// The account with its new session.
    public var signedIn: SignedIn
    /// Whether the account is new.
    public var isNew: Bool
    /// The feed number that includes a new account; `nil` for a known one.
    public var head: Int64?
}

extension Authority {
    /// Creates or finds the device's account, and signs the device in.
    ///
    /// Safe under concurrency and retries: of simultaneous first calls, one creates the account,
    /// and all receive it. Beyond ``AuthoritySettings/sessionsPerAccount``, the least recently used
    /// session ends.
    ///
    /// The secret of a device opens its guest, and a registered account as long as the device has
    /// access to it: until a sign-out, a registration or a new password elsewhere. With a signed
    /// app transaction, a new device finds the guest of its Apple account.
    ///
    /// - Parameters:
    ///   - request: The device.
    ///   - address: The address whose new guests are counted, as in
    ///     ``AuthoritySettings/guestsPerHour``; IPv6 addresses by their /64. Default: none.
    /// - Returns: The account with a new session.
    /// - Throws: `invalid_content`, `purchase_invalid`, `purchase_foreign`,
    ///   `attestation_failed`, `device_secret_mismatch`, `rate_limited`, `guest_registered`;
    ///   `not_found` for an app transaction, if the server accepts no purchases.
    public func guest(
        _ request: GuestRequest,
        from address: String? = nil
    ) async throws(Problem) -> GuestOutcome {
        var device = try check(request)
        device.limit = guestLimit(address)
        // Finds a known device, the common case, without a turn of the writer.
        var found = try await found(device)
        try await checkGuest(request, found)
        var bits = try await verify(&device, request, found)
        // Several devices of one Apple account may start for the first time at once.
        return try await lookingAgain { () async throws(Problem) -> GuestOutcome? in
            if let outcome = try await admit(device, request, found) {
                await markDevice(request, bits)
                return outcome
            }
            found = try await self.found(device)
            try await checkGuest(request, found)
            // The access of the device has ended in the meantime.
            if found.isNew, !device.isNew { bits = try await verify(&device, request, found) }
            return nil
        }
    }

    /// The rows of a device.
    private struct FoundDevice {
        var accounts = IdentityCommands.DeviceAccounts()
        /// The account that its secret opens; `nil` for none.
        var opened: Identifier?
        /// Whether it is known, and has sent another secret.
        var hasOtherSecret = false
        /// The rows that were read first, with the guests of its address.
        var loaded: Loaded

        /// Whether it becomes a new guest, unless its app transaction finds one.
        var isNew: Bool { opened == nil && !hasOtherSecret }
    }

    /// Finds a device, its accounts, and the one that its secret opens.
    private func found(
        _ device: IdentityCommands.Device
    ) async throws(Problem) -> FoundDevice {
        func load(_ keys: [Key]) async throws(Problem) -> Loaded {
            try await read { storage throws(StorageError) in try await storage.load(keys) }
        }
        let first = try await load([.device(device.id)] + (device.limit.map { [$0.key] } ?? []))
        var found = FoundDevice(loaded: first)
        guard let row = first.device(device.id) else { return found }
        found.accounts.own = row.account
        var loaded = try await load(found.accounts.keys)
        while found.accounts != loaded.accounts(of: row) {
            found.accounts = loaded.accounts(of: row)
            loaded = try await load(found.accounts.keys)
        }
        found.hasOtherSecret = !row.hasSecret(hash: device.secretHash)
        found.opened = found.hasOtherSecret ? nil : row.opens(loaded)?.id
        return found
    }

    /// Checks that the guest that a device was has not become, or become a part of, a registered
    /// account that the device does not open.
    ///
    /// Otherwise the device would become a new guest, and the user would not see why.
    private func checkGuest(
        _ request: GuestRequest,
        _ found: FoundDevice
    ) async throws(Problem) {
        guard found.isNew, let guest = request.guest,
            let own = found.accounts.heirs.last ?? found.accounts.own,
            try await alias(of: guest) ?? guest == own, let row = try await row(of: own),
            row.state == .active, row.profile.kind == .registered
        else { return }
        throw .guestRegistered
    }

    /// Verifies the proof of a device, and asks Apple about it, for the account that it opens or
    /// the guest that it becomes.
    private func verify(
        _ device: inout IdentityCommands.Device,
        _ request: GuestRequest,
        _ found: FoundDevice
    ) async throws(Problem) -> DeviceCheckBits? {
        device.isNew = found.isNew
        // A device with a wrong secret is refused later, before its proof counts.
        guard !found.hasOtherSecret else { return nil }
        // Refused before a signature is verified or Apple is asked; the command counts.
        if device.isNew, request.signedAppTransaction == nil {
            _ = try device.limit?.counting(found.loaded, at: clock.now())
        }
        device.proof = try await proof(of: request, isNew: device.isNew)
        let bits = try await deviceCheck(request, isNew: device.isNew)
        device.hasHadGrant = bits?.hasHadGrant ?? false
        return bits
    }

    /// Signs a device in to its account, or creates it; returns `nil` if it was changed in the
    /// meantime.
    private func admit(
        _ device: IdentityCommands.Device,
        _ request: GuestRequest,
        _ found: FoundDevice
    ) async throws(Problem) -> GuestOutcome? {
        if request.signedAppTransaction == nil, let opened = found.opened {
            return try await open(device, opened, of: found.accounts)
        }
        var device = device
        device.app = try await appTransaction(of: request)
        switch try await perform(identity.guest(device, of: found.accounts)) {
        case .created(let account, let session, let head):
            let signedIn = SignedIn(
                account: account.profile,
                session: try await issue(session)
            )
            return GuestOutcome(signedIn: signedIn, isNew: true, head: head)
        case .known(let account):
            let accounts =
                account == found.opened
                ? found.accounts : IdentityCommands.DeviceAccounts(own: account)
            return try await open(device, account, of: accounts)
        case .moved:
            return nil
        }
    }

    private func guestLimit(_ address: String?) -> GuestLimit? {
        guard let address, settings.guestsPerHour > 0 else { return nil }
        return GuestLimit(
            count: settings.guestsPerHour,
            id: emailSecrets.name(of: "guests of \(address)")
        )
    }

    /// Signs a device in to the account that its secret opens; returns `nil` if it does not.
    func open(
        _ device: IdentityCommands.Device,
        _ account: Identifier,
        of accounts: IdentityCommands.DeviceAccounts
    ) async throws(Problem) -> GuestOutcome? {
        let command = identity.open(device, account, of: accounts)
        guard let done = try await perform(command) else { return nil }
        return try await outcome(done)
    }

    private func row(of account: Identifier) async throws(Problem) -> AccountRow? {
        try await read { storage throws(StorageError) in
            try await storage.load([.account(account)])
        }
        .account(account)
    }

    /// Rotates a refresh token.
    ///
    /// A device that was offline learns by its refresh token that its account was deleted, also
    /// after the account's sessions were removed.
    ///
    /// - Throws: `refresh_invalid`, `refresh_reused` (the whole family is then ended),
    ///   `session_ended`, `account_deleted`, `attestation_failed`.
    public func refresh(_ request: RefreshRequest) async throws(Problem) -> Session {
        guard let token = RefreshToken(request.refreshToken, key: keys.refreshKey) else {
            throw .refreshInvalid
        }
        let found = try await read { storage throws(StorageError) in
            try await storage.load([.session(token.session)])
        }
        guard let account = found.session(token.session)?.account else {
            try await checkNotDeleted(request.account)
            throw .refreshInvalid
        }
        try await checkNotDeleted(account)
        let proof = try await refreshProof(of: request)
        switch try await perform(identity.refresh(token, of: account, proof)) {
        case .rotated(let session):
            return try await issue(session)
        case .reused(let session):
            tokens.end(session.id, of: session.account)
            try await perform(identity.close(session))
            throw Problem(
                .refreshReused,
                "Sign in again: the token was used before, so this session was ended for safety."
            )
        }
    }

    private func checkNotDeleted(_ account: Identifier?) async throws(Problem) {
        guard let account, try await row(of: account)?.state == .deleted else { return }
        throw .accountDeleted
    }

    private func refreshProof(
        of request: RefreshRequest
    ) async throws(Problem) -> IdentityCommands.RefreshProof? {
        guard let rules = settings.attestation else { return nil }
        var proof: DeviceProof?
        if let assertion = request.assertion {
            proof = try await self.proof(assertion, for: request.refreshToken)
        }
        return IdentityCommands.RefreshProof(proof: proof, isDemanded: rules.demandsAssertions)
    }

    /// Ends the session with its access and refresh tokens, and the access of its device to a
    /// registered account.
    public func signOut(_ identity: Identity) async throws(Problem) {
        let found = try await read { storage throws(StorageError) in
            try await storage.load([.session(identity.session)])
        }
        if let session = found.session(identity.session) {
            try await perform(self.identity.signOut(session))
        }
        tokens.end(identity.session, of: identity.account)
    }

    /// Returns the owner's account, and the head of its feed.
    public func account(_ id: Identifier) async throws(Problem) -> (Account, head: Int64) {
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([.account(id), .balance(id)])
        }
        guard let row = loaded.account(id), let feed = loaded.balance(id) else { throw .noAccount }
        return (row.profile(at: clock.now()), feed.head)
    }

    /// Changes time zone, language, display name and settings by a merge patch (RFC 7396).
    ///
    /// - Throws: `invalid_content`, `not_found`.
    public func patchAccount(
        _ id: Identifier,
        _ patch: JSONValue
    ) async throws(Problem) -> (Account, head: Int64) {
        try await perform(identity.patch(id, patch))
    }

    /// Sets the plan of the account until a time.
    ///
    /// Intended for support. A plan that a purchase pays for stays until it ends.
    ///
    /// - Parameters:
    ///   - plan: The plan.
    ///   - end: The time at which the account is free again. Default: `nil`, never.
    ///   - account: The account.
    /// - Returns: The account, and the head of its feed.
    /// - Throws: `not_found`, `invalid_content` for a time that has passed.
    public func setPlan(
        _ plan: Account.Plan,
        until end: Timestamp? = nil,
        of account: Identifier
    ) async throws(Problem) -> (Account, head: Int64) {
        try await setPlan(plan, until: end, of: account, by: nil)
    }

    /// Works like ``setPlan(_:until:of:)``, with an entry in the audit log.
    package func setPlan(
        _ plan: Account.Plan,
        until end: Timestamp?,
        of account: Identifier,
        by note: AuditNote?
    ) async throws(Problem) -> (Account, head: Int64) {
        try await perform(identity.setPlan(plan, until: end, of: account), by: note)
    }

    /// Finds an account by the device that created it.
    ///
    /// Intended for support.
    public func account(deviceID: String) async throws(Problem) -> Account? {
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([.device(deviceID)])
        }
        guard let device = loaded.device(deviceID) else { return nil }
        return try await account(device.account).0
    }

    /// Finds an account by its verified e-mail address, in upper or lower case.
    ///
    /// An account that signs in with the address is found before one that only shows it. Intended
    /// for support.
    public func account(email: String) async throws(Problem) -> Account? {
        let search = AccountSearch(email: email)
        let found = try await read { storage throws(StorageError) -> AccountRow? in
            if let id = search.account(in: try await storage.load([search.key])),
                let row = try await storage.load([.account(id)]).account(id), row.state == .active
            {
                return row
            }
            return try await storage.account(email: search.address)
        }
        return found?.profile(at: clock.now())
    }

    var identity: IdentityCommands {
        IdentityCommands(settings: settings, now: clock.now())
    }

    func check(_ request: GuestRequest) throws(Problem) -> IdentityCommands.Device {
        let range = WireLimits.deviceIdCharacters
        guard request.deviceId.isPlainText(of: range) else {
            throw Problem(
                .invalidContent,
                """
                Set 'deviceId' to \(range.lowerBound) to \(range.upperBound) printable \
                characters.
                """
            )
        }
        guard let secret = Base64URL.decode(request.deviceSecret),
            secret.count == WireLimits.deviceSecretBytes
        else {
            throw Problem(
                .invalidContent,
                """
                Set 'deviceSecret' to \(WireLimits.deviceSecretBytes) random bytes in base64url \
                without padding.
                """
            )
        }
        return IdentityCommands.Device(
            id: request.deviceId,
            secretHash: Array(SHA256.hash(data: secret)),
            // A device cannot change its system's zone name, so an unknown one is not refused.
            timeZone: request.timeZone.flatMap { ZoneName.isKnown($0) ? $0 : nil }
                ?? settings.defaultTimeZone,
            language: try ProfilePatch.language(request.language ?? settings.defaultLanguage),
            deviceName: try IdentityCommands.checked(deviceName: request.deviceName)
        )
    }

    func signIn(_ account: Identifier) async throws(Problem) -> GuestOutcome {
        try await outcome(try await following(account) { identity.signIn($0) })
    }

    private func outcome(_ done: IdentityCommands.SignIn) async throws(Problem) -> GuestOutcome {
        for session in done.ended { tokens.end(session.id, of: done.account.id) }
        let signedIn = SignedIn(
            account: done.account.profile(at: clock.now()),
            session: try await issue(done.session)
        )
        return GuestOutcome(signedIn: signedIn, isNew: false)
    }

    func issue(_ session: SessionRow) async throws(Problem) -> Session {
        let identity = Identity(account: session.account, session: session.id)
        // An account that was deleted or left has sessions for a while, which open nothing. All
        // sessions may have been ended since this one was opened.
        guard session.isOpen(in: try await row(of: session.account)) else {
            throw Problem(
                .sessionEnded,
                """
                Sign in again: the session was ended, or this account was deleted or merged into \
                another one.
                """
            )
        }
        guard let accessToken = try? await tokens.issue(for: identity) else {
            throw Problem(
                .internalFault,
                "Try again. If the error persists, check the server's signing keys."
            )
        }
        let refresh = RefreshToken(session: session.id, generation: session.generation)
        return Session(
            accessToken: accessToken,
            expiresIn: settings.accessTokenLife.secondsRoundedUp,
            refreshToken: refresh.text(key: keys.refreshKey)
        )
    }
}
