import CoreMetrics
import NIOCore
import SanguineAuthority
import SanguineModel
import ServiceLifecycle
import Synchronization

/// The live connections of one server: lets them in, wakes them, and ends them.
///
/// A connection has no buffer but its position. A commit wakes the connections of its account,
/// which read on from where they are; so whoever is connected and whoever pulls see the same, and a
/// slow reader costs no memory.
///
/// Invariants:
///
/// 1. There are at most as many connections as the limits say, of one account and in all, and
///    half of them of one address.
/// 2. After ``stop()`` there is none that does not end.
///
/// Mutable state: `guarded`, by its mutex. Bounded by the limit of connections.
final class LiveHub: Sendable {
    /// How much is taken, and how long waited.
    struct Limits: Sendable {
        var perAccount: Int
        var total: Int
        /// After how long without a word a connection gets a comment.
        var pingInterval: Duration
        /// How long a write may take.
        var writeTimeout: Duration
    }

    private struct Guarded {
        var accounts: [Identifier: (account: LiveAccount, count: Int)] = [:]
        var isStopped = false
    }

    private let guarded = Mutex(Guarded())
    private let feed: any FeedReading
    private let limits: Limits
    private let places: SharedPool
    private let clock: any WallClock
    private let uptime: @Sendable () -> Duration
    private let isLive: @Sendable (AccessPass) -> Bool
    private let gauge: Meter
    private let events: Counter

    /// Creates a hub without connections.
    ///
    /// - Parameters:
    ///   - feed: What is read.
    ///   - limits: How much is taken, and how long waited.
    ///   - clock: The time of day, for the expiry of access tokens.
    ///   - delay: What measures waits.
    ///   - metrics: Where connections and events are counted.
    ///   - isLive: Whether the session goes on with which a connection was opened.
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
        places = SharedPool(limit: limits.total, accountShare: limits.perAccount)
        self.clock = clock
        self.isLive = isLive
        uptime = Self.stopwatch(delay)
        gauge = Meter(label: "live_connections", factory: metrics)
        events = Counter(label: "live_events", factory: metrics)
        gauge.set(0)
    }

    /// How many connections there are.
    var count: Int { places.count }

    /// Lets a connection in.
    ///
    /// - Throws: `rate_limited` if the account has too many, `overloaded` if the server has, or
    ///   stops.
    func admit(
        _ pass: AccessPass,
        at position: FeedPosition,
        on channel: any Channel,
        from address: String
    ) throws(Problem) -> LiveStream {
        let id = pass.identity.account
        let place: SharedPool.Place
        do throws(SharedPool.Refusal) {
            place = try places.take(account: id, address: address)
        } catch {
            throw error == .account ? .tooManyOfAccount : .tooManyInAll
        }
        let account = guarded.withLock { guarded -> LiveAccount? in
            if guarded.isStopped { return nil }
            var entry = guarded.accounts[id] ?? (LiveAccount(id, feed: feed), 0)
            entry.count += 1
            guarded.accounts[id] = entry
            return entry.account
        }
        guard let account else { throw .tooManyInAll }
        let connection = LiveConnection(
            pass: pass,
            account: account,
            position: position,
            channel: channel,
            uptime: uptime
        ) { [self] in
            release(id)
            place.leave()
        }
        gauge.increment()
        return LiveStream(
            connection: connection,
            channel: channel,
            // A look or the stop may have come between the admission and now, and missed it.
            entered: { [self] in endIfOver($0, at: clock.now()) },
            wrote: { [events] in events.increment(by: $0) }
        )
    }

    private func endIfOver(_ connection: LiveConnection, at moment: Timestamp) {
        if connection.pass.expiresAt <= moment || !isLive(connection.pass) {
            connection.end(.unauthenticated)
        }
        if guarded.withLock({ $0.isStopped }) { connection.end(.shutdown) }
    }

    private func release(_ id: Identifier) {
        guarded.withLock { guarded in
            guarded.accounts[id]?.count -= 1
            if guarded.accounts[id]?.count == 0 { guarded.accounts[id] = nil }
        }
        gauge.decrement()
    }

    /// Something of an account was committed.
    func committed(_ account: Identifier, head: Int64) {
        guarded.withLock { $0.accounts[account]?.account }?.committed(head)
    }

    /// Looks at the time, once a second: pings, ends what has expired, and what takes too long.
    func look() {
        let (accounts, isStopped) = guarded.withLock { guarded in
            (guarded.accounts.values.map(\.account), guarded.isStopped)
        }
        let (now, moment) = (uptime(), clock.now())
        let timeout = isStopped ? LiveLimits.writeAtShutdown : limits.writeTimeout
        for connection in accounts.lazy.flatMap(\.connections) {
            endIfOver(connection, at: moment)
            connection.timePassed(
                to: now,
                pingInterval: limits.pingInterval,
                writeTimeout: timeout
            )
        }
    }

    /// Ends all connections, and lets none in from now on.
    func stop() {
        let accounts = guarded.withLock { guarded in
            guarded.isStopped = true
            return guarded.accounts.values.map(\.account)
        }
        for connection in accounts.lazy.flatMap(\.connections) { connection.end(.shutdown) }
    }

    private static func stopwatch(_ clock: some Clock<Duration>) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }
}

/// Ends the live connections when the server is told to stop, before anything waits for them.
struct LiveShutdown: Service {
    let hub: LiveHub

    func run() async throws {
        try? await gracefulShutdown()
        hub.stop()
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
            "Wait for 'Retry-After', then connect again; until then, pull.",
            retryAfter: LiveLimits.retryAfterRefusal.secondsRoundedUp
        )
    }
}

extension LiveHub.Limits {
    /// A server's limits, as they are set.
    init(_ limits: ServerSettings.Limits) {
        self.init(
            perAccount: limits.liveConnectionsPerAccount,
            total: limits.liveConnections,
            pingInterval: limits.livePing,
            writeTimeout: limits.writeTimeout
        )
    }
}
