import SanguineModel

/// What happens around the app, and the only code that decides what is fetched again because of it.
///
/// The state performs no I/O and reads no clock. Each method records one thing that has happened
/// and returns what is now to be fetched again, see ``Actions``. ``EventKeeper`` does it.
///
/// - *Foreground*: the app was away for long enough. Counted on both clocks, and the longer time
///   counts: one stands still while the device sleeps, the other may be set back.
/// - *Network back*: it was gone. Counts once in 10 seconds; a return that comes sooner waits.
/// - *Midnight*: the local day is another one than when last looked at, whichever way it changed
///   (time passed, the clock was set, the zone is another one), or that one has ended where it was.
/// - *Polls*: while observed, in the foreground, with a network.
///
/// In the background no timer runs. What would have happened is made up for on return, once. What
/// happened without a network counts again when that is back, because nothing could be fetched.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. In the background nothing is polled, and there is no next wake.
/// 2. Without a network nothing is polled.
/// 3. A return of the network waits only while there is one.
struct EventState: Sendable {
    /// The present on all clocks.
    struct Moment: Hashable, Sendable {
        /// The time of day.
        var wall: Timestamp
        /// The time on the clock of waits, since the client was created.
        var uptime: Duration
        /// The local day, and its end.
        var day: LocalDay
    }

    /// What is to be fetched again.
    struct Actions: Hashable, Sendable {
        /// Every query whose policy names one of these.
        var events: RefetchEvents = []
        /// And these, whose turn has come.
        var polls: [QueryKey] = []

        static let nothing = Actions()
    }

    private let foregroundAfter: Duration
    /// How much later than midnight this device fetches.
    private let spread: Duration
    private(set) var isForeground: Bool
    private(set) var isOnline: Bool
    private var day: LocalDay
    /// When the app left the foreground.
    private var wentAway: Moment?
    /// When the return of the network counts.
    private var networkDue: Duration?
    private var lastNetwork: Duration?
    /// What happened while there was no network.
    private var missed: RefetchEvents = []
    private var polls = PollSchedule<QueryKey>()
    private var midnightObservers = 0

    /// Begins to watch.
    ///
    /// - Parameters:
    ///   - isForeground: Whether the app is in the foreground.
    ///   - isOnline: Whether there is a network.
    ///   - moment: The present.
    ///   - foregroundAfter: How long the app must be away for its return to count.
    ///   - spread: How much later than midnight this device fetches.
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

    /// How many keys are polled.
    var polled: Int { polls.count }

    // MARK: - Observers

    /// A query is observed, and is to be polled or to follow the days.
    ///
    /// Nothing comes of it at once: whoever begins to observe has its own way to a fresh value.
    mutating func observed(
        _ key: QueryKey,
        polling: Duration?,
        followsDays: Bool,
        at moment: Moment,
        using random: inout some RandomNumberGenerator
    ) {
        defer { checkInvariants() }
        if followsDays {
            // Nobody was told of a midnight that nobody waited for.
            if midnightObservers == 0 { day = moment.day }
            midnightObservers += 1
        }
        if let polling { polls.begin(key, every: polling, at: moment.uptime, using: &random) }
    }

    /// It is no longer.
    mutating func unobserved(_ key: QueryKey, polling: Duration?, followsDays: Bool) {
        defer { checkInvariants() }
        if followsDays { midnightObservers = max(0, midnightObservers - 1) }
        if polling != nil { polls.end(key) }
    }

    // MARK: - Events

    /// The app is in the foreground, or is not.
    mutating func lifecycleIs(
        foreground: Bool,
        at moment: Moment,
        using random: inout some RandomNumberGenerator
    ) -> Actions {
        defer { checkInvariants() }
        guard foreground != isForeground else { return look(at: moment, using: &random) }
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
        return look(at: moment, and: events, using: &random)
    }

    /// There is a network, or there is none.
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
        return look(at: moment, using: &random)
    }

    /// Time has passed, or the clock or the zone was set.
    mutating func woke(
        at moment: Moment,
        using random: inout some RandomNumberGenerator
    ) -> Actions {
        defer { checkInvariants() }
        return look(at: moment, using: &random)
    }

    /// How long nothing happens by itself.
    ///
    /// - Parameter moment: The present.
    /// - Returns: At least a second and at most an hour where days are followed; `nil` if nothing
    ///   will happen.
    func wait(at moment: Moment) -> Duration? {
        guard isForeground else { return nil }
        var waits: [Duration] = []
        if midnightObservers > 0 {
            // Not longer than an hour: whoever sets the clock or moves tells nobody.
            let midnight = min(day.end, moment.day.end)
            waits.append(min(midnight - moment.wall + spread, EventLimits.longestSleep))
        }
        if isOnline, let due = polls.nextDue { waits.append(due - moment.uptime) }
        if let networkDue { waits.append(networkDue - moment.uptime) }
        return waits.min().map { max($0, EventLimits.shortestSleep) }
    }

    private var earliestNetwork: Duration? { lastNetwork.map { $0 + EventLimits.networkPause } }

    /// What is due now.
    private mutating func look(
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
            // What was fetched in another zone is of a day that may end earlier there.
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
        actions.polls = polls.takeDue(at: moment.uptime, using: &random)
        return actions
    }

    private func checkInvariants() {
        assert(networkDue == nil || isOnline, "The network's return waits without a network.")
        assert(isForeground == (wentAway == nil))
        assert(midnightObservers >= 0)
    }
}
