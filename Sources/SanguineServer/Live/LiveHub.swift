import CoreMetrics
import NIOCore
import SanguineAuthority
import SanguineModel
import ServiceLifecycle
import Synchronization

/// The live connections of a server: admits, wakes and ends them.
///
/// A connection stores its position but buffers no events. A commit wakes the connections of its
/// account, which continue to read from their positions. Live connections and pulls therefore see
/// the same changes, and a slow reader costs no memory.
///
/// Invariants:
///
/// 1. The limits bound the number of connections in total and of each account. An address gets at
///    most half of the total.
/// 2. After ``stop()``, all connections end.
/// 3. A change of the switches wakes the accounts one share after the other, so that their reads do
///    not delay those of commits. The order differs in each process.
/// 4. A connection announces a changed list that everyone may read at one of the next checks of the
///    time, and changed records that name its account as a reader at once.
///
/// Mutable state: `guarded`, protected by its mutex. Bounded by the limit of connections.
final class LiveHub: Sendable {
    /// The numbers and times that limit connections.
    struct Limits: Sendable {
        var perAccount: Int
        var total: Int
        /// The time without a write after which a comment is sent to the connection.
        var pingInterval: Duration
        /// The time limit of a write.
        var writeTimeout: Duration
        /// The smallest number of accounts that a change of the switches wakes at once.
        var accountsWokenAtOnce = LiveLimits.accountsWokenAtOnce
    }

    private struct Guarded {
        var accounts: [Identifier: (account: LiveAccount, count: Int)] = [:]
        /// The accounts whose connections have not received the newest switches yet.
        var unwoken: [Identifier] = []
        /// The number of them that are woken at once.
        var share = 0
        /// The number of checks of the time.
        var checks = 0
        /// The lists that have changed, with the number of checks before.
        var changedLists: [String: Int] = [:]
        /// Those with recent changes of records that name the account as a reader.
        var readerLists: [Identifier: [String: Int]] = [:]
        var isStopped = false

        /// Removes what no connection that is opened now can have missed.
        mutating func forgetReaderLists() {
            let oldest = checks - LiveLimits.listNotes.secondsRoundedUp
            for (account, lists) in readerLists {
                let kept = lists.filter { $0.value >= oldest }
                readerLists[account] = kept.isEmpty ? nil : kept
            }
        }
    }

    private let guarded = Mutex(Guarded())
    private let feed: any FeedReading
    private let limits: Limits
    private let permits: SharedPool
    private let clock: any WallClock
    private let uptime: @Sendable () -> Duration
    private let isLive: @Sendable (AccessPass) -> Bool
    private let gauge: Meter
    private let events: Counter
    /// Ends with the last connection after ``stop()``.
    private let lastConnection = AsyncStream.makeStream(of: Never.self)

    /// Creates a hub without connections.
    ///
    /// - Parameters:
    ///   - feed: The source of changes.
    ///   - limits: The numbers and times that limit connections.
    ///   - clock: The time of day, for the expiry of access tokens.
    ///   - delay: The clock for timeouts.
    ///   - metrics: The factory of the metrics for connections and events.
    ///   - isLive: Returns whether the session that opened a connection is still valid.
    init(
        feed: any FeedReading,
        limits: Limits,
        clock: any WallClock,
        delay: any Clock<Duration>,
        metrics: any MetricsFactory,
        isLive: @escaping @Sendable (AccessPass) -> Bool
    ) {
        self.feed = feed
        self.limits = limits
        permits = SharedPool(limit: limits.total, accountShare: limits.perAccount)
        self.clock = clock
        self.isLive = isLive
        uptime = Self.stopwatch(delay)
        gauge = Meter(label: "live_connections", factory: metrics)
        events = Counter(label: "live_events", factory: metrics)
        gauge.set(0)
    }

    /// The number of connections.
    var count: Int { permits.count }

