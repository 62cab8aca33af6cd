public import Sanguine
public import SanguineModel
import Synchronization

/// A Sanguine server in the memory of a test: it signs guests in, does the app's own operations,
/// and serves the feed, live too.
///
/// ```swift
/// let authority = InMemoryAuthority(schema: schema)
/// configuration.transport = authority
/// authority.set(Habit(id: id, title: "Run"))  // As another device does.
/// try await client.synchronize()
/// ```
///
/// It keeps the contract of the wire: each operation takes effect once, however often it is sent;
/// each change has a number; deletions are known until ``forgetDeletions(through:of:)``. It serves
/// sessions, records, the feed and the balance; other paths are 404.
///
/// Mutable state: `state`, by its mutex. The app's mutators run under it: they are pure. Live
/// connections are written outside of it, in order.
public final class InMemoryAuthority: StreamingTransport {
    /// Whose account a device gets that signs in for the first time.
    public enum Accounts: Hashable, Sendable {
        /// The first device gets ``InMemoryAuthority/user``, each other one a new account.
        case onePerDevice
        /// Every device is another one of ``InMemoryAuthority/user``.
        case one
    }

    struct State {
        var sessions = AuthoritySessions()
        var accounts: [Identifier: Account] = [:]
        var ledgers: [Identifier: AccountLedger] = [:]
        var balances: [Identifier: Int64] = [:]
        var streams = AuthorityStreams()
        /// Refusals to give instead of an answer, by path.
        var failures: [String: [Problem]] = [:]
        var poison: Set<Identifier> = []
        var judge: (@Sendable (PushedOperation) -> Refusal?)?
        var random = SplitMix64(seed: 1)
    }

    /// The account that is there from the beginning: the first device's.
    public let user: Identifier

    let state: Mutex<State>
    let schema: RecordSchema
    let clock: any WallClock
    let mode: Accounts

    /// Creates a server without a record.
    ///
    /// - Parameters:
    ///   - schema: The app's collections and mutators. Default: those of every Sanguine server.
    ///   - accounts: Whose account a device gets. Default: each device its own.
    ///   - clock: What sessions expire by. Default: one that stands still.
    public init(
        schema: RecordSchema = .standard,
        accounts: Accounts = .onePerDevice,
        clock: any WallClock = ManualWallClock()
    ) {
        self.schema = schema
        self.clock = clock
        mode = accounts
        var state = State()
        user = state.addAccount(at: clock.now())
        self.state = Mutex(state)
    }

    // MARK: - Accounts and sessions

    /// Adds an account, for a user of its own.
    public func addAccount() -> Identifier {
        let now = clock.now()
        return state.withLock { $0.addAccount(at: now) }
    }

    /// The account of a device; `nil` before it has signed in.
    public func account(ofDevice deviceId: String) -> Identifier? {
        state.withLock { $0.sessions.devices[deviceId]?.account }
    }

    /// An access token for an account, to send a request without a client.
    public func accessToken(for account: Identifier) -> String {
        let now = clock.now()
        return state.withLock { $0.sessions.makeSession(for: account, at: now).accessToken }
    }

    /// Makes every access token expire; refresh tokens stay valid.
    public func expireTokens() {
        let now = clock.now()
        state.withLock { $0.sessions.expire(at: now) }
    }

    /// Ends every session: devices sign in again, to the same accounts.
    public func endSessions() { state.withLock { $0.sessions.endAll() } }

    /// Sets what an account may spend; 100 at first.
    public func setBalance(_ available: Int64, of account: Identifier? = nil) {
        let account = account ?? user
        change { state in
            state.balances[account] = available
            state.ledgers[account, default: AccountLedger()].advance()
            return account
        }
    }

    // MARK: - Records

    /// The record as the server has it; `nil` if there is none.
    public func record<R: Record>(
        _ type: R.Type = R.self,
        _ id: RecordID,
        of account: Identifier? = nil
    ) -> R? {
        value(RecordKey(R.collection.name, id), of: account).flatMap {
            try? $0.record(R.self, id: id)
        }
    }

    /// All records of a type, in the order of their ids.
    public func records<R: Record>(
        _ type: R.Type = R.self,
        of account: Identifier? = nil
    ) -> [R] {
        values(of: account).filter { $0.key.collection == R.collection.name }
            .sorted { $0.key < $1.key }
            .compactMap { try? $0.value.record(R.self, id: $0.key.id) }
    }

    /// What a record holds; `nil` if there is none.
    public func value(_ key: RecordKey, of account: Identifier? = nil) -> RecordValue? {
        ledger(account).rows[key]?.value
    }

    /// All that an account has.
    public func values(of account: Identifier? = nil) -> [RecordKey: RecordValue] {
        ledger(account).values
    }

    /// The newest number of an account's feed.
    public func head(of account: Identifier? = nil) -> Int64 { ledger(account).head }

