/// When a live connection to the feed is made, given up and made again.
///
/// Pure: told of what happens, it says what is to be done. There is a connection while the app is
/// in the foreground and there is a network. One that ends is made again after what the server has
/// named, a little longer by chance; after failures in a row ever later, and meanwhile the feed is
/// polled.
///
/// Invariants, checked after each event in debug builds:
///
/// 1. At any time there is at most one connection, one attempt or one wait; none in the background,
///    without a network, or after ``close()``.
/// 2. What is told of a connection, or a wait, that was given up changes nothing.
struct FeedConnectionState: Sendable {
    /// What is to be done, in this order.
    enum Action: Hashable, Sendable {
        /// Makes a connection of this number.
        case connect(UInt64)
        /// Gives up the connection or wait of this number.
        case cancel(UInt64)
        /// Waits, under this number, and tells of the end of it.
        case wait(UInt64, Duration)
        /// The feed is live, and need not be polled; or the other way round.
        case setLive(Bool)
        case pull
    }

    /// How a connection ended.
    enum Ending: Hashable, Sendable {
        /// The server has ended it: it lasts as long as an access token.
        case ended
        /// There was none, or it broke; the server may have named a time.
        case failed(retryAfter: Duration?)
        /// The server serves no live feed, or not to this client.
        case unavailable
        /// The position is none from which the server can go on.
        case reset
        /// There was none: the first pull is not over, and says where a connection begins.
        case noPlace
    }

    private enum Phase: Hashable {
        case down
        case connecting(UInt64)
        case live(UInt64, since: Duration, wasHeard: Bool)
        case waiting(UInt64)
    }

    private var phase = Phase.down
    private var isForeground: Bool
    private var isOnline: Bool
    private var isClosed = false
    private var isLive = false
    /// Whether the present wait ends as soon as a pull says where to begin.
    private var awaitsPlace = false
    private var failures = 0
    /// Whether a connection has lasted and stayed silent, and no bytes have come on one since.
    private var wasSilent = false
    private var retry = FeedLimits.retry
    private var lastNumber: UInt64 = 0

    init(isForeground: Bool, isOnline: Bool) {
        self.isForeground = isForeground
        self.isOnline = isOnline
    }

    /// Whether a connection stands.
    var isConnected: Bool { if case .live = phase { true } else { false } }

    /// The feed is wanted from now on.
    mutating func start() -> [Action] { checked { $0.update() } }

    /// The app has come to the foreground or left it.
    mutating func setForeground(_ isForeground: Bool) -> [Action] {
        checked { state in
            guard state.isForeground != isForeground else { return [] }
            state.isForeground = isForeground
            state.failures = 0
            return state.update()
        }
    }

    /// The network has come or gone.
    mutating func setOnline(_ isOnline: Bool) -> [Action] {
        checked { state in
            guard state.isOnline != isOnline else { return [] }
            state.isOnline = isOnline
            state.failures = 0
            return state.update()
        }
    }

    /// Nothing is done from now on.
    mutating func close() -> [Action] {
        checked { state in
            state.isClosed = true
            return state.update()
        }
    }

    /// The server has answered, and events may come.
    ///
    /// While the feed is polled because connections stayed silent, it counts as live only when
    /// bytes have come.
    mutating func opened(_ number: UInt64, at now: Duration) -> [Action] {
        checked { state in
            guard state.phase == .connecting(number) else { return [] }
            state.phase = .live(number, since: now, wasHeard: false)
            return state.wasSilent ? [] : state.told(live: true)
        }
    }

    /// Bytes have come.
    ///
    /// A connection that stays silent does not count as one that has lasted.
    mutating func heard(_ number: UInt64) -> [Action] {
        checked { state in
            guard case .live(number, let since, _) = state.phase else { return [] }
            state.phase = .live(number, since: since, wasHeard: true)
            state.wasSilent = false
            return state.told(live: true)
        }
    }

    /// A pull has ended, and there is a place to begin at.
    mutating func placed() -> [Action] {
        checked { state in
            guard state.awaitsPlace, case .waiting = state.phase else { return [] }
            return state.update()
        }
    }

    /// The server has named the time after which to connect again.
    mutating func told(_ number: UInt64, retry: Duration) {
        guard case .live(number, _, _) = phase else { return }
        self.retry = min(retry, FeedLimits.longestRetry)
    }

    /// A connection, or the attempt to make one, is over.
    mutating func ended(
        _ number: UInt64,
        _ ending: Ending,
        at now: Duration,
        using random: inout some RandomNumberGenerator
    ) -> [Action] {
        let hasLasted: Bool
        switch phase {
        case .live(number, let since, let wasHeard):
            let wasLong = now - since >= FeedLimits.lasting
            hasLasted = wasHeard && wasLong
            wasSilent = wasSilent || !wasHeard && wasLong
        case .connecting(number): hasLasted = false
        default: return []
        }
        if hasLasted { failures = 0 }
        if ending != .noPlace, !hasLasted || ending != .ended { failures += 1 }
        var least = min(retry * (1 << min(max(0, failures - 1), 16)), FeedLimits.longestRetry)
        if case .failed(let named?) = ending { least = max(least, named) }
        if ending == .unavailable {
            failures = max(failures, FeedLimits.failuresBeforePolling)
            least = FeedLimits.longestRetry
        }
        let delay = least * (1 + Double.random(in: 0...FeedLimits.jitter, using: &random))
        return checked { state in
            state.lastNumber += 1
            state.phase = .waiting(state.lastNumber)
            var actions: [Action] = [.wait(state.lastNumber, delay)]
            if state.failures >= FeedLimits.failuresBeforePolling {
                actions += state.told(live: false)
            }
            // The pull that a first connection waits for is under way; it may have failed since.
            let isStuck = ending == .noPlace && state.awaitsPlace
            if ending == .reset || isStuck { actions.append(.pull) }
            state.awaitsPlace = ending == .noPlace
            return actions
        }
    }

    /// A wait is over.
    mutating func waited(_ number: UInt64) -> [Action] {
        checked { state in
            guard state.phase == .waiting(number) else { return [] }
            state.phase = .down
            return state.update()
        }
    }

    private mutating func update() -> [Action] {
        // Nothing is polled in the background or without a network either.
        guard isForeground, isOnline, !isClosed else { return takeDown() }
        switch phase {
        case .connecting, .live: return []
        case .waiting(let number):
            return [.cancel(number)] + connect()
        case .down: return connect()
        }
    }

    private mutating func connect() -> [Action] {
        lastNumber += 1
        phase = .connecting(lastNumber)
        return [.connect(lastNumber)]
    }

    private mutating func takeDown() -> [Action] {
        defer { phase = .down }
        switch phase {
        case .down: return []
        case .connecting(let number), .live(let number, _, _), .waiting(let number):
            return [.cancel(number)]
        }
    }

    private mutating func told(live: Bool) -> [Action] {
        guard isLive != live else { return [] }
        isLive = live
        return [.setLive(live)]
    }

    private mutating func checked(_ body: (inout Self) -> [Action]) -> [Action] {
        let actions = body(&self)
        if !isForeground || !isOnline || isClosed { assert(phase == .down) }
        return actions
    }
}