    /// Admits a connection.
    ///
    /// - Throws: `rate_limited` if the account has too many, `overloaded` if the server has too
    ///   many or is shutting down.
    func admit(
        _ pass: AccessPass,
        at position: FeedPosition,
        following lists: Set<String> = [],
        writing output: any LiveOutput,
        from address: String
    ) throws(Problem) -> LiveConnection {
        let id = pass.identity.account
        let permit: SharedPool.Permit
        do throws(SharedPool.Refusal) {
            permit = try permits.acquire(account: id, address: address)
        } catch {
            throw error == .account ? .tooManyOfAccount : .tooManyInAll
        }
        let entered = guarded.withLock { guarded -> (account: LiveAccount, checks: Int)? in
            if guarded.isStopped { return nil }
            var entry = guarded.accounts[id] ?? (LiveAccount(id, feed: feed), 0)
            entry.count += 1
            guarded.accounts[id] = entry
            return (entry.account, guarded.checks)
        }
        guard let (account, checks) = entered else { throw .tooManyInAll }
        let connection = LiveConnection(
            pass: pass,
            account: account,
            position: position,
            lists: lists,
            // The reader may have read a list before it asked for this connection.
            listsSeen: checks - LiveLimits.listNotes.secondsRoundedUp,
            output: output,
            uptime: uptime,
            wrote: { [events] in events.increment(by: $0) },
            release: { [self] in
                release(id)
                permit.release()
            }
        )
        gauge.increment()
        return connection
    }

    /// Begins to write the events of an admitted connection.
    ///
    /// - Throws: An error if the client has closed the connection.
    func start(_ connection: LiveConnection) async throws {
        let account = connection.account
        try await connection.open()
        // Before the first read, so that later commits wake the connection.
        account.enter(connection)
        // A check or the shutdown since the admission has missed it.
        endIfOver(connection, at: clock.now())
        let lists = guarded.withLock { $0.readerLists[account.id] ?? [:] }
        for name in lists.keys { connection.listChanged(name) }
        connection.start()
    }

    private func endIfOver(_ connection: LiveConnection, at moment: Timestamp) {
        if connection.pass.expiresAt <= moment || !isLive(connection.pass) {
            connection.end(.unauthenticated)
        }
        if guarded.withLock({ $0.isStopped }) { connection.end(.shutdown) }
    }

    private func release(_ id: Identifier) {
        let isLast = guarded.withLock { guarded in
            guarded.accounts[id]?.count -= 1
            if guarded.accounts[id]?.count == 0 { guarded.accounts[id] = nil }
            return guarded.isStopped && guarded.accounts.isEmpty
        }
        gauge.decrement()
        if isLast { lastConnection.continuation.finish() }
    }

    /// Wakes and ends connections after changes of the authority's data.
    func follow(_ authority: Authority) {
        authority.onHead { [self] account, head in committed(account, head: head) }
        authority.onLists { [self] in listsChanged($0) }
        authority.switches.onChange { [self] in switched() }
        authority.tokens.onEnd { [self] account in accessEnded(account) }
    }

    /// Wakes the connections of an account after a commit.
    func committed(_ account: Identifier, head: Int64) {
        guarded.withLock { $0.accounts[account]?.account }?.committed(head)
    }

    /// Records changed lists after a commit.
    func listsChanged(_ changed: ChangedLists) {
        let woken = guarded.withLock { guarded -> [(LiveAccount, String)] in
            for name in changed.collections where changed.readers[name] == nil {
                guarded.changedLists[name] = guarded.checks
            }
            if guarded.readerLists.count > LiveLimits.rememberedReaders {
                guarded.readerLists = [:]
            }
            for (name, accounts) in changed.readers {
                for id in accounts { guarded.readerLists[id, default: [:]][name] = guarded.checks }
            }
            return changed.readers.flatMap { name, accounts in
                accounts.compactMap { id in guarded.accounts[id].map { ($0.account, name) } }
            }
        }
        for (account, name) in woken {
            for connection in account.connections { connection.listChanged(name) }
        }
    }

    /// The number of accounts whose connections are woken later for a change of the switches.
    var unwokenAccounts: Int { guarded.withLock { $0.unwoken.count } }

    /// Wakes all connections after a change of the switches: those of some accounts at once, and
    /// the others at the next checks of the time.
    func switched() {
        let isWaking = guarded.withLock { guarded in
            let waiting = Set(guarded.unwoken)
            // Those that wait already come first, so that repeated changes do not delay them.
            guarded.unwoken += guarded.accounts.keys.filter { !waiting.contains($0) }
            let seconds = Int(LiveLimits.switchesTime.secondsRoundedUp)
            guarded.share = max(
                limits.accountsWokenAtOnce,
                (guarded.unwoken.count + seconds - 1) / seconds
            )
            return !waiting.isEmpty
        }
        if !isWaking { wakeShare() }
    }

