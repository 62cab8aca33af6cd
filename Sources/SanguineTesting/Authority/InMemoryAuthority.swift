public import Sanguine
public import SanguineAuthority
public import SanguineModel

/// An in-memory Sanguine server for tests, which decides like the real server but has no socket.
///
/// ```swift
/// let authority = InMemoryAuthority(schema: schema)
/// configuration.transport = authority
/// authority.set(Habit(id: id, title: "Run"))  // As another device does.
/// try await client.synchronize()
/// ```
///
/// Requests are answered by the server's own code: sessions, balance, quotas, holds, functions,
/// records and the feed, including the live feed, with their statuses, headers and problems, so a
/// test is subject to the same rules as the app. The other parts of a server are omitted: rate
/// limits, ports, logs, browser tickets, and the administration, which ``grant(_:reason:to:)`` and
/// ``setPlan(_:of:)`` replace.
///
/// Time comes from the clock. Nothing happens on its own: ``runJobs()`` performs the work that a
/// server does every second.
///
/// Mutable state: the storage's, and `state`, guarded by its lock. The app's record mutations run
/// under the storage's lock, because they are pure. Live connections are written to in order,
/// without holding either lock.
public final class InMemoryAuthority: StreamingTransport {
    /// The account of a device that signs in for the first time.
    public enum Accounts: Hashable, Sendable {
        /// The first device gets ``InMemoryAuthority/user``, every other one a new account.
        case onePerDevice
        /// Every device belongs to ``InMemoryAuthority/user``.
        case one
    }

    /// An operation that was applied, and the number of the feed that includes it.
    struct Done: Sendable {
        let head: Int64
        let operation: PushedOperation
    }

    struct State: Sendable {
        var accounts = 0
        var responses = 0
        /// Whether a device has signed in.
        var hasDevice = false
        /// The applied operations by account, in the order of their responses.
        var done: [Identifier: [Done]] = [:]
        var streams = AuthorityStreams()
        /// Problems to return instead of responses, by path.
        var failures: [String: [Problem]] = [:]
        var poison: Set<Identifier> = []
        var judge: (@Sendable (PushedOperation) -> Refusal?)?
        var functions: [InMemoryFunction] = []
        var random = SplitMix64(seed: 1)
    }

    /// The initial account, which belongs to the first device.
    public let user: Identifier

    let state: WatchedState<State>
    let memory: MemoryAuthority
    let router: InMemoryRouter
    let clock: ServerClock
    let mode: Accounts

    // Creating keys takes longer than most tests.
    private static let keys = SigningKeys()

    /// The authority, for tests that use its messages.
    package var authority: Authority { memory.authority }

    /// Creates a server without records.
    ///
    /// - Parameters:
    ///   - schema: The app's collections and record mutations. Default: those of every Sanguine
    ///     server.
    ///   - accounts: The account of a new device. Default: a separate account for each device.
    ///   - settings: All other rules: the grant of a new account, quotas, the lifetime of tokens.
    ///     Their schema is ignored. Default: those of a server without a configuration.
    ///   - clock: The clock that determines when sessions, holds and quotas expire. Default: a
    ///     clock that stands still.
    public convenience init(
        schema: RecordSchema = .standard,
        accounts: Accounts = .onePerDevice,
        settings: AuthoritySettings = AuthoritySettings(),
        clock: any WallClock = ManualWallClock()
    ) {
        self.init(
            schema: schema,
            accounts: accounts,
            settings: settings,
            clock: clock,
            delay: ContinuousClock()
        )
    }

    /// Creates a server without records, with a clock for the delays of streamed answers.
    package init(
        schema: RecordSchema,
        accounts: Accounts = .onePerDevice,
        settings: AuthoritySettings = AuthoritySettings(),
        clock: any WallClock,
        delay: any Clock<Duration>
    ) {
        var settings = settings
        settings.schema = schema
        mode = accounts
        let serverClock = ServerClock(clock)
        self.clock = serverClock
        memory = MemoryAuthority(keys: Self.keys, settings: settings, clock: serverClock)
        let state = WatchedState(State())
        self.state = state
        router = InMemoryRouter(memory.authority, state, delay: delay)
        user = state.withLock { $0.newIdentifier(at: clock.now()) }
        must { try memory.addAccount(user) }
        memory.authority.onHead { [weak self] account, _ in self?.notifyReaders(of: account) }
        memory.authority.onLists { [weak self, authority = memory.authority] changed in
            authority.announceLists(of: changed.collections)
            self?.notifyReaders(ofLists: changed)
        }
        memory.authority.switches.onChange { [weak self] in self?.notifyReadersOfSwitches() }
    }

