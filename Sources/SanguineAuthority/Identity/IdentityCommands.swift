import Foundation
import SanguineModel

/// The commands of accounts and sessions.
struct IdentityCommands: Sendable {
    let settings: AuthoritySettings
    let now: Timestamp

    /// The checked properties of a guest's device.
    struct Device: Sendable {
        var id: String
        var secretHash: [UInt8]
        var timeZone: String
        var language: String
        var deviceName: String?
        /// The app transaction of its Apple account; `nil` for none.
        var app: Authority.KnownAppTransaction?
        /// The limit on new guests of its address; `nil` for none.
        var limit: GuestLimit?
        /// Whether its secret opened no account when its proof was verified, so that it may become
        /// a new guest.
        var isNew = true
        /// Its attestation or assertion; `nil` for none.
        var proof: DeviceProof?
        /// Whether DeviceCheck says that the device has had the grant of a new guest.
        var hasHadGrant = false
    }

    /// The result of a guest's command.
    enum Guest: Sendable {
        case created(AccountRow, SessionRow, head: Int64)
        case known(Identifier)
        /// The device or its Apple account was changed by another request: the caller looks again.
        case moved
    }

    /// The accounts of a device, as the caller has found them.
    struct DeviceAccounts: Hashable, Sendable {
        /// The account to which the device belongs; `nil` for an unknown device.
        var own: Identifier?
        /// The accounts that lead from ``own`` to the one that has its data now.
        ///
        /// Each account is an alias of the next one; at most ``Authority/aliasSteps``.
        var heirs: [Identifier] = []

        var keys: [Key] { ((own.map { [$0] } ?? []) + heirs).map(Key.account) }
    }

    /// Creates the device's account, its first balance and a session, unless the device's secret
    /// opens an account; see ``DeviceRow/opens(_:)``.
    ///
    /// - Parameters:
    ///   - device: The device.
    ///   - newcomer: The id of a created account. Default: a new one.
    ///   - accounts: The accounts of the device. Default: none, for an unknown device.
    /// - Returns: The command.
    func guest(
        _ device: Device,
        as newcomer: Identifier? = nil,
        of accounts: DeviceAccounts = DeviceAccounts()
    ) -> Command<Guest> {
        let hadGrant = DeviceGrant.id(device.id)
        let keys = keys(of: device) + accounts.keys + [DeviceGrant.key(hadGrant)]
        return Command(keys: keys) { loaded throws(Problem) in
            let known = loaded.device(device.id)
            if let known {
                guard known.hasSecret(hash: device.secretHash) else { throw .otherSecret }
                guard accounts == loaded.accounts(of: known) else { return Decision(.moved) }
                if let account = known.opens(loaded) { return Decision(.known(account.id)) }
            }
            guard device.isNew else { return Decision(.moved) }
            if let app = device.app {
                let guest = try loaded.document(
                    AppTransactionGuest.self,
                    AppTransactionGuest.id(app.id)
                )
                guard guest?.account == app.account else { return Decision(.moved) }
                if let found = app.current.flatMap(loaded.account) {
                    // It was merged since it was looked up.
                    if case .merged = found.state { return Decision(.moved) }
                    if found.state == .active, found.profile.kind == .guest {
                        return Decision(
                            .known(found.id),
                            changes: [
                                .put(.device(row(of: device, found.id).withAccess(to: found))),
                                .put(AppTransactionGuest(id: app.id, account: found.id)),
                            ] + (try device.proof?.apply(to: device.id, of: found.id, loaded) ?? [])
                        )
                    }
                }
            }
            // The device has had the grant already.
            let former = try loaded.document(DeviceGrant.self, hadGrant)
            return try create(
                device,
                newcomer ?? Identifier(at: now),
                hasHadGrant: known != nil || former != nil,
                loaded
            )
        }
    }

    /// Creates the account of a device.
    private func create(
        _ device: Device,
        _ id: Identifier,
        hasHadGrant: Bool,
        _ loaded: Loaded
    ) throws(Problem) -> Decision<Guest> {
        let counted = try device.limit.map { limit throws(Problem) in
            try limit.counting(loaded, at: now)
        }
        // The Apple account may have had the grant, or the device before it was erased.
        let isFirst = !hasHadGrant && !device.hasHadGrant && device.app?.account == nil
        let grant = isFirst ? settings.grant : 0
        let account = AccountRow(
            profile: Account(
                id: id,
                kind: .guest,
                timeZone: device.timeZone,
                language: device.language,
                createdAt: now
            ),
            seq: 1
        )
        var draft = LedgerDraft(
            BalanceRow(
                account: id,
                // The profile has number 1; without a grant, the balance has number 2.
                head: grant > 0 ? 1 : 2,
                available: 0,
                held: 0,
                seq: grant > 0 ? 1 : 2,
                changedAt: now
            ),
            now: now
        )
        if grant > 0 { draft.grant(grant, reason: "welcome") }
        let session = newSession(for: account, of: device)
        // The balance is stored even without a grant, because every account must have one.
        let ledger = grant > 0 ? draft.changes : [.put(.balance(draft.balance))]
        return Decision(
            .created(account, session, head: draft.balance.head),
            changes: [.put(.device(row(of: device, id))), .put(.account(account))] + ledger
                + [
                    .put(.session(session)),
                    .event(AnalyticsEvent(.accountCreated, of: id, at: now)),
                ] + (try linked(device, to: id, loaded)) + (counted.map { [$0] } ?? [])
                + (try proved(device, session, loaded))
        )
    }

