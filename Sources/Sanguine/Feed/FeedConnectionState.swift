/// Decides when a live connection to the feed is made, closed and made again.
///
/// Pure: each method records one event and returns what to do. There is a connection while the app
/// is in the foreground and there is a network. After a connection ends, the next one follows after
/// the time that the server has named, plus a random delay. After consecutive failures the delay
/// grows, and the feed is polled in the meantime.
///
/// Invariants, checked after each event in debug builds:
///
/// 1. At any time there is at most one connection, one attempt or one wait; none in the background,
///    without a network, or after ``close()``.
/// 2. Events of a connection or wait that was cancelled change nothing.
struct FeedConnectionState: Sendable {
    /// An action to perform.
    enum Action: Hashable, Sendable {
        /// Make a connection with this number.
        case connect(UInt64)
        /// Cancel the connection or wait with this number.
        case cancel(UInt64)
        /// Wait, under this number, and report the end of the wait.
        case wait(UInt64, Duration)
        /// Record whether the feed is live; if not, it is polled.
        case setLive(Bool)
        case pull
    }

    /// The way in which a connection ended.
    enum Ending: Hashable, Sendable {
        /// The server has closed it, because it lasts only as long as an access token.
        case ended
        /// It could not be made, or it broke; the server may have named a time.
        case failed(retryAfter: Duration?)
        /// The server offers no live feed, or not to this client.
        case unavailable
        /// The server cannot continue from the position.
        case reset
        /// It was not made: the first pull, which sets the start, has not ended.
        case noPosition
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
    /// Whether the current wait ends as soon as a pull has set the start.
    private var awaitsPosition = false
    private var failures = 0
    /// Whether a long connection stayed silent, and no bytes have arrived on one since.
    private var wasSilent = false
    private var retry = FeedLimits.retry
    private var lastNumber: UInt64 = 0

    init(isForeground: Bool, isOnline: Bool) {
        self.isForeground = isForeground
        self.isOnline = isOnline
    }

    /// Whether there is a connection.
    var isConnected: Bool { if case .live = phase { true } else { false } }

    /// Starts the connection.
    mutating func start() -> [Action] { checked { $0.update() } }

    /// Records whether the app is in the foreground.
    mutating func setForeground(_ isForeground: Bool) -> [Action] {
        checked { state in
            guard state.isForeground != isForeground else { return [] }
            state.isForeground = isForeground
            state.failures = 0
            return state.update()
        }
    }

    /// Records whether there is a network.
    mutating func setOnline(_ isOnline: Bool) -> [Action] {
        checked { state in
            guard state.isOnline != isOnline else { return [] }
            state.isOnline = isOnline
            state.failures = 0
            return state.update()
        }
    }

    /// Replaces the connection, or the attempt to make one, by one with other parameters.
    mutating func restart() -> [Action] {
        checked { state in
            switch state.phase {
            case .connecting(let number), .live(let number, _, _):
                return [.cancel(number)] + state.connect()
            case .down, .waiting: return []
            }
        }
    }

    /// Ends the connection permanently.
    mutating func close() -> [Action] {
        checked { state in
            state.isClosed = true
            return state.update()
        }
    }

    /// Records that the server has answered, and that events may come.
    ///
    /// After silent connections, while the feed is polled, it counts as live only when bytes have
    /// arrived.
    mutating func opened(_ number: UInt64, at now: Duration) -> [Action] {
        checked { state in
            guard state.phase == .connecting(number) else { return [] }
            state.phase = .live(number, since: now, wasHeard: false)
            return state.wasSilent ? [] : state.notified(live: true)
        }
    }

    /// Records that bytes have arrived.
    ///
    /// A connection that stays silent counts as failed, however long it lasts.
    mutating func heard(_ number: UInt64) -> [Action] {
        checked { state in
            guard case .live(number, let since, _) = state.phase else { return [] }
            state.phase = .live(number, since: since, wasHeard: true)
            state.wasSilent = false
            return state.notified(live: true)
        }
    }

    /// Records that a pull has ended, and that there is a position to start from.
    mutating func pullEnded() -> [Action] {
        checked { state in
            guard state.awaitsPosition, case .waiting = state.phase else { return [] }
            return state.update()
        }
    }

    /// Records the delay that the server has named for the next connection.
    mutating func setRetryDelay(_ number: UInt64, retry: Duration) {
        guard case .live(number, _, _) = phase else { return }
        self.retry = min(retry, FeedLimits.longestRetry)
    }

    /// Records the end of a connection, or of the attempt to make one.
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
        if ending != .noPosition, !hasLasted || ending != .ended { failures += 1 }
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
                actions += state.notified(live: false)
            }
            // The pull that a first connection waits for is in progress; it may have failed since.
            let isStuck = ending == .noPosition && state.awaitsPosition
            if ending == .reset || isStuck { actions.append(.pull) }
            state.awaitsPosition = ending == .noPosition
            return actions
        }
    }

    /// Records the end of a wait.
    mutating func waited(_ number: UInt64) -> [Action] {
        checked { state in
            guard state.phase == .waiting(number) else { return [] }
            state.phase = .down
            return state.update()
        }
    }

    private mutating func update() -> [Action] {
        // Polling also stops in the background and without a network.
        guard isForeground, isOnline, !isClosed else { return disconnect() }
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

    private mutating func disconnect() -> [Action] {
        defer { phase = .down }
        switch phase {
        case .down: return []
        case .connecting(let number), .live(let number, _, _), .waiting(let number):
            return [.cancel(number)]
        }
    }

    private mutating func notified(live: Bool) -> [Action] {
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

extension FeedConnectionState: CustomDebugStringConvertible {
    /// One line for reports: the connection, the number of consecutive failures, and the reason why
    /// there is no connection.
    var debugDescription: String {
        let connection =
            switch phase {
            case .down: isClosed ? "closed" : "not connected"
            case .connecting: "connecting"
            case .live(_, _, let wasHeard): wasHeard ? "connected" : "connected, nothing heard yet"
            case .waiting: awaitsPosition ? "waiting for a pull" : "waiting to connect again"
            }
        var parts = [connection]
        if failures > 0 { parts.append(failures.counted("failure") + " in a row") }
        if wasSilent { parts.append("a connection stayed silent") }
        if !isForeground { parts.append("in the background") }
        if !isOnline { parts.append("no network") }
        return parts.joined(separator: ", ")
    }
}
