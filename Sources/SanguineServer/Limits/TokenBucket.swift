import SanguineModel

/// A rate limit: so many requests in a window, refilled evenly.
public struct RatePolicy: Hashable, Sendable {
    /// The name in the headers; visible ASCII without quote and backslash.
    public let name: String
    /// Requests that may come at once, and that are refilled in a window.
    public let limit: Int
    /// The time in which an empty bucket fills up again.
    public let window: Duration

    /// The field `RateLimit-Policy`: `"default";q=60000;w=60`
    /// (draft-ietf-httpapi-ratelimit-headers-10).
    public let headerValue: String

    /// Nanoseconds in which one request is refilled, rounded up, so that no window ever admits
    /// more than the policy says.
    let interval: Int64

    /// Creates a policy.
    ///
    /// - Parameters:
    ///   - name: The name in the headers. Default: `default`.
    ///   - limit: Requests in a window, 1 to a billion.
    ///   - window: The window, a second to a day. Default: a minute.
    public init(name: String = "default", limit: Int, window: Duration = .seconds(60)) {
        precondition((1...1_000_000_000).contains(limit), "A rate limit is 1 to a billion.")
        precondition(
            window >= .seconds(1) && window <= .seconds(86_400),
            "A window is a second to a day."
        )
        precondition(
            name.utf8.allSatisfy { (0x20...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C },
            "A policy's name is a string of RFC 9651 without escapes."
        )
        self.name = name
        self.limit = limit
        self.window = window
        let nanoseconds = window.wholeNanoseconds
        headerValue = "\"\(name)\";q=\(limit);w=\(window.secondsRoundedUp)"
        interval = (nanoseconds + Int64(limit) - 1) / Int64(limit)
    }
}

/// What a rate limit says about one request.
public struct RateDecision: Hashable, Sendable {
    /// Whether the request may go on.
    public let isAdmitted: Bool
    /// The policy that decided.
    public let policy: RatePolicy
    /// Requests that may still come at once.
    public let remaining: Int
    /// Seconds until the whole limit is there again, rounded up.
    public let resetSeconds: Int
    /// Seconds until one request may come, at least 1; `nil` if this one was admitted.
    public let retryAfterSeconds: Int?

    /// The field `RateLimit`: `"default";r=59999;t=1` (draft-ietf-httpapi-ratelimit-headers-10).
    public var headerValue: String {
        "\"\(policy.name)\";r=\(remaining);t=\(resetSeconds)"
    }
}

/// A token bucket, kept as the one moment at which it will be full again (GCRA, ITU-T I.371).
///
/// A moment needs no refilling: a bucket that nobody touches becomes full by itself, and one that
/// is full need not be kept. Moments are nanoseconds on a clock that never goes back.
///
/// Invariant: after an admission, `fullAt - now` is at most `limit` intervals. So any window admits
/// at most `limit` requests and what the window refills.
struct TokenBucket: Hashable, Sendable {
    /// The moment at which the bucket is full, in nanoseconds.
    var fullAt: Int64

    /// Whether the bucket has all its tokens, and is as good as none.
    func isFull(at now: Int64) -> Bool { fullAt <= now }

    /// Takes a token if there is one.
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

    /// What a request would be told that takes nothing.
    func look(at now: Int64, _ policy: RatePolicy) -> RateDecision {
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
    /// The duration in nanoseconds, the rest dropped.
    ///
    /// Good for 292 years.
    var wholeNanoseconds: Int64 {
        components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000
    }
}