    private func row(of device: Device, _ account: Identifier) -> DeviceRow {
        DeviceRow(
            id: device.id,
            secretHash: device.secretHash,
            account: account,
            createdAt: now
        )
    }

    private func keys(of device: Device) -> [Key] {
        let keys =
            [.device(device.id)] + (device.limit.map { [$0.key] } ?? [])
            + (device.proof?.keys(of: device.id) ?? [])
        guard let app = device.app else { return keys }
        let guest = AppTransactionGuest.key(AppTransactionGuest.id(app.id))
        return keys + [guest] + (app.current.map { [.account($0)] } ?? [])
    }

    /// Returns the changes of the proof of a device, and binds its session to the key.
    private func proved(
        _ device: Device,
        _ session: SessionRow,
        _ loaded: Loaded
    ) throws(Problem) -> [Change] {
        guard let proof = device.proof else { return [] }
        return try proof.apply(to: device.id, of: session.account, loaded)
            + [DeviceProof.bind(session, to: proof.key.id)]
    }

    /// Returns the change by which the app transaction of a device finds the account; none if it
    /// finds a guest already.
    private func linked(
        _ device: Device,
        to account: Identifier,
        _ loaded: Loaded
    ) throws(Problem) -> [Change] {
        guard let app = device.app else { return [] }
        let known = try loaded.document(AppTransactionGuest.self, AppTransactionGuest.id(app.id))
        if known != nil, let row = app.current.flatMap(loaded.account), row.state == .active,
            row.profile.kind == .guest
        {
            return []
        }
        guard known?.account == app.account, known?.account != account else { return [] }
        return [.put(AppTransactionGuest(id: app.id, account: account))]
    }

    /// The session that a sign-in creates, and the sessions that it ends.
    struct SignIn: Sendable {
        var account: AccountRow
        var session: SessionRow
        var ended: [SessionRow]
    }

    /// Creates a session of an existing account, and ends the sessions beyond the limit.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - device: The device that opens the session; `nil` if it is not known.
    /// - Returns: The command. It refuses with `not_found` if the account is gone.
    func signIn(_ account: Identifier, of device: Device? = nil) -> Command<SignIn> {
        let others = SurplusSessions(of: account, kept: max(1, settings.sessionsPerAccount) - 1)
        return Command(keys: [.account(account)], surplus: others) { loaded throws(Problem) in
            guard let row = loaded.account(account), row.state == .active else {
                throw .noAccount
            }
            let session = newSession(for: row, of: device)
            let ended = Self.ended(loaded.surplusSessions, at: now)
            return Decision(
                SignIn(account: row, session: session, ended: ended),
                changes: (ended + [session]).map { .put(.session($0)) }
            )
        }
    }

    /// Creates a session of the account that the secret of a device opens, and applies the proof of
    /// the device.
    ///
    /// - Parameters:
    ///   - device: The device.
    ///   - account: The account that it opens.
    ///   - accounts: The accounts of the device.
    /// - Returns: The command. Its outcome is `nil` if the device does not open the account any
    ///   more, or belongs to another one. It refuses with `attestation_failed`.
    func open(
        _ device: Device,
        _ account: Identifier,
        of accounts: DeviceAccounts
    ) -> Command<SignIn?> {
        let enter = signIn(account, of: device)
        return Command(
            keys: enter.keys + keys(of: device) + accounts.keys,
            surplus: enter.surplus
        ) { loaded, reader throws(Problem) in
            guard let known = loaded.device(device.id),
                known.hasSecret(hash: device.secretHash),
                accounts == loaded.accounts(of: known), known.opens(loaded)?.id == account
            else { return Decision(nil) }
            let decided = try enter.decide(loaded, reader)
            return Decision(
                decided.outcome,
                changes: decided.changes + (try linked(device, to: account, loaded))
                    + (try proved(device, decided.outcome.session, loaded))
            )
        }
    }

    /// The result of presenting a refresh token.
    enum Rotation: Sendable {
        /// The session continues with its newest generation.
        case rotated(SessionRow)
        /// An old token was reused: the family is ended, now or earlier.
        case reused(SessionRow)
    }

