import SanguineModel

/// How a query's value is kept: data, not code, so that an app's storage can be printed as a table.
///
/// ```swift
/// let policy = Policy.fresh(for: .minutes(5)).stored(.onDisk).timeout(.seconds(8))
/// ```
public struct Policy: Hashable, Sendable {
    /// For how long a value counts as true without asking again.
    public enum Freshness: Hashable, Sendable {
        /// For that long after it arrived.
        case duration(Duration)
        /// Not at all: every reader that can wait asks again.
        case never
        /// Until the process ends.
        ///
        /// A user's value goes when the user changes; the device's and everybody's stay, and stay
        /// fresh.
        case session
        /// Until the user's day ends, in the zone that the client keeps.
        case untilMidnight
        /// For good, or until one of the policy's ``Policy/dependencies`` changes.
        case forever
    }

    /// Where a value is kept.
    public enum Tier: String, Hashable, Sendable {
        /// In memory: gone with the process.
        case inMemory
        /// In memory and on disk: there at the next launch.
        case onDisk
    }

    /// Whose a value is.
    public enum Audience: String, Hashable, Sendable {
        /// The signed-in user's; removed when they sign out.
        case user
        /// The device's, whoever is signed in.
        case device
        /// The same for everybody.
        case everyone
    }

    /// For how long a value counts as true.
    ///
    /// A time stamp in the future counts as stale, whatever stands here.
    public var freshness: Freshness
    /// How long after its arrival a value may be shown at all, unless it is in use.
    ///
    /// Default: 30 days.
    public var keep: Duration
    /// Where a value is kept.
    ///
    /// Default: in memory.
    public var tier: Tier
    /// Whose a value is.
    ///
    /// Default: the user's.
    public var audience: Audience
    /// How long one request may take.
    ///
    /// Default: 30 seconds.
    public var timeout: Duration
    /// When a failed request is tried again.
    ///
    /// Default: three attempts.
    public var retry: RetrySchedule
    /// What goes first when requests wait.
    ///
    /// Default: normal.
    public var priority: FetchPriority
    /// Names under which values are invalidated together.
    ///
    /// Default: none.
    public var tags: [String]
    /// Names of what the value was made of; when one of them changes, it counts as stale.
    ///
    /// Default: none.
    public var dependencies: [String]
    /// What makes a value count as stale and, if somebody observes it, be fetched again.
    ///
    /// Default: nothing.
    public var refetchEvents: RefetchEvents
    /// How often an observed value is fetched again.
    ///
    /// Default: never.
    public var polling: Duration?
    /// Between which bounds a value's freshness follows how often it really changes.
    ///
    /// Default: none; ``freshness`` stands as it is.
    public var adaptive: ClosedRange<Duration>?
    /// The version of the value's type: a stored value of another version is dropped.
    ///
    /// Default: 1. Raise it when a type changes its meaning and not its shape.
    public var version: Int

    /// Creates a policy.
    ///
    /// Default: fresh for no time, in memory, the user's, 30 s, three attempts.
    public init(
        freshness: Freshness = .never,
        tier: Tier = .inMemory,
        audience: Audience = .user,
        timeout: Duration = ClientLimits.requestTimeout,
        retry: RetrySchedule = .standard
    ) {
        self.freshness = freshness
        self.tier = tier
        self.audience = audience
        self.timeout = timeout
        self.retry = retry
        keep = ClientLimits.keep
        priority = .normal
        tags = []
        dependencies = []
        refetchEvents = []
        version = 1
    }

    /// Fresh for that long after it arrived.
    public static func fresh(for duration: Duration) -> Policy {
        Policy(freshness: .duration(duration))
    }

    /// Shown at once and asked for again each time.
    public static let alwaysStale = Policy(freshness: .never)

    /// Asked for once in a process; for each user, if it is theirs.
    public static let session = Policy(freshness: .session)

