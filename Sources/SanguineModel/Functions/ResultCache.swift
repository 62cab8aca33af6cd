/// The lifetime of a function's cached answers, and the accounts that may receive them.
///
/// ```swift
/// let cache = ResultCache.untilMidnight                    // of the account's own day
/// let chart = ResultCache.untilChange(of: "birth")         // a member of the account's settings
/// let sky = ResultCache.forever.public(sharing: "year")    // one answer for all users
/// ```
///
/// The cache key consists of the function with its ``FunctionRules/version``, the audience, and the
/// input in canonical form (RFC 8785), so that differently written copies of a call share one
/// entry.
public struct ResultCache: Hashable, Sendable {
    /// The lifetime of a cached answer.
    public enum Lifetime: Hashable, Sendable {
        /// Not at all.
        case none
        /// For the given duration.
        case duration(Duration)
        /// Until midnight in the account's time zone.
        case midnight
        /// As long as the session that made the call.
        case session
        /// Until the space is needed: the same input always has the same answer.
        case forever
        /// Until one of these members of the account's `settings` changes.
        case facts([String])
    }

    /// The accounts that may receive a cached answer.
    public enum Audience: Hashable, Sendable {
        /// The account that made the call.
        case account
        /// All accounts.
        ///
        /// The function then receives only these members of the input and nothing else of the
        /// account: neither its id nor attachments. A call with other members is refused. So only
        /// declared members can reach other accounts.
        case everyone(sharing: Set<String>)
    }

    /// The lifetime of a cached answer.
    public var lifetime: Lifetime
    /// The accounts that may receive it.
    public var audience: Audience

    /// Creates a policy.
    public init(_ lifetime: Lifetime, for audience: Audience = .account) {
        self.lifetime = lifetime
        self.audience = audience
    }

    /// No caching.
    public static let none = Self(.none)

    /// Caches answers for the given duration.
    public static func duration(_ duration: Duration) -> Self { Self(.duration(duration)) }

    /// Caches answers until midnight in the account's time zone.
    public static let untilMidnight = Self(.midnight)

    /// Caches answers as long as the session that made the call.
    public static let session = Self(.session)

    /// Caches answers until the space is needed.
    public static let forever = Self(.forever)

    /// Caches answers until one of these members of the account's `settings` changes.
    public static func untilChange(of facts: String...) -> Self { Self(.facts(facts)) }

    /// Returns the same policy for all accounts, for calls that have only these members in the
    /// input.
    public func `public`(sharing members: String...) -> Self {
        Self(lifetime, for: .everyone(sharing: Set(members)))
    }

    /// The name of the lifetime in `GET /v1/functions`: `none`, `duration`, `midnight`, `session`,
    /// `forever` or `facts`.
    public var name: String {
        switch lifetime {
        case .none: "none"
        case .duration: "duration"
        case .midnight: "midnight"
        case .session: "session"
        case .forever: "forever"
        case .facts: "facts"
        }
    }
}