    /// Rotates, repeats a lost rotation, or detects reuse and ends the family.
    ///
    /// - Parameters:
    ///   - token: The token.
    ///   - account: The account of its session, which never changes.
    ///   - proof: The assertion of the device. Default: `nil`; none is demanded.
    /// - Returns: The command. It refuses with `refresh_invalid`, `session_ended` or
    ///   `attestation_failed`.
    func refresh(
        _ token: RefreshToken,
        of account: Identifier,
        _ proof: RefreshProof? = nil
    ) -> Command<Rotation> {
        let keys =
            [.session(token.session), .account(account)]
            + (proof?.keys(of: token.session) ?? [])
        return Command(keys: keys) { loaded throws(Problem) in
            guard var session = loaded.session(token.session),
                token.generation <= session.generation, now < session.expiresAt
            else { throw .refreshInvalid }
            guard session.isOpen(in: loaded.account(account)) else {
                guard token.generation == session.generation else {
                    return Decision(.reused(session))
                }
                throw .sessionOver
            }
            if token.generation == session.generation {
                session.generation += 1
                session.rotatedAt = now
                session.expiresAt = now + settings.refreshTokenLife
                return Decision(
                    .rotated(session),
                    changes: [.put(.session(session))]
                        + (try proof?.apply(to: session, loaded) ?? [])
                )
            }
            // The response with the newest token may have been lost: until that token is used, its
            // predecessor receives it again.
            let isPredecessor = token.generation == session.generation - 1
            if isPredecessor, now - session.rotatedAt <= settings.rotationGrace {
                return Decision(
                    .rotated(session),
                    changes: try proof?.apply(to: session, loaded) ?? []
                )
            }
            session.endedAt = now
            return Decision(.reused(session), changes: [.put(.session(session))])
        }
    }

    /// Applies a merge patch (RFC 7396) to the owner's part of the profile.
    func patch(_ account: Identifier, _ patch: JSONValue) -> Command<(Account, head: Int64)> {
        Command(keys: profileKeys(account)) { loaded throws(Problem) in
            guard var row = loaded.account(account), var feed = loaded.balance(account) else {
                throw .noAccount
            }
            let hasEnded = row.isPlanOver(at: now)
            let before = row.profile(at: now)
            row.profile = try ProfilePatch.apply(patch, to: before)
            if hasEnded { row.planExpiresAt = nil }
            // Compares bytes, because Swift treats canonically equivalent strings as equal.
            guard ResponseEncoder.encode(row.profile) != ResponseEncoder.encode(before) else {
                return Decision((before, feed.head))
            }
            let changes = store(
                &row,
                &feed,
                loaded,
                quotas: row.profile.timeZone != before.timeZone || hasEnded
            )
            return Decision((row.profile, feed.head), changes: changes)
        }
    }

    func profileKeys(_ account: Identifier) -> [Key] {
        [.account(account), .balance(account)]
            + settings.quotas.keys.sorted().map { .quota(account, name: $0) }
    }

    /// Gives the profile the next number of the feed, and further numbers to the used quotas if the
    /// change affects them.
    func store(
        _ row: inout AccountRow,
        _ feed: inout BalanceRow,
        _ loaded: Loaded,
        quotas: Bool
    ) -> [Change] {
        feed.head += 1
        row.seq = feed.head
        var changes = [Change.put(.account(row))]
        for name in settings.quotas.keys.sorted() where quotas {
            guard var quota = loaded.quota(row.id, name: name) else { continue }
            feed.head += 1
            quota.seq = feed.head
            changes.append(.put(.quota(quota)))
        }
        return changes + [.put(.balance(feed))]
    }

    func newSession(for account: AccountRow, of device: Device? = nil) -> SessionRow {
        newSession(for: account, device: device?.id, deviceName: device?.deviceName)
    }

    func newSession(
        for account: AccountRow,
        device: String?,
        deviceName: String? = nil
    ) -> SessionRow {
        SessionRow(
            id: Identifier(at: now),
            account: account.id,
            generation: 0,
            rotatedAt: now,
            expiresAt: now + settings.refreshTokenLife,
            deviceName: deviceName,
            device: device,
            era: account.era
        )
    }
}

extension Loaded {
    /// Returns the accounts of a device, as far as they were requested.
    func accounts(of device: DeviceRow) -> IdentityCommands.DeviceAccounts {
        var accounts = IdentityCommands.DeviceAccounts(own: device.account)
        var last = device.account
        while accounts.heirs.count < Authority.aliasSteps,
            case .merged(let heir) = account(last)?.state
        {
            accounts.heirs.append(heir)
            last = heir
        }
        return accounts
    }
}

extension Problem {
    fileprivate static var otherSecret: Problem {
        Problem(
            .deviceSecretMismatch,
            """
            Send the secret that this device used to create its account. If it is lost, start over \
            with a new 'deviceId'.
            """
        )
    }
}