    /// Asked for once in a day of the user.
    public static let untilMidnight = with(Policy(freshness: .untilMidnight)) {
        $0.refetchEvents = .midnight
    }

    /// Asked for once.
    public static let forever = Policy(freshness: .forever)

    /// Asked for once, and again after one of the named things has changed; see
    /// ``SanguineClient/dependencyChanged(_:)``.
    public static func untilChanged(_ dependencies: String...) -> Policy {
        with(Policy(freshness: .forever)) { $0.dependencies = dependencies }
    }

    /// The same policy with that tier.
    public func stored(_ tier: Tier) -> Policy { with { $0.tier = tier } }

    /// The same policy, kept for that long.
    public func kept(for duration: Duration) -> Policy { with { $0.keep = duration } }

    /// The same policy for that audience.
    public func audience(_ audience: Audience) -> Policy { with { $0.audience = audience } }

    /// The same policy with that much time for one request.
    public func timeout(_ timeout: Duration) -> Policy { with { $0.timeout = timeout } }

    /// The same policy with those attempts.
    public func retry(_ retry: RetrySchedule) -> Policy { with { $0.retry = retry } }

    /// The same policy with that priority.
    public func priority(_ priority: FetchPriority) -> Policy { with { $0.priority = priority } }

    /// The same policy with more tags.
    public func tagged(_ tags: String...) -> Policy { with { $0.tags += tags } }

    /// The same policy with more dependencies.
    public func depends(on dependencies: String...) -> Policy {
        with { $0.dependencies += dependencies }
    }

    /// The same policy, fetched again on those events too.
    public func refetched(on events: RefetchEvents) -> Policy {
        with { $0.refetchEvents.formUnion(events) }
    }

    /// The same policy, fetched again that often while it is observed.
    public func polled(every interval: Duration) -> Policy { with { $0.polling = interval } }

    /// The same policy with a freshness that follows how often the value changes.
    public func adaptive(within bounds: ClosedRange<Duration>) -> Policy {
        with { $0.adaptive = bounds }
    }

    /// The same policy with that version of the value's type.
    public func version(_ version: Int) -> Policy { with { $0.version = version } }

    /// When a value that arrived then may no longer be shown; at most a hundred years later.
    func end(of asOf: Timestamp) -> Timestamp {
        asOf + min(max(.zero, keep), .hours(24 * 36_525))
    }

    private func with(_ change: (inout Policy) -> Void) -> Policy {
        Self.with(self, change)
    }

    private static func with(_ policy: Policy, _ change: (inout Policy) -> Void) -> Policy {
        var copy = policy
        change(&copy)
        return copy
    }
}

/// What goes first when requests to one host wait for each other.
public enum FetchPriority: Int, Hashable, Sendable, Comparable, CaseIterable {
    /// May be needed soon; nobody waits for it.
    case prefetch
    /// Somebody waits for it.
    case normal
    /// Somebody looks at its place on the screen.
    case visible

    /// Orders priorities from the lowest to the highest.
    public static func < (lhs: FetchPriority, rhs: FetchPriority) -> Bool {
        lhs.rawValue < rhs.rawValue
    }
}

/// What may make a value count as stale.
public struct RefetchEvents: OptionSet, Hashable, Sendable {
    /// One bit for each event.
    public let rawValue: Int

    /// Creates a set from its bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The app came back after it was away for a while.
    public static let foreground = RefetchEvents(rawValue: 1)
    /// The network is there again.
    public static let networkBack = RefetchEvents(rawValue: 2)
    /// The user's day ended.
    public static let midnight = RefetchEvents(rawValue: 4)
}

extension Duration {
    /// A duration of whole minutes.
    public static func minutes(_ minutes: Int) -> Duration { .seconds(minutes * 60) }

    /// A duration of whole hours, of 60 minutes each.
    public static func hours(_ hours: Int) -> Duration { .seconds(hours * 3_600) }
}
