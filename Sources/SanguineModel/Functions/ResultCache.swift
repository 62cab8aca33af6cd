/// How long a function's answers are kept on the server, and for whom.
///
/// ```swift
/// let cache = ResultCache.untilMidnight                    // of the account's own day
/// let chart = ResultCache.untilChange(of: "birth")         // a member of the account's settings
/// let sky = ResultCache.forever.public(sharing: "year")    // one answer for everybody
/// ```
///
/// An answer is found again by the function with its ``FunctionRules/version``, the audience, and
/// the input in its canonical form (RFC 8785): the same call written differently is the same.
public struct ResultCache: Hashable, Sendable {
    /// How long an answer is kept.
    public enum Lifetime: Hashable, Sendable {
        /// Not at all.
        case none
        /// For so long.
        case duration(Duration)
        /// Until midnight in the account's time zone.
        case midnight
        /// As long as the session with which it was asked.
        case session
        /// Until room is needed: the same input has the same answer.
        case forever
        /// Until one of these members of the account's `settings` is another.
        case facts([String])
    }

    /// Who is given a kept answer.
    public enum Audience: Hashable, Sendable {
        /// The account that asked.
        case account
        /// Everybody.
        ///
        /// The function is then given these members of the input and nothing else of the account:
        /// neither who asks, nor attachments. A call with other members is refused. So nothing can
        /// reach others that was not declared to.
        case everyone(sharing: Set<String>)
    }

    /// How long an answer is kept.
    public var lifetime: Lifetime
    /// Who is given it.
    public var audience: Audience

    /// Creates a policy.
    public init(_ lifetime: Lifetime, for audience: Audience = .account) {
        self.lifetime = lifetime
        self.audience = audience
    }

    /// Nothing is kept.
    public static let none = Self(.none)

    /// Kept for so long.
    public static func duration(_ duration: Duration) -> Self { Self(.duration(duration)) }

    /// Kept until midnight in the account's time zone.
    public static let untilMidnight = Self(.midnight)

    /// Kept as long as the session with which it was asked.
    public static let session = Self(.session)

    /// Kept until room is needed.
    public static let forever = Self(.forever)

    /// Kept until one of these members of the account's `settings` is another.
    public static func untilChange(of facts: String...) -> Self { Self(.facts(facts)) }

    /// The same policy for everybody, for calls that have these members of the input alone.
    public func `public`(sharing members: String...) -> Self {
        Self(lifetime, for: .everyone(sharing: Set(members)))
    }

    /// The kind of lifetime as `GET /v1/functions` names it: `none`, `duration`, `midnight`,
    /// `session`, `forever` or `facts`.
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
