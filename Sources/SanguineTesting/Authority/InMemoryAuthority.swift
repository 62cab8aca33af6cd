public import Sanguine
public import SanguineAuthority
public import SanguineModel

/// A Sanguine server in the memory of a test: the server's own decisions, without a socket.
///
/// ```swift
/// let authority = InMemoryAuthority(schema: schema)
/// configuration.transport = authority
/// authority.set(Habit(id: id, title: "Run"))  // As another device does.
/// try await client.synchronize()
/// ```
///
/// Each request is answered by the code that answers it on a server: sessions, balance, quotas,
/// holds, functions, records and the feed, live too, with their statuses, headers and problems.
/// So a test meets every rule that its app will meet. What a server has beside it is left out:
/// rates, ports, logs, tickets for browsers, and the administration, in whose place a test calls
/// ``grant(_:reason:to:)`` and ``setPlan(_:of:)``.
///
/// Time is the clock's. Nothing happens by itself: ``runJobs()`` does what a server does every
/// second.
///
/// Mutable state: the storage's, and `state`, by its lock. The app's record mutations run under the
/// storage's: they are pure. Live connections are written outside of both, in order.
public final class InMemoryAuthority: StreamingTransport {
    /// Whose account a device gets that signs in for the first time.
    public enum Accounts: Hashable, Sendable {
        /// The first device gets ``InMemoryAuthority/user``, each other one a new account.
        case onePerDevice
        /// Every device is another one of ``InMemoryAuthority/user``.
        case one
    }

    /// An operation that was done, and the number of the feed at which it is contained.
    struct Done: Sendable {
        let head: Int64
        let operation: PushedOperation
    }

    struct State: Sendable {
        var accounts = 0
        /// Whether there was a device that signed in.
        var hasDevice = false
        /// By account, in the order of their answers.
        var done: [Identifier: [Done]] = [:]
        var streams = AuthorityStreams()
        /// Refusals to give instead of an answer, by path.
        var failures: [String: [Problem]] = [:]
        var poison: Set<Identifier> = []
        var judge: (@Sendable (PushedOperation) -> Refusal?)?
        var functions: [InMemoryFunction] = []
        var random = SplitMix64(seed: 1)
    }

    /// The account that is there from the beginning: the first device's.
    public let user: Identifier

    let state: WatchedState<State>
    let memory: MemoryAuthority
    let router: InMemoryRouter
    let clock: ServerClock
    let mode: Accounts

    // Making keys costs more than most tests.
    private static let keys = SigningKeys()

    /// What decides, for tests that ask it by the wire's messages.
    package var authority: Authority { memory.authority }

    /// Creates a server without a record.
    ///
    /// - Parameters:
    ///   - schema: The app's collections and record mutations. Default: those of every Sanguine
    /// server.
    ///   - accounts: Whose account a device gets. Default: each device its own.
    ///   - settings: All other rules: what a new account is given, quotas, how long tokens live.
    ///     Their schema is not used. Default: those of a server without a configuration.
    ///   - clock: What sessions, holds and quotas expire by. Default: one that stands still.
    public init(
        schema: RecordSchema = .standard,
        accounts: Accounts = .onePerDevice,
        settings: AuthoritySettings = AuthoritySettings(),
        clock: any WallClock = ManualWallClock()
    ) {
        var settings = settings
        settings.schema = schema
        mode = accounts
        let serverClock = ServerClock(clock)
        self.clock = serverClock
        memory = MemoryAuthority(keys: Self.keys, settings: settings, clock: serverClock)
        let state = WatchedState(State())
        self.state = state
        router = InMemoryRouter(memory.authority, state)
        user = state.withLock { $0.newIdentifier(at: clock.now()) }
        must { try memory.addAccount(user) }
        memory.authority.onHead { [weak self] account, _ in self?.tellReaders(of: account) }
    }

    // MARK: - Accounts and sessions

    /// Adds an account, for a user of its own.
    public func addAccount() -> Identifier {
        let id = state.withLock { $0.newIdentifier(at: clock.now()) }
        must { try memory.addAccount(id) }
        return id
    }

    /// The account of a device; `nil` before it has signed in.
    public func account(ofDevice deviceId: String) -> Identifier? {
        must { try memory.account(ofDevice: deviceId) }
    }

    /// An access token for an account, to send a request without a client.
    ///
    /// It is of a new session.
    public func accessToken(for account: Identifier) async -> String {
        do {
            return try await memory.accessToken(for: account)
        } catch {
            stop(for: error)
        }
    }

    /// Makes every access token expire; refresh tokens stay valid.
    ///
    /// The server's clock goes a second ahead, so that new tokens are others than the old ones.
    public func expireTokens() {
        memory.authority.tokens.expireAll()
        clock.advance(by: .seconds(1))
    }

    /// Ends every session: devices sign in again, to the same accounts.
    public func endSessions() { must { try memory.endSessions() } }

    // MARK: - Records

