import SanguineModel

/// Records events around the app, and is the only code that decides what they refetch.
///
/// The state performs no I/O and reads no clock. Each method records one event and returns what to
/// fetch again, see ``Actions``. ``EventKeeper`` does it.
///
/// - *Foreground*: the app was away for long enough. Both clocks are read, and the longer time
///   counts: one clock stops while the device sleeps, the other may be set back.
/// - *Network back*: it was gone. Counts once in 10 seconds; an earlier return waits.
/// - *Midnight*: the local day has changed since the last check, for any reason (time passed, the
///   clock or the zone was set), or the last one has ended where it was.
/// - *Polls*: while observed, in the foreground, with a network.
///
/// No timer runs in the background; events of that time are handled once, on return. Events without
/// a network are handled again when it is back, because nothing could be fetched.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. In the background nothing is polled, and there is no next wake.
/// 2. Without a network nothing is polled.
/// 3. A return of the network waits only while there is one.
struct EventState: Sendable {
    /// The current time on all clocks.
    struct Moment: Hashable, Sendable {
        /// The time of day.
        var wall: Timestamp
        /// The time on the clock for delays, since the client was created.
        var uptime: Duration
        /// The local day, and its end.
        var day: LocalDay
    }

    /// The queries to fetch again.
    struct Actions: Hashable, Sendable {
        /// All queries whose policy names one of these events.
        var events: RefetchEvents = []
        /// The polled queries that are due.
        var polls: [QueryKey] = []

        static let nothing = Actions()
    }

    private let foregroundAfter: Duration
    /// The delay of this device's fetches after midnight.
    private let spread: Duration
    private(set) var isForeground: Bool
    private(set) var isOnline: Bool
    private var day: LocalDay
    /// The time at which the app left the foreground.
    private var wentAway: Moment?
    /// The time at which the return of the network counts.
    private var networkDue: Duration?
    private var lastNetwork: Duration?
    /// Events that happened without a network.
    private var missed: RefetchEvents = []
    private var polls = PollSchedule<QueryKey>()
    private var midnightObservers = 0

    /// Creates the state of a client that starts now.
    ///
    /// - Parameters:
    ///   - isForeground: Whether the app is in the foreground.
    ///   - isOnline: Whether there is a network.
    ///   - moment: The current time.
    ///   - foregroundAfter: The time that the app must be away for its return to count.
    ///   - spread: The delay of this device's fetches after midnight.
    init(
        isForeground: Bool,
        isOnline: Bool,
        at moment: Moment,
        foregroundAfter: Duration,
        spread: Duration
    ) {
        self.isForeground = isForeground
        self.isOnline = isOnline
        self.foregroundAfter = foregroundAfter
        self.spread = spread
        day = moment.day
        wentAway = isForeground ? nil : moment
    }

    /// The number of polled keys.
    var polled: Int { polls.count }

    // MARK: - Observers

    /// Records an observed query that is polled or follows the user's days.
    ///
    /// Fetches nothing: observing a query already fetches a stale value.
    mutating func observed(
        _ key: QueryKey,
        polling: Duration?,
        followsDays: Bool,
        at moment: Moment,
        using random: inout some RandomNumberGenerator
    ) {
        defer { checkInvariants() }
        if followsDays {
            // Midnights are not reported while there are no observers.
            if midnightObservers == 0 { day = moment.day }
            midnightObservers += 1
        }
        if let polling { polls.begin(key, every: polling, at: moment.uptime, using: &random) }
    }

    /// Records that a query is no longer observed.
    mutating func unobserved(_ key: QueryKey, polling: Duration?, followsDays: Bool) {
        defer { checkInvariants() }
        if followsDays { midnightObservers = max(0, midnightObservers - 1) }
        if polling != nil { polls.end(key) }
    }

    // MARK: - Events

    /// Records whether the app is in the foreground.
    mutating func lifecycleIs(
        foreground: Bool,
        at moment: Moment,
        using random: inout some RandomNumberGenerator
    ) -> Actions {
        defer { checkInvariants() }
        guard foreground != isForeground else { return dueActions(at: moment, using: &random) }
        isForeground = foreground
        guard foreground else {
            wentAway = moment
            return .nothing
        }
        var events: RefetchEvents = []
        if let wentAway {
            let away = max(moment.wall - wentAway.wall, moment.uptime - wentAway.uptime)
            if away >= foregroundAfter { events = .foreground }
        }
        wentAway = nil
        return dueActions(at: moment, and: events, using: &random)
    }

    /// Records whether there is a network.
    mutating func networkIs(
        online: Bool,
        at moment: Moment,
        using random: inout some RandomNumberGenerator
    ) -> Actions {
        defer { checkInvariants() }
        if online != isOnline {
            isOnline = online
            networkDue = online ? max(moment.uptime, earliestNetwork ?? moment.uptime) : nil
        }
        return dueActions(at: moment, using: &random)
    }

    /// Records that time has passed, or that the clock or the zone was set.
    mutating func woke(
        at moment: Moment,
        using random: inout some RandomNumberGenerator
    ) -> Actions {
        defer { checkInvariants() }
        return dueActions(at: moment, using: &random)
    }

    /// Returns the time until the next event that is due by itself.
    ///
    /// - Parameter moment: The current time.
    /// - Returns: At least a second, and at most an hour if days are followed; `nil` if nothing is
    ///   due.
    func wait(at moment: Moment) -> Duration? {
        guard isForeground else { return nil }
        var waits: [Duration] = []
        if midnightObservers > 0 {
            // At most an hour: there is no notification of a changed clock or zone.
            let midnight = min(day.end, moment.day.end)
            waits.append(min(midnight - moment.wall + spread, EventLimits.longestSleep))
        }
        if isOnline, let due = polls.nextDue { waits.append(due - moment.uptime) }
        if let networkDue { waits.append(networkDue - moment.uptime) }
        return waits.min().map { max($0, EventLimits.shortestSleep) }
    }

    private var earliestNetwork: Duration? { lastNetwork.map { $0 + EventLimits.networkPause } }

    /// Returns what is due now.
    private mutating func dueActions(
        at moment: Moment,
        and events: RefetchEvents = [],
        using random: inout some RandomNumberGenerator
    ) -> Actions {
        guard isForeground else { return .nothing }
        var actions = Actions(events: events)
        if moment.day.day != day.day || moment.wall >= day.end {
            day = moment.day
            actions.events.insert(.midnight)
        } else {
            // A value that was fetched in another zone is of a day that may end earlier there.
            day.end = min(day.end, moment.day.end)
        }
        guard isOnline else {
            missed.formUnion(actions.events)
            return actions
        }
        if let due = networkDue, due <= moment.uptime {
            networkDue = nil
            lastNetwork = moment.uptime
            actions.events.formUnion(missed)
            actions.events.insert(.networkBack)
            missed = []
        }
        actions.polls = polls.popDue(at: moment.uptime, using: &random)
        return actions
    }

    private func checkInvariants() {
        assert(
            networkDue == nil || isOnline,
            "The network's return is due, but the device is offline."
        )
        assert(isForeground == (wentAway == nil))
        assert(midnightObservers >= 0)
    }
}