    private func wakeShare() {
        let accounts = guarded.withLock { guarded in
            let share = guarded.unwoken.prefix(guarded.share)
            guarded.unwoken.removeFirst(share.count)
            return share.compactMap { guarded.accounts[$0]?.account }
        }
        for account in accounts { account.switched() }
    }

    /// Ends the connections of an account whose sessions have ended.
    func accessEnded(_ account: Identifier) {
        let own = guarded.withLock { $0.accounts[account]?.account }
        let moment = clock.now()
        for connection in own?.connections ?? [] { endIfOver(connection, at: moment) }
    }

    /// Checks the time, once a second: sends pings and notes of changed lists, ends expired
    /// connections and slow writes, and wakes the next accounts after a change of the switches.
    func checkTime() {
        wakeShare()
        let (accounts, isStopped, check, changed) = guarded.withLock { guarded in
            guarded.checks += 1
            guarded.forgetReaderLists()
            return (
                guarded.accounts.values.map(\.account), guarded.isStopped, guarded.checks,
                guarded.changedLists
            )
        }
        feed.announceLists(of: changed.filter { $0.value == check - 1 }.map(\.key))
        let shares = shares(of: permits.count)
        let (now, moment) = (uptime(), clock.now())
        let timeout = isStopped ? LiveLimits.writeAtShutdown : limits.writeTimeout
        for connection in accounts.lazy.flatMap(\.connections) {
            endIfOver(connection, at: moment)
            if (check + connection.share) % shares == 0 {
                connection.compareLists(changed, at: check)
            }
            connection.timePassed(
                to: now,
                pingInterval: limits.pingInterval,
                writeTimeout: timeout
            )
        }
    }

    /// The number of shares in which connections announce changed lists, one each second.
    private func shares(of connections: Int) -> Int {
        let needed = (connections + limits.accountsWokenAtOnce - 1) / limits.accountsWokenAtOnce
        return max(1, min(needed, LiveLimits.listNotes.secondsRoundedUp))
    }

    /// Ends all connections, and refuses new ones.
    func stop() {
        let accounts = guarded.withLock { guarded in
            guarded.isStopped = true
            return guarded.accounts.values.map(\.account)
        }
        if accounts.isEmpty { lastConnection.continuation.finish() }
        for connection in accounts.lazy.flatMap(\.connections) { connection.end(.shutdown) }
    }

    /// Waits after ``stop()`` until the last connection has ended, or the task is cancelled.
    ///
    /// Only one task may wait.
    func waitForEnd() async {
        for await _ in lastConnection.stream {}
    }

    private static func stopwatch(_ clock: some Clock<Duration>) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }
}

/// Ends the live connections when a graceful shutdown begins, before other services wait for them.
struct LiveShutdown: Service {
    let hub: LiveHub

    func run() async throws {
        try? await gracefulShutdown()
        hub.stop()
    }
}

/// Waits at a graceful shutdown until the live connections have ended, because the server only
/// waits for the tasks of its connections.
struct LiveEnd: Service {
    let hub: LiveHub

    func run() async throws {
        try? await gracefulShutdown()
        await hub.waitForEnd()
    }
}

extension Problem {
    fileprivate static var tooManyOfAccount: Problem {
        Problem(
            .rateLimited,
            "Close other live connections of this account, then connect again.",
            retryAfter: LiveLimits.retryAfterRefusal.secondsRoundedUp
        )
    }

    fileprivate static var tooManyInAll: Problem {
        Problem(
            .overloaded,
            "Too many live connections are open. Pull until you connect again after 'Retry-After'.",
            retryAfter: LiveLimits.retryAfterRefusal.secondsRoundedUp
        )
    }
}

extension LiveHub.Limits {
    /// The limits from a server's settings.
    init(_ limits: ServerSettings.Limits) {
        self.init(
            perAccount: limits.liveConnectionsPerAccount,
            total: limits.liveConnections,
            pingInterval: limits.livePing,
            writeTimeout: limits.writeTimeout
        )
    }
}
