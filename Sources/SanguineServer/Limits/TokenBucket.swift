import SanguineModel

/// A rate limit: a number of requests per window, refilled evenly.
public struct RatePolicy: Hashable, Sendable {
    /// The name in the headers: visible ASCII without quotation marks and backslashes.
    public let name: String
    /// The number of requests that may come at once, and that are refilled per window.
    public let limit: Int
    /// The time in which an empty bucket is refilled.
    public let window: Duration

    /// The value of `RateLimit-Policy`: `"default";q=60000;w=60`
    /// (draft-ietf-httpapi-ratelimit-headers-10).
    public let headerValue: String

    /// Nanoseconds to refill one request, rounded up, so that no window admits more than permitted.
    let interval: Int64

    /// Creates a policy.
    ///
    /// - Parameters:
    ///   - name: The name in the headers. Default: `default`.
    ///   - limit: Requests per window, 1 to a billion.
    ///   - window: The window, a second to a day. Default: a minute.
    public init(name: String = "default", limit: Int, window: Duration = .seconds(60)) {
        precondition((1...1_000_000_000).contains(limit), "A rate limit must be 1 to a billion.")
        precondition(
            window >= .seconds(1) && window <= .seconds(86_400),
            "A window must be a second to a day."
        )
        precondition(
            name.utf8.allSatisfy { (0x20...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C },
            "A policy's name must be a string of RFC 9651 without escapes."
        )
        self.name = name
        self.limit = limit
        self.window = window
        let nanoseconds = window.wholeNanoseconds
        headerValue = "\"\(name)\";q=\(limit);w=\(window.secondsRoundedUp)"
        interval = (nanoseconds + Int64(limit) - 1) / Int64(limit)
    }
}

/// The result of a rate limit for one request.
public struct RateDecision: Hashable, Sendable {
    /// Whether the request is admitted.
    public let isAdmitted: Bool
    /// The policy that was applied.
    public let policy: RatePolicy
    /// The number of further requests that may come at once.
    public let remaining: Int
    /// Seconds until the full limit is available again, rounded up.
    public let resetSeconds: Int
    /// Seconds until the next request is admitted, at least 1; `nil` if this one was.
    public let retryAfterSeconds: Int?

    /// The value of `RateLimit`: `"default";r=59999;t=1` (draft-ietf-httpapi-ratelimit-headers-10).
    public var headerValue: String {
        "\"\(policy.name)\";r=\(remaining);t=\(resetSeconds)"
    }
}

/// A token bucket, stored as the time at which it will be full again (GCRA, ITU-T I.371).
///
/// This representation needs no refilling: an unused bucket becomes full without an update, and a
/// full one need not be stored. Times are nanoseconds on a monotonic clock.
///
/// Invariant: after an admission, `fullAt - now` is at most `limit` intervals. Therefore any window
/// admits at most `limit` requests plus those that the window refills.
struct TokenBucket: Hashable, Sendable {
    /// The time at which the bucket is full, in nanoseconds.
    var fullAt: Int64

    /// Returns whether the bucket has all its tokens, so that it need not be stored.
    func isFull(at now: Int64) -> Bool { fullAt <= now }

    /// Takes a token if one is left.
    mutating func take(at now: Int64, _ policy: RatePolicy) -> RateDecision {
        let capacity = policy.interval * Int64(policy.limit)
        let next = max(fullAt, now) + policy.interval
        let isAdmitted = next - now <= capacity
        if isAdmitted { fullAt = next }
        let missing = max(fullAt, now) - now
        return RateDecision(
            isAdmitted: isAdmitted,
            policy: policy,
            remaining: Int((capacity - missing) / policy.interval),
            resetSeconds: Self.secondsRoundedUp(missing),
            retryAfterSeconds: isAdmitted
                ? nil : max(1, Self.secondsRoundedUp(next - now - capacity))
        )
    }

    /// Returns the result for a request without taking a token.
    func peek(at now: Int64, _ policy: RatePolicy) -> RateDecision {
        let capacity = policy.interval * Int64(policy.limit)
        let missing = max(fullAt, now) - now
        let isAdmitted = missing < capacity
        return RateDecision(
            isAdmitted: isAdmitted,
            policy: policy,
            remaining: Int(max(0, capacity - missing) / policy.interval),
            resetSeconds: Self.secondsRoundedUp(missing),
            retryAfterSeconds: isAdmitted
                ? nil : max(1, Self.secondsRoundedUp(missing - capacity + policy.interval))
        )
    }

    private static func secondsRoundedUp(_ nanoseconds: Int64) -> Int {
        Int((nanoseconds + 999_999_999) / 1_000_000_000)
    }
}

extension Duration {
    /// The duration in whole nanoseconds, rounded towards zero.
    ///
    /// The range is 292 years.
    var wholeNanoseconds: Int64 {
        components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000
    }
}