    /// Creates or replaces a record, as another device of the account does.
    public func set(_ record: some Record, of account: Identifier? = nil) {
        let key = RecordKey(type(of: record).collection.name, record.id)
        put(RecordValue(record), for: key, of: account)
    }

    /// Deletes a record, as another device of the account does.
    public func delete<R: Record>(_ type: R.Type, _ id: RecordID, of account: Identifier? = nil) {
        put(nil, for: RecordKey(R.collection.name, id), of: account)
    }

    /// Sets what a record holds, or deletes it with `nil`, without asking the schema.
    public func put(_ value: RecordValue?, for key: RecordKey, of account: Identifier? = nil) {
        let account = account ?? user
        change { state in
            state.ledgers[account, default: AccountLedger()].apply([key: value])
            return account
        }
    }

    /// Changes several records at once: a reader sees all of it, or nothing.
    ///
    /// - Throws: what the body throws, or ``Refusal`` for what an operation may not do; nothing is
    ///   changed then.
    public func change(
        of account: Identifier? = nil,
        _ body: (inout Records) throws -> Void
    ) throws {
        let account = account ?? user
        let now = clock.now()
        let (ledger, others, id) = state.withLock { state in
            let id = Identifier(at: now, using: &state.random)
            return (
                state.ledgers[account] ?? AccountLedger(),
                state.visible(to: account, schema), id
            )
        }
        let changes = try ledger.changes(schema, others, id: id, body)
        change { state in
            state.ledgers[account, default: AccountLedger()].apply(changes)
            return account
        }
    }

    /// Forgets which records were deleted: a reader who has not heard of it begins afresh.
    ///
    /// - Parameters:
    ///   - number: Up to which number of the feed. Default: all.
    ///   - account: Whose. Default: ``user``.
    public func forgetDeletions(through number: Int64 = .max, of account: Identifier? = nil) {
        let account = account ?? user
        state.withLock {
            $0.ledgers[account, default: AccountLedger()].forgetDeletions(through: number)
        }
    }

    // MARK: - Operations

    /// The operations that were done for an account, in their order, each as often as it was: once.
    public func operations(of account: Identifier? = nil) -> [PushedOperation] {
        ledger(account).operations
    }

    /// What became of an operation; `nil` if it was never seen.
    public func result(of id: Identifier, account: Identifier? = nil) -> PushResult? {
        ledger(account).result(of: id)
    }

    /// Refuses operations from now on, whatever their mutators say; `nil` refuses none.
    ///
    /// ```swift
    /// authority.refuse { $0.mutator == CompleteHabit.name ? Refusal(.notFound, "Gone.") : nil }
    /// ```
    public func refuse(_ judge: (@Sendable (PushedOperation) -> Refusal?)?) {
        state.withLock { $0.judge = judge }
    }

    /// Makes operations poison: a push with one of them cannot be read.
    public func poison(_ ids: Set<Identifier>) { state.withLock { $0.poison = ids } }

    /// Answers the next requests to a path with a problem; nothing of them is done.
    ///
    /// ```swift
    /// authority.fail("/v1/sync/push", with: Problem(.overloaded, "Wait.", retryAfter: 5))
    /// ```
    public func fail(_ path: String, with problem: Problem, times: Int = 1) {
        state.withLock { state in
            state.failures[path, default: []] += Array(repeating: problem, count: times)
        }
    }

    // MARK: - Live connections

    /// How many live connections there are.
    public var streamCount: Int { state.withLock { $0.streams.count } }

    /// Says on each live connection that the server is there, as it does every 20 seconds.
    public func ping() {
        state.withLock { $0.streams.sayAll(": ping\n\n") }
        tell()
    }

    /// Ends all live connections, as a server that restarts does.
    public func endStreams() {
        for stream in state.withLock({ $0.streams.removeAll() }) { stream.finish() }
    }

    private func ledger(_ account: Identifier?) -> AccountLedger {
        state.withLock { $0.ledgers[account ?? user] ?? AccountLedger() }
    }
}

extension InMemoryAuthority.State {
    mutating func addAccount(at now: Timestamp) -> Identifier {
        let id = Identifier(at: now, using: &random)
        accounts[id] = Account(
            id: id,
            kind: .guest,
            timeZone: "UTC",
            language: "en",
            createdAt: now
        )
        balances[id] = 100
        return id
    }

    /// What an account can see of others' records.
    func visible(to account: Identifier, _ schema: RecordSchema) -> [RecordKey: RecordValue] {
        let shared = Set(schema.allCollections.filter { $0.access == .everyone }.map(\.name))
        guard !shared.isEmpty, ledgers.count > 1 else { return [:] }
        var visible: [RecordKey: RecordValue] = [:]
        for (owner, ledger) in ledgers where owner != account {
            visible.merge(ledger.values.filter { shared.contains($0.key.collection) }) { $1 }
        }
        return visible
    }
}