    // MARK: - Accounts and sessions

    /// Adds an account for another user.
    public func addAccount() -> Identifier {
        let id = state.withLock { $0.newIdentifier(at: clock.now()) }
        must { try memory.addAccount(id) }
        return id
    }

    /// Returns the account of a device, or `nil` before it has signed in.
    public func account(ofDevice deviceId: String) -> Identifier? {
        must { try memory.account(ofDevice: deviceId) }
    }

    /// Returns an access token for an account, to send a request without a client.
    ///
    /// The token belongs to a new session.
    public func accessToken(for account: Identifier) async -> String {
        do {
            return try await memory.accessToken(for: account)
        } catch {
            stop(for: error)
        }
    }

    /// Makes every access token expire; refresh tokens stay valid.
    ///
    /// The server's clock is advanced by a second, so that new tokens differ from the old ones.
    public func expireTokens() {
        memory.authority.tokens.expireAll()
        clock.advance(by: .seconds(1))
    }

    /// Ends every session; devices then sign in again, to the same accounts.
    public func endSessions() { must { try memory.endSessions() } }

    // MARK: - Records

    /// Returns the server's version of a record, or `nil` if there is none.
    public func record<R: SyncedRecord>(
        _ type: R.Type = R.self,
        _ id: RecordID,
        of account: Identifier? = nil
    ) -> R? {
        value(RecordKey(R.collection.name, id), of: account).flatMap {
            try? $0.record(R.self, id: id)
        }
    }

    /// Returns all records of a type that an account owns, in the order of their ids.
    public func records<R: SyncedRecord>(
        _ type: R.Type = R.self,
        of account: Identifier? = nil
    ) -> [R] {
        values(of: account).filter { $0.key.collection == R.collection.name }
            .sorted { $0.key < $1.key }
            .compactMap { try? $0.value.record(R.self, id: $0.key.id) }
    }

    /// Returns the value of a record, or `nil` if there is none that the account may read.
    public func value(_ key: RecordKey, of account: Identifier? = nil) -> RecordValue? {
        must { try memory.value(key, for: account ?? user) }
    }

    /// Returns all records that an account owns.
    public func values(of account: Identifier? = nil) -> [RecordKey: RecordValue] {
        must { try memory.values(of: account ?? user) }
    }

    /// Returns the newest number of an account's feed.
    ///
    /// It is not 0 initially, because the account and its balance are in the feed.
    public func head(of account: Identifier? = nil) -> Int64 {
        must { try memory.head(of: account ?? user) }
    }

    /// Creates or replaces a record, as another device of the account does.
    public func set(_ record: some SyncedRecord, of account: Identifier? = nil) {
        let key = RecordKey(type(of: record).collection.name, record.id)
        put(RecordValue(record), for: key, of: account)
    }

    /// Deletes a record, as another device of the account does.
    public func delete<R: SyncedRecord>(
        _ type: R.Type,
        _ id: RecordID,
        of account: Identifier? = nil
    ) {
        put(nil, for: RecordKey(R.collection.name, id), of: account)
    }

    /// Sets the value of a record in a declared collection, or deletes the record if `value` is
    /// `nil`.
    public func put(_ value: RecordValue?, for key: RecordKey, of account: Identifier? = nil) {
        must { try memory.put([key: value], of: account ?? user) }
    }

    /// Changes several records at once: a reader sees all changes, or none.
    ///
    /// - Throws: The error that the body throws, or `Refusal` for a change that an operation may
    ///   not make; nothing is changed then.
    public func change(
        of account: Identifier? = nil,
        _ body: (inout Records) throws -> Void
    ) throws {
        try memory.change(of: account ?? user, body)
    }

    /// Forgets deletions, so that clients that have not received them must start from the
    /// beginning.
    ///
    /// A server does this for deletions of more than 30 days ago.
    ///
    /// - Parameters:
    ///   - number: The last number of the feed whose deletions are forgotten. Default: all.
    ///   - account: The account. Default: ``user``.
    public func forgetDeletions(through number: Int64 = .max, of account: Identifier? = nil) {
        must { try memory.forgetDeletions(through: number, of: account ?? user) }
    }

