import Synchronization

/// Limits how often each key, such as an account or an address, may ask.
///
/// ```swift
/// let limiter = RateLimiter<Identifier>(policy: RatePolicy(limit: 600))
/// let decision = limiter.admit(account)
/// headers[rateLimit] = decision.headerValue
/// guard decision.isAdmitted else { … }  // 429, Retry-After: decision.retryAfterSeconds
/// ```
///
/// Invariants:
/// 1. No window admits more requests of one key than the limit and what the window refills,
///    whatever becomes of the key's bucket.
/// 2. There are never more than `keyLimit` buckets and one per shard. Full buckets are forgotten
///    first, which costs nothing. While all are in use, unknown keys share their shard's spare
///    bucket: a flood of keys slows down its own kind, and nobody who is known already.
/// 3. A key that gets a bucket starts with what the spare bucket has left, because it may have
///    drawn from that before. (This is what keeps 1 true.)
public final class RateLimiter<Key: Hashable & Sendable>: Sendable {
    private struct State {
        var buckets: [Key: TokenBucket] = [:]
        var spare = TokenBucket(fullAt: 0)
        var nextSweep: Int64 = 0
    }

    // The mutable state. Each mutex is held for one decision, or for a sweep of its own shard.
    private final class Shard: Sendable {
        let state = Mutex(State())
    }

    /// The policy of every key.
    public let policy: RatePolicy

    private let shards: [Shard]
    private let keysPerShard: Int
    private let sweepInterval: Int64
    private let elapsed: @Sendable () -> Int64

    /// Creates a limiter that knows no key.
    ///
    /// - Parameters:
    ///   - policy: What each key may do.
    ///   - keyLimit: How many keys to keep apart at a time. Default: 100,000, about 6 MB.
    ///   - clock: A clock that never goes back. Tests pass a manual one.
    public convenience init(
        policy: RatePolicy,
        keyLimit: Int = 100_000,
        clock: some Clock<Duration> = ContinuousClock()
    ) {
        self.init(policy: policy, keyLimit: keyLimit, shards: 16, clock: clock)
    }

    init(policy: RatePolicy, keyLimit: Int, shards: Int, clock: some Clock<Duration>) {
        precondition(keyLimit >= shards, "Each shard keeps at least one key.")
        self.policy = policy
        self.shards = (0..<shards).map { _ in Shard() }
        keysPerShard = keyLimit / shards
        // Often enough to make room, seldom enough that its cost is spread thin.
        sweepInterval = policy.window.wholeNanoseconds / 16
        let start = clock.now
        elapsed = { start.duration(to: clock.now).wholeNanoseconds }
    }

    /// Takes one request of the key from its limit, if there is one left.
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

    /// Whether the key has something left, of which nothing is taken.
    public func look(_ key: Key) -> RateDecision { decide(key) { $0.look(at: $1, policy) } }

    /// Takes what a request turned out to cost: a millisecond of processor time is one of the
    /// limit, and a bucket may get less than empty.
    public func charge(_ key: Key, _ time: Duration) {
        let cost = Double(policy.interval) * Double(time.wholeNanoseconds) / 1_000_000
        _ = decide(key) { bucket, now in
            bucket.fullAt = max(bucket.fullAt, now) + Int64(cost.rounded(.up))
            return bucket.look(at: now, policy)
        }
    }

    /// How many buckets there are, for tests.
    var count: Int { shards.reduce(0) { $0 + $1.state.withLock { $0.buckets.count } } }
}