    /// The record as the server has it; `nil` if there is none.
    public func record<R: SyncedRecord>(
        _ type: R.Type = R.self,
        _ id: RecordID,
        of account: Identifier? = nil
    ) -> R? {
        value(RecordKey(R.collection.name, id), of: account).flatMap {
            try? $0.record(R.self, id: id)
        }
    }

    /// All records of a type that an account owns, in the order of their ids.
    public func records<R: SyncedRecord>(
        _ type: R.Type = R.self,
        of account: Identifier? = nil
    ) -> [R] {
        values(of: account).filter { $0.key.collection == R.collection.name }
            .sorted { $0.key < $1.key }
            .compactMap { try? $0.value.record(R.self, id: $0.key.id) }
    }

    /// What a record holds; `nil` if there is none that the account may read.
    public func value(_ key: RecordKey, of account: Identifier? = nil) -> RecordValue? {
        must { try memory.value(key, for: account ?? user) }
    }

    /// All records that an account owns.
    public func values(of account: Identifier? = nil) -> [RecordKey: RecordValue] {
        must { try memory.values(of: account ?? user) }
    }

    /// The newest number of an account's feed.
    ///
    /// It is not 0 at first: the account and its balance are in the feed.
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

    /// Sets what a record of a declared collection holds, or deletes it with `nil`.
    public func put(_ value: RecordValue?, for key: RecordKey, of account: Identifier? = nil) {
        must { try memory.put([key: value], of: account ?? user) }
    }

    /// Changes several records at once: a reader sees all of it, or nothing.
    ///
    /// - Throws: what the body throws, or `Refusal` for what an operation may not do; nothing is
    ///   changed then.
    public func change(
        of account: Identifier? = nil,
        _ body: (inout Records) throws -> Void
    ) throws {
        try memory.change(of: account ?? user, body)
    }

    /// Forgets which records were deleted: a reader who has not heard of it begins afresh.
    ///
    /// A server does so for deletions of more than 30 days ago.
    ///
    /// - Parameters:
    ///   - number: Up to which number of the feed. Default: all.
    ///   - account: Whose. Default: ``user``.
    public func forgetDeletions(through number: Int64 = .max, of account: Identifier? = nil) {
        must { try memory.forgetDeletions(through: number, of: account ?? user) }
    }

    // MARK: - Operations

    /// The operations that were pushed and done for an account, in their order.
    ///
    /// Each as often as it was done: once. Of more than ``TestingLimits/operations`` the first.
    public func operations(of account: Identifier? = nil) -> [PushedOperation] {
        let done = state.withLock { $0.done[account ?? user] ?? [] }
        let inOrder = done.enumerated().sorted {
            ($0.element.head, $0.offset) < ($1.element.head, $1.offset)
        }
        return inOrder.map(\.element.operation)
    }

    /// What became of an operation; `nil` if it was never seen.
    public func result(of id: Identifier, account: Identifier? = nil) -> PushResult? {
        must { try memory.result(of: id, account: account ?? user) }
    }

    /// Refuses operations from now on, whatever their record mutations say; `nil` refuses none.
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

    // MARK: - Copies

    /// All that a server has at one moment, as a copy of its data folder has it.
    public struct Copy: Sendable {
        let storage: MemoryStorage.Copy
        let done: [Identifier: [Done]]
    }

    /// Returns a copy of all data, as a backup of a server is.
    public func copy() -> Copy {
        let storage = must { try memory.copy() }
        return Copy(storage: storage, done: state.withLock(\.done))
    }

    /// Restores an older copy, as an operator does: what came after it is lost.
    ///
    /// Live connections end, as with a server that restarts, and the feeds have a new epoch.
    public func restore(_ copy: Copy) {
        endStreams()
        must { try memory.restore(copy.storage) }
        state.withLock { $0.done = copy.done }
    }

    // MARK: - Time and live connections

    /// Does what a server does by itself every second.
    ///
    /// It ends holds whose time is over, drops what has served its time, and ends live connections
    /// whose token is no longer valid.
    public func runJobs() async {
        do {
            try await memory.authority.expireHolds()
            try await memory.authority.sweep()
        } catch {
            stop(for: error)
        }
        endUnauthenticatedStreams()
    }

    /// How many live connections there are.
    public var streamCount: Int { state.withLock { $0.streams.count } }

    /// Says on each live connection that the server is there, as it does every 20 seconds, and ends
    /// those whose token is no longer valid.
    public func ping() {
        endUnauthenticatedStreams()
        state.withLock { $0.streams.sayAll(": ping\n\n") }
        writeToStreams()
    }

    /// Ends all live connections, as a server that restarts does.
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

/// Does what an authority in memory refuses only if the test asks for what cannot be.
@discardableResult
func must<Value>(_ body: () throws -> Value) -> Value {
    do {
        return try body()
    } catch {
        stop(for: error)
    }
}

private func stop(for error: any Error) -> Never {
    preconditionFailure("Change what the test asks of its InMemoryAuthority: \(error)")
}
