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
        /// Until the process ends or the user changes.
        case session
        /// For good.
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
    public var freshness: Freshness
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
        priority = .normal
    }

    /// Fresh for that long after it arrived.
    public static func fresh(for duration: Duration) -> Policy {
        Policy(freshness: .duration(duration))
    }

    /// Shown at once and asked for again each time.
    public static let alwaysStale = Policy(freshness: .never)

    /// Asked for once in a process and for each user.
    public static let session = Policy(freshness: .session)

    /// Asked for once.
    public static let forever = Policy(freshness: .forever)

    /// The same policy with that tier.
    public func stored(_ tier: Tier) -> Policy { with { $0.tier = tier } }

    /// The same policy for that audience.
    public func audience(_ audience: Audience) -> Policy { with { $0.audience = audience } }

    /// The same policy with that much time for one request.
    public func timeout(_ timeout: Duration) -> Policy { with { $0.timeout = timeout } }

    /// The same policy with those attempts.
    public func retry(_ retry: RetrySchedule) -> Policy { with { $0.retry = retry } }

    /// The same policy with that priority.
    public func priority(_ priority: FetchPriority) -> Policy { with { $0.priority = priority } }

    private func with(_ change: (inout Policy) -> Void) -> Policy {
        var copy = self
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

extension Duration {
    /// A duration of whole minutes.
    public static func minutes(_ minutes: Int) -> Duration { .seconds(minutes * 60) }

    /// A duration of whole hours, of 60 minutes each.
    public static func hours(_ hours: Int) -> Duration { .seconds(hours * 3_600) }
}
