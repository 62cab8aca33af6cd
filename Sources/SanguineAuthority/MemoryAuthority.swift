import Foundation
package import SanguineModel

/// An authority with a storage in memory, which tests can change without suspending.
///
/// All changes use the commands of requests: feed, ledger and limits work as for any authority, and
/// listeners are notified.
package struct MemoryAuthority: Sendable {
    /// The authority that handles requests.
    package let authority: Authority
    private let storage: MemoryStorage

    /// Creates an authority without accounts.
    package init(keys: SigningKeys, settings: AuthoritySettings, clock: any WallClock) {
        storage = MemoryStorage()
        authority = Authority(storage: storage, keys: keys, settings: settings, clock: clock)
    }

    // MARK: - Copies

    /// Returns a copy of all data.
    package func copy() throws(Problem) -> MemoryStorage.Copy {
        do { return try storage.copy() } catch { throw Problem(error) }
    }

    /// Replaces all data with an older copy, under a new epoch.
    package func restore(_ copy: MemoryStorage.Copy) throws(Problem) {
        do { try storage.restore(copy) } catch { throw Problem(error) }
        authority.tokens.restart()
        authority.lists.anythingChanged()
        let name = SwitchesDocument.name
        let loaded = try load([SwitchesDocument.key(name)])
        authority.switches.restart(with: try loaded.document(SwitchesDocument.self, name)?.numbered)
    }

    // MARK: - Accounts

    /// Creates a guest's account whose device no client has.
    package func addAccount(_ id: Identifier) throws(Problem) {
        let device = IdentityCommands.Device(
            id: "in-memory \(id)",
            secretHash: [],
            timeZone: authority.settings.defaultTimeZone,
            language: authority.settings.defaultLanguage
        )
        _ = try perform(authority.identity.guest(device, as: id))
    }

    /// Whether a sign-in of the device creates an account, because its secret opens none.
    package func needsAccount(_ request: GuestRequest) throws(Problem) -> Bool {
        let row = try load([.device(request.deviceId)]).device(request.deviceId)
        guard let row else { return true }
        // The endpoint may refuse the device of a guest who was registered or merged.
        if let guest = request.guest, let known = try load([.account(guest)]).account(guest),
            known.state != .active || known.profile.kind == .registered
        {
            return false
        }
        return row.opens(try load(try accounts(of: row).keys)) == nil
    }

    private func accounts(
        of row: DeviceRow
    ) throws(Problem) -> IdentityCommands.DeviceAccounts {
        var accounts = IdentityCommands.DeviceAccounts(own: row.account)
        var found = try load(accounts.keys).accounts(of: row)
        while found != accounts {
            accounts = found
            found = try load(accounts.keys).accounts(of: row)
        }
        return accounts
    }

    /// Creates the account of a guest's device.
    ///
    /// - Returns: Whether the device had none.
    /// - Throws: `invalid_content`, `device_secret_mismatch`, as for a sign-in.
    package func addAccount(
        _ id: Identifier,
        for request: GuestRequest
    ) throws(Problem) -> Bool {
        let device = try authority.check(request)
        var known = IdentityCommands.DeviceAccounts()
        if let row = try load([.device(device.id)]).device(device.id) {
            known = try accounts(of: row)
        }
        let command = authority.identity.guest(device, as: id, of: known)
        if case .created = try perform(command) { return true }
        return false
    }

    /// Adds an unknown device to an account.
    ///
    /// - Parameters:
    ///   - request: The device.
    ///   - account: The account.
    ///   - isFirst: Whether the account takes the zone and language of the device.
    /// - Returns: Whether the device was unknown.
    /// - Throws: `invalid_content`, as for a sign-in.
    package func join(
        _ request: GuestRequest,
        to account: Identifier,
        isFirst: Bool
    ) throws(Problem) -> Bool {
        let device = try authority.check(request)
        let row = DeviceRow(
            id: device.id,
            secretHash: device.secretHash,
            account: account,
            createdAt: authority.clock.now()
        )
        return try perform(
            Command(keys: [.device(device.id), .account(account)]) { loaded in
                guard loaded.device(row.id) == nil else { return Decision(false) }
                let owner = loaded.account(account)
                var changes = [Change.put(.device(owner.map(row.withAccess(to:)) ?? row))]
                if isFirst, var account = loaded.account(account) {
                    account.profile.timeZone = device.timeZone
                    account.profile.language = device.language
                    changes.append(.put(.account(account)))
                }
                return Decision(true, changes: changes)
            }
        )
    }

    /// Returns the account of a device; `nil` if the device is unknown.
    package func account(ofDevice id: String) throws(Problem) -> Identifier? {
        try load([.device(id)]).device(id)?.account
    }

    /// Returns an access token of a new session.
    package func accessToken(for account: Identifier) async throws(Problem) -> String {
        let done = try perform(authority.identity.signIn(account))
        for session in done.ended { authority.tokens.end(session.id) }
        return try await authority.issue(done.session).accessToken
    }

    /// Ends every session.
    package func endSessions() throws(Problem) {
        let sessions: [Identifier]
        do { sessions = try storage.liveSessions() } catch { throw Problem(error) }
        for session in sessions {
            guard let row = try load([.session(session)]).session(session) else { continue }
            try perform(authority.identity.signOut(row))
            authority.tokens.end(session)
        }
    }

    // MARK: - Balance

    /// Returns the balance.
    package func balance(of account: Identifier) throws(Problem) -> Balance {
        authority.encoder.message(try row(account))
    }

    /// Grants tokens.
    package func grant(
        _ amount: Int64,
        _ reason: String,
        to account: Identifier
    ) throws(Problem) {
        let request = SpendRequest(amount: amount, reason: reason)
        _ = try perform(authority.ledger.grant(account, submission(request)))
    }

    /// Spends tokens.
    package func spend(
        _ amount: Int64,
        _ reason: String,
        of account: Identifier
    ) throws(Problem) {
        let request = SpendRequest(amount: amount, reason: reason)
        _ = try perform(authority.ledger.spend(account, submission(request)))
    }

    /// Sets the plan of the account.
    package func setPlan(_ plan: Account.Plan, of account: Identifier) throws(Problem) {
        _ = try perform(authority.identity.setPlan(plan, of: account))
    }

    private func submission<Content>(_ content: Content) -> Submission<Content> {
        let key = "in-memory \(Identifier(at: authority.clock.now()))"
        return Submission(key: key, fingerprint: Fingerprint(key), content: .success(content))
    }

    // MARK: - Records

    /// Returns the value of a record; `nil` if there is none that the account may read.
    package func value(_ key: RecordKey, for account: Identifier) throws(Problem) -> RecordValue? {
        guard let collection = authority.settings.schema.collection(key.collection) else {
            return nil
        }
        let name = RecordName(key.collection, in: collection.scope(of: account), key.id)
        guard let row = try load([.record(name)]).record(name), row.isLive,
            collection.isReadable(row, by: account)
        else { return nil }
        return RecordValue(json: Data(row.value))
    }

    /// Returns all records that an account owns.
    package func values(of account: Identifier) throws(Problem) -> [RecordKey: RecordValue] {
        let query = FeedQuery(of: account, after: 0, limit: .max, liveOnly: true)
        let rows = try feed(query).records
        return rows.reduce(into: [:]) { values, row in
            values[RecordKey(row.name.collection, row.name.id)] =
                RecordValue(json: Data(row.value))
        }
    }

    /// Changes records together, as another device does; `nil` deletes.
    ///
    /// - Throws: ``Refusal`` for changes that are not allowed, ``Problem`` if the account is gone.
    package func put(
        _ changes: [RecordKey: RecordValue?],
        of account: Identifier
    ) throws {
        try perform(authority.sync.put(account, changes)).get()
    }

    /// Changes records together, as a record mutation does.
    ///
    /// - Throws: the body's error, ``Refusal`` for changes that no operation could make,
    ///   ``Problem`` if the account is gone. Nothing is changed then.
    package func change(
        of account: Identifier,
        _ body: (inout Records) throws -> Void
    ) throws {
        let changes: [RecordKey: RecordValue?]
        do {
            var records = Records(
                from: PushSource(
                    account: account,
                    schema: authority.settings.schema,
                    reader: try storage.recordsNow()
                ),
                schema: authority.settings.schema,
                operation: OperationContext(id: Identifier(at: authority.clock.now()))
            )
            try body(&records)
            if let failure = records.failure { throw failure }
            changes = records.changes
        }
        try put(changes, of: account)
    }

    /// Drops tombstones up to a number; readers that have not read so far must start over.
    package func forgetDeletions(
        through number: Int64,
        of account: Identifier
    ) throws(Problem) {
        let query = FeedQuery(of: account, after: 0, limit: .max)
        let dead = try feed(query).records.filter { !$0.isLive && $0.seq <= number }
        try perform(
            Command(keys: [.balance(account), .feed(account)]) { loaded in
                var feed = loaded.feed(account) ?? FeedRow(account: account)
                for row in dead { feed.drop(row) }
                feed.horizon = max(
                    feed.horizon,
                    min(number, loaded.balance(account)?.head ?? 0)
                )
                return Decision(
                    (),
                    changes: dead.map { .delete(.record($0.name)) } + [.put(.feed(feed))]
                )
            }
        )
    }

    /// Returns the result of an operation; `nil` if it was never decided.
    package func result(
        of id: Identifier,
        account: Identifier
    ) throws(Problem) -> PushResult? {
        let key = id.description
        return try load([.operation(account, key: key)]).operation(account, key: key)?.result(id)
    }

    // MARK: - The feed

    /// Replaces the switches that all apps receive.
    package func setSwitches(_ switches: Switches) throws(Problem) {
        authority.switches.serve(try perform(authority.switchesCommand(switches)).numbered)
    }

    /// Returns the newest number of an account's feed.
    package func head(of account: Identifier) throws(Problem) -> Int64 { try row(account).head }

    /// Returns a part of an account's feed, as a pull does.
    package func pull(
        _ account: Identifier,
        _ request: Authority.PullRequest
    ) throws(Problem) -> PullAnswer {
        var read = try authority.feedRead(account, request)
        while true {
            let slice = try feed(read.query)
            if try read.examine(slice) { return try authority.page(slice, read).answer() }
        }
    }

    // MARK: - The storage

    private func row(_ account: Identifier) throws(Problem) -> BalanceRow {
        guard let row = try load([.balance(account)]).balance(account) else { throw .noAccount }
        return row
    }

    @discardableResult
    private func perform<Outcome>(_ command: Command<Outcome>) throws(Problem) -> Outcome {
        let result: Result<OutcomeWithHeads<Outcome>, Problem>
        let recording = command.recordingHeads(
            authority.sharedCollections,
            authority.settings.schema
        )
        do { result = try storage.performNow(recording) } catch { throw Problem(error) }
        let noted = try result.get()
        authority.committed(noted.heads, noted.lists)
        return noted.outcome
    }

    private func load(_ keys: [Key]) throws(Problem) -> Loaded {
        do { return try storage.loadNow(keys) } catch { throw Problem(error) }
    }

    private func feed(_ query: FeedQuery) throws(Problem) -> FeedSlice {
        do { return try storage.feedNow(query) } catch { throw Problem(error) }
    }
}
