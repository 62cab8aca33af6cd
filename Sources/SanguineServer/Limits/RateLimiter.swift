import Synchronization

/// Limits the request rate of each key, such as an account or an address.
///
/// ```swift
/// let limiter = RateLimiter<Identifier>(policy: RatePolicy(limit: 600))
/// let decision = limiter.admit(account)
/// headers[rateLimit] = decision.headerValue
/// guard decision.isAdmitted else { … }  // 429, Retry-After: decision.retryAfterSeconds
/// ```
///
/// Invariants:
/// 1. In any window, a key gets at most the limit plus the requests that the window refills, even
///    if its bucket is discarded.
/// 2. There are at most `keyLimit` buckets and one spare per shard. Full buckets are discarded
///    first, which loses no information. While all buckets are in use, unknown keys share their
///    shard's spare bucket: a flood of new keys does not slow down known ones.
/// 3. A new bucket starts with the remaining requests of the spare bucket, because the key may have
///    used that before. Invariant 1 depends on this.
public final class RateLimiter<Key: Hashable & Sendable>: Sendable {
    private struct State {
        var buckets: [Key: TokenBucket] = [:]
        var spare = TokenBucket(fullAt: 0)
        var nextSweep: Int64 = 0
    }

    // The mutable state. Each mutex is locked for one decision or for a sweep of its shard.
    private final class Shard: Sendable {
        let state = Mutex(State())
    }

    /// The policy of every key.
    public let policy: RatePolicy

    private let shards: [Shard]
    private let keysPerShard: Int
    private let sweepInterval: Int64
    private let elapsed: @Sendable () -> Int64

    /// Creates a limiter without buckets.
    ///
    /// - Parameters:
    ///   - policy: The policy of each key.
    ///   - keyLimit: The maximum number of separate keys at a time. Default: 100,000, about 6 MB.
    ///   - clock: A monotonic clock. Tests pass a manual one.
    public convenience init(
        policy: RatePolicy,
        keyLimit: Int = 100_000,
        clock: some Clock<Duration> = ContinuousClock()
    ) {
        self.init(policy: policy, keyLimit: keyLimit, shards: 16, clock: clock)
    }

    init(policy: RatePolicy, keyLimit: Int, shards: Int, clock: some Clock<Duration>) {
        precondition(keyLimit >= shards, "A shard must keep at least one key.")
        self.policy = policy
        self.shards = (0..<shards).map { _ in Shard() }
        keysPerShard = keyLimit / shards
        // Often enough to make room, seldom enough to be cheap on average.
        sweepInterval = policy.window.wholeNanoseconds / 16
        let start = clock.now
        elapsed = { start.duration(to: clock.now).wholeNanoseconds }
    }

    /// Takes one request of the key from its limit, if one is left.
    public func admit(_ key: Key) -> RateDecision { decide(key) { $0.take(at: $1, policy) } }

    private func decide(
        _ key: Key,
        _ ask: (inout TokenBucket, Int64) -> RateDecision
    ) -> RateDecision {
        let now = elapsed()
        let shard = shards[Int(UInt(bitPattern: key.hashValue) % UInt(shards.count))]
        return shard.state.withLock { state in
            if var bucket = state.buckets[key] {
                defer { state.buckets[key] = bucket }
                return ask(&bucket, now)
            }
            if state.buckets.count >= keysPerShard, now >= state.nextSweep {
                state.buckets = state.buckets.filter { !$0.value.isFull(at: now) }
                state.nextSweep = now + sweepInterval
            }
            guard state.buckets.count < keysPerShard else {
                return ask(&state.spare, now)
            }
            var bucket = state.spare
            defer { state.buckets[key] = bucket }
            return ask(&bucket, now)
        }
    }

    /// Returns whether the key has a request left, without taking it.
    public func look(_ key: Key) -> RateDecision { decide(key) { $0.peek(at: $1, policy) } }

    /// Charges the processor time of a request: one request of the limit per millisecond.
    ///
    /// The balance may become negative.
    public func charge(_ key: Key, _ time: Duration) {
        let cost = Double(policy.interval) * Double(time.wholeNanoseconds) / 1_000_000
        _ = decide(key) { bucket, now in
            bucket.fullAt = max(bucket.fullAt, now) + Int64(cost.rounded(.up))
            return bucket.peek(at: now, policy)
        }
    }

    /// The number of buckets, for tests.
    var count: Int { shards.reduce(0) { $0 + $1.state.withLock { $0.buckets.count } } }
}
