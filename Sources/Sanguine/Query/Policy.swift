import SanguineModel

/// The rules for a query's value, as data and not code, so that an app's storage can be printed as
/// a table.
///
/// ```swift
/// let policy = Policy.fresh(for: .minutes(5)).stored(.onDisk).timeout(.seconds(8))
/// ```
public struct Policy: Hashable, Sendable {
    /// The time for which a value counts as current without another fetch.
    public enum Freshness: Hashable, Sendable {
        /// For a duration after its arrival.
        case duration(Duration)
        /// Never: every reader that can wait fetches the value again.
        case never
        /// Until the process ends.
        ///
        /// A user's value is removed when the user changes. Values of the device and of everyone
        /// stay, and stay fresh.
        case session
        /// Until the user's day ends, in the client's time zone.
        case untilMidnight
        /// Forever, or until one of the policy's ``Policy/dependencies`` changes.
        case forever
    }

    /// The place where a value is stored.
    public enum Tier: String, Hashable, Sendable {
        /// In memory, until the process ends.
        case inMemory
        /// In memory and on disk, even after the next launch.
        case onDisk
    }

    /// The audience of a value: the users who may see it.
    public enum Audience: String, Hashable, Sendable {
        /// The signed-in user; the value is removed at sign-out.
        case user
        /// The device, for all of its users.
        case device
        /// Everyone: the value is the same for all users.
        case everyone
    }

    /// The time for which a value is fresh.
    ///
    /// A value with a timestamp in the future is always stale.
    public var freshness: Freshness
    /// The time after its arrival for which a value may be shown, unless it is in use.
    ///
    /// Default: 30 days.
    public var keep: Duration
    /// The place where a value is stored.
    ///
    /// Default: in memory.
    public var tier: Tier
    /// The audience of the value.
    ///
    /// Default: the user's.
    public var audience: Audience
    /// The time limit of one request.
    ///
    /// Default: 30 seconds.
    public var timeout: Duration
    /// The schedule for retries of failed requests.
    ///
    /// Default: three attempts.
    public var retry: RetrySchedule
    /// The priority of requests that wait for a slot.
    ///
    /// Default: normal.
    public var priority: FetchPriority
    /// The tags of the value; a tag invalidates all values that have it.
    ///
    /// Default: none.
    public var tags: [String]
    /// The names of the value's dependencies; when one of them changes, the value becomes stale.
    ///
    /// Default: none.
    public var dependencies: [String]
    /// The events that make a value stale; if it is observed, it is fetched again.
    ///
    /// Default: nothing.
    public var refetchEvents: RefetchEvents
    /// The interval at which an observed value is fetched again.
    ///
    /// Default: never.
    public var polling: Duration?
    /// The bounds for a freshness that adapts to how often the value changes.
    ///
    /// Default: none; ``freshness`` applies.
    public var adaptive: ClosedRange<Duration>?
    /// The version of the value's type; a stored value of another version is dropped.
    ///
    /// Default: 1. Increase it when the meaning of a type changes but its shape does not.
    public var version: Int

    /// Creates a policy.
    ///
    /// Default: never fresh, in memory, for the user, 30 s, three attempts.
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

    /// Fresh for a duration after its arrival.
    public static func fresh(for duration: Duration) -> Policy {
        Policy(freshness: .duration(duration))
    }

    /// Shown at once and fetched again each time.
    public static let alwaysStale = Policy(freshness: .never)

    /// Fetched once in a process; for an audience of one user, once for each user.
    public static let session = Policy(freshness: .session)

    /// Fetched once in a day of the user.
    public static let untilMidnight = with(Policy(freshness: .untilMidnight)) {
        $0.refetchEvents = .midnight
    }

    /// Fetched once.
    public static let forever = Policy(freshness: .forever)

    /// Fetched once, and again after one of the dependencies has changed; see
    /// ``SanguineClient/dependencyChanged(_:)``.
    public static func untilChanged(_ dependencies: String...) -> Policy {
        with(Policy(freshness: .forever)) { $0.dependencies = dependencies }
    }

    /// Returns the policy with another tier.
    public func stored(_ tier: Tier) -> Policy { with { $0.tier = tier } }

    /// Returns the policy with another time to keep values.
    public func kept(for duration: Duration) -> Policy { with { $0.keep = duration } }

    /// Returns the policy with another audience.
    public func audience(_ audience: Audience) -> Policy { with { $0.audience = audience } }

    /// Returns the policy with another time limit of one request.
    public func timeout(_ timeout: Duration) -> Policy { with { $0.timeout = timeout } }

    /// Returns the policy with another retry schedule.
    public func retry(_ retry: RetrySchedule) -> Policy { with { $0.retry = retry } }

    /// Returns the policy with another priority.
    public func priority(_ priority: FetchPriority) -> Policy { with { $0.priority = priority } }

    /// Returns the policy with additional tags.
    public func tagged(_ tags: String...) -> Policy { with { $0.tags += tags } }

    /// Returns the policy with additional dependencies.
    public func depends(on dependencies: String...) -> Policy {
        with { $0.dependencies += dependencies }
    }

    /// Returns the policy with additional dependencies on the app's own settings in the account.
    ///
    /// When one of these members of ``AccountSettings`` changes, on any of the user's devices, the
    /// value becomes stale.
    ///
    /// ```swift
    /// let horoscope = Policy.untilMidnight.stored(.onDisk).depends(onSettings: "birth")
    /// ```
    public func depends(onSettings members: String...) -> Policy {
        with { $0.dependencies += members.map(SettingDependency.name) }
    }

    /// Returns the policy with additional refetch events.
    public func refetched(on events: RefetchEvents) -> Policy {
        with { $0.refetchEvents.formUnion(events) }
    }

    /// Returns the policy with a polling interval, for values that are observed.
    public func polled(every interval: Duration) -> Policy { with { $0.polling = interval } }

    /// Returns the policy with a freshness that adapts to how often the value changes.
    public func adaptive(within bounds: ClosedRange<Duration>) -> Policy {
        with { $0.adaptive = bounds }
    }

    /// Returns the policy with another version of the value's type.
    public func version(_ version: Int) -> Policy { with { $0.version = version } }

    /// Returns the time after which a value may no longer be shown, at most a hundred years later.
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

/// The priority of requests that wait for the same host.
public enum FetchPriority: Int, Hashable, Sendable, Comparable, CaseIterable {
    /// The value may be needed soon; no caller waits for it.
    case prefetch
    /// A caller waits for the value.
    case normal
    /// A view that is visible on the screen waits for the value.
    case visible

    /// Orders priorities from the lowest to the highest.
    public static func < (lhs: FetchPriority, rhs: FetchPriority) -> Bool {
        lhs.rawValue < rhs.rawValue
    }
}

/// The events that can make a value stale.
public struct RefetchEvents: OptionSet, Hashable, Sendable {
    /// The bits of the set, one for each event.
    public let rawValue: Int

    /// Creates a set from its bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The app returned to the foreground after a while.
    public static let foreground = RefetchEvents(rawValue: 1)
    /// The network returned.
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