    // MARK: - Operations

    /// Returns the operations that were pushed and applied for an account, in order.
    ///
    /// Each appears as often as it was applied, which is once. At most the first
    /// ``TestingLimits/operations`` are returned.
    public func operations(of account: Identifier? = nil) -> [PushedOperation] {
        let done = state.withLock { $0.done[account ?? user] ?? [] }
        let inOrder = done.enumerated().sorted {
            ($0.element.head, $0.offset) < ($1.element.head, $1.offset)
        }
        return inOrder.map(\.element.operation)
    }

    /// Returns the result of an operation, or `nil` if it was never received.
    public func result(of id: Identifier, account: Identifier? = nil) -> PushResult? {
        must { try memory.result(of: id, account: account ?? user) }
    }

    /// Refuses later operations, regardless of their record mutations; `nil` refuses none.
    ///
    /// ```swift
    /// authority.refuse { $0.mutator == CompleteHabit.name ? Refusal(.notFound, "Gone.") : nil }
    /// ```
    public func refuse(_ judge: (@Sendable (PushedOperation) -> Refusal?)?) {
        state.withLock { $0.judge = judge }
    }

    /// Makes operations poison: a push that contains one of them cannot be parsed.
    public func poison(_ ids: Set<Identifier>) { state.withLock { $0.poison = ids } }

    /// Answers the next requests to a path with a problem, and does not process them.
    ///
    /// ```swift
    /// authority.fail("/v1/sync/push", with: Problem(.overloaded, "Wait.", retryAfter: 5))
    /// ```
    public func fail(_ path: String, with problem: Problem, times: Int = 1) {
        state.withLock { state in
            state.failures[path, default: []] += Array(repeating: problem, count: times)
        }
    }

    // MARK: - Copies

    /// A snapshot of all data on a server, like a copy of its data folder.
    public struct Copy: Sendable {
        let storage: MemoryStorage.Copy
        let done: [Identifier: [Done]]
    }

    /// Returns a copy of all data, like a backup of a server.
    public func copy() -> Copy {
        let storage = must { try memory.copy() }
        return Copy(storage: storage, done: state.withLock(\.done))
    }

    /// Restores an older copy, like an operator: later changes are lost.
    ///
    /// Live connections end, as when a server restarts, and the feeds get a new epoch.
    public func restore(_ copy: Copy) {
        endStreams()
        must { try memory.restore(copy.storage) }
        state.withLock { $0.done = copy.done }
    }

    // MARK: - Time and live connections

    /// Performs the work that a server does every second.
    ///
    /// It ends expired holds, removes expired grants and data, and ends live connections with
    /// invalid tokens.
    public func runJobs() async {
        do {
            try await memory.authority.expireHolds()
            try await memory.authority.expireGrants()
            try await memory.authority.removeDeletedThreads()
            try await memory.authority.sweep()
        } catch {
            stop(for: error)
        }
        endUnauthenticatedStreams()
    }

    /// The number of live connections.
    public var streamCount: Int { state.withLock { $0.streams.count } }

    /// Sends a ping on each live connection, as a server does every 20 seconds, and ends
    /// connections with invalid tokens.
    public func ping() {
        endUnauthenticatedStreams()
        state.withLock { $0.streams.sayAll(": ping\n\n") }
        writeToStreams()
    }

    /// Ends all live connections, as when a server restarts.
    public func endStreams() {
        for stream in state.withLock({ $0.streams.removeAll { _ in true } }) { stream.finish() }
    }

    private func endUnauthenticatedStreams() {
        let tokens = memory.authority.tokens
        let ended = state.withLock { state in
            state.streams.removeAll { !tokens.isValid($0) }
        }
        for stream in ended { stream.finish() }
    }
}

extension InMemoryAuthority.State {
    mutating func newIdentifier(at now: Timestamp) -> Identifier {
        accounts += 1
        return Identifier(at: now, using: &random)
    }
}

/// Calls a method of an authority in memory that throws only if the test asks for the impossible.
@discardableResult
func must<Value>(_ body: () throws -> Value) -> Value {
    do {
        return try body()
    } catch {
        stop(for: error)
    }
}

private func stop(for error: any Error) -> Never {
    preconditionFailure("The test passed a wrong value to its InMemoryAuthority: \(error)")
}
