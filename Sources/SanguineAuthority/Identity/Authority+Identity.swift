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
    /// With a signed app transaction, a new device finds the guest of its Apple account.
    ///
    /// - Parameters:
    ///   - request: The device.
    ///   - address: The address whose new guests are counted, as in
    ///     ``AuthoritySettings/guestsPerHour``; IPv6 addresses by their /64. Default: none.
    /// - Returns: The account with a new session.
    /// - Throws: `invalid_content`, `purchase_invalid`, `purchase_foreign`,
    ///   `attestation_failed`, `device_secret_mismatch`, `rate_limited`.
    public func guest(
        _ request: GuestRequest,
        from address: String? = nil
    ) async throws(Problem) -> GuestOutcome {
        var device = try check(request)
        device.limit = guestLimit(address)
        // Finds a known device, the common case, without a turn of the writer.
        let found = try await read { storage throws(StorageError) in
            try await storage.load([.device(device.id)] + (device.limit.map { [$0.key] } ?? []))
        }
        let known = found.device(device.id).flatMap { row in
            row.hasSecret(hash: device.secretHash) ? row.account : nil
        }
        var deleted: Identifier?
        if let known, try await isGone(known) { deleted = known }
        device.isNew = found.device(device.id) == nil || deleted != nil
        // Refused before a signature is verified or Apple is asked; `create` counts.
        if device.isNew, request.signedAppTransaction == nil {
            _ = try device.limit?.counting(found, at: clock.now())
        }
        var bits: DeviceCheckBits?
        // A device with a wrong secret is refused below, before its proof counts.
        if device.isNew || known != nil {
            device.proof = try await proof(of: request, isNew: device.isNew)
            bits = try await deviceCheck(request, isNew: device.isNew)
            device.hasHadGrant = bits?.hasHadGrant ?? false
        }
        let outcome = try await admit(device, request, known: known, replacing: deleted)
        await markDevice(request, bits)
        return outcome
    }

    private func admit(
        _ device: IdentityCommands.Device,
        _ request: GuestRequest,
        known: Identifier?,
        replacing deleted: Identifier?
    ) async throws(Problem) -> GuestOutcome {
        var device = device
        if request.signedAppTransaction == nil, let known, deleted == nil {
            if let proof = device.proof {
                try await perform(identity.prove(proof, device.id, of: known))
            }
            return try await signIn(known, device)
        }
        for _ in 0..<Self.guestAttempts {
            device.app = try await appTransaction(of: request)
            switch try await perform(identity.guest(device, replacing: deleted)) {
            case .created(let account, let session, let head):
                let signedIn = SignedIn(
                    account: account.profile,
                    session: try await issue(session)
                )
                return GuestOutcome(signedIn: signedIn, isNew: true, head: head)
            case .known(let account):
                return try await signIn(account, device)
            case .moved: continue
            }
        }
        throw Problem(.overloaded, "Send the request again.", retryAfter: 1)
    }

    private func signIn(
        _ account: Identifier,
        _ device: IdentityCommands.Device
    ) async throws(Problem) -> GuestOutcome {
        try await signIn(
            account,
            deviceName: device.deviceName,
            key: device.proof?.key.id
        )
    }

    private func guestLimit(_ address: String?) -> GuestLimit? {
        guard let address, settings.guestsPerHour > 0 else { return nil }
        return GuestLimit(
            count: settings.guestsPerHour,
            id: emailSecrets.name(of: "guests of \(address)")
        )
    }

    /// Whether the account was deleted, or the one into which it was merged.
    private func isGone(_ account: Identifier) async throws(Problem) -> Bool {
        let state = try await state(of: account)
        guard case .merged(let other) = state else { return state == .deleted }
        return try await self.state(of: other) == .deleted
    }

    private func state(of account: Identifier) async throws(Problem) -> AccountRow.State? {
        try await read { storage throws(StorageError) in
            try await storage.load([.account(account)])
        }
        .account(account)?.state
    }

    /// Several devices of one Apple account may start for the first time at once.
    private static let guestAttempts = 8

    /// Rotates a refresh token.
    ///
    /// - Throws: `refresh_invalid`, `refresh_reused` (the whole family is then ended),
    ///   `session_ended`, `attestation_failed`.
    public func refresh(_ request: RefreshRequest) async throws(Problem) -> Session {
        guard let token = RefreshToken(request.refreshToken, key: keys.refreshKey) else {
            throw .refreshInvalid
        }
        let proof = try await refreshProof(of: request)
        switch try await perform(identity.refresh(token, proof)) {
        case .rotated(let session):
            return try await issue(session)
        case .reused(let session):
            tokens.end(session.id, of: session.account)
            throw Problem(
                .refreshReused,
                "Sign in again: the token was used before, so this session was ended for safety."
            )
        }
    }

    private func refreshProof(
        of request: RefreshRequest
    ) async throws(Problem) -> IdentityCommands.RefreshProof? {
        var proof: DeviceProof?
        if let assertion = request.assertion {
            proof = try await self.proof(assertion, for: request.refreshToken)
        }
        guard let rules = settings.attestation else { return nil }
        return IdentityCommands.RefreshProof(proof: proof, isDemanded: rules.demandsAssertions)
    }

    /// Ends the session with its access and refresh tokens.
    public func signOut(_ identity: Identity) async throws(Problem) {
        try await perform(self.identity.signOut(identity.session))
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

    /// Finds an account by its verified e-mail address.
    ///
    /// Intended for support.
    public func account(email: String) async throws(Problem) -> Account? {
        try await read { storage throws(StorageError) in
            try await storage.account(email: email)
        }?.profile(at: clock.now())
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

    func signIn(
        _ account: Identifier,
        deviceName: String? = nil,
        key: [UInt8]? = nil
    ) async throws(Problem) -> GuestOutcome {
        let done = try await following(account) {
            identity.signIn($0, deviceName: deviceName, key: key)
        }
        for session in done.ended { tokens.end(session.id, of: done.account.id) }
        let signedIn = SignedIn(
            account: done.account.profile(at: clock.now()),
            session: try await issue(done.session)
        )
        return GuestOutcome(signedIn: signedIn, isNew: false)
    }

    func issue(_ session: SessionRow) async throws(Problem) -> Session {
        let identity = Identity(account: session.account, session: session.id)
        // An account that was deleted or left has sessions for a while, which open nothing.
        guard try await state(of: session.account) == .active else {
            throw Problem(
                .sessionEnded,
                "Sign in again: this account was deleted, or merged into another one."
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
