import SanguineModel

/// When a failed read is tried again.
///
/// The wait after the n-th failure is `base × 2^(n−1)`, at most `cap`, then up to a quarter longer
/// or shorter by chance, so that clients that failed together do not come back together. A server
/// that says `Retry-After` is heeded: no try comes sooner, and chance makes the wait longer only.
/// If it asks for more than `cap`, there is no further try, and the error, which carries the time,
/// goes to the caller at once.
public struct RetrySchedule: Hashable, Sendable {
    /// How often at most, the first time included.
    public var attempts: Int
    /// The wait after the first failure.
    ///
    /// Default: 1 second.
    public var base: Duration
    /// The longest wait before chance is added.
    ///
    /// Default: 30 seconds.
    public var cap: Duration
    /// By what part of itself a wait may be longer or shorter.
    ///
    /// Default: a quarter.
    public var jitter: Double

    /// Creates a schedule.
    public init(
        attempts: Int,
        base: Duration = .seconds(1),
        cap: Duration = .seconds(30),
        jitter: Double = 0.25
    ) {
        self.attempts = max(1, attempts)
        self.base = base
        self.cap = cap
        self.jitter = min(max(0, jitter), 1)
    }

    /// Three attempts, with about 1 and 2 seconds between them.
    public static let standard = RetrySchedule(attempts: 3)

    /// One attempt.
    public static let never = RetrySchedule(attempts: 1)

    /// The wait before the next attempt.
    ///
    /// - Parameters:
    ///   - failures: How many attempts have failed, 1 and more.
    ///   - error: What the last one failed with.
    ///   - random: Where chance comes from.
    /// - Returns: The wait, or `nil` if the error goes to the caller.
    public func delay(
        afterFailures failures: Int,
        of error: SanguineError,
        using random: inout some RandomNumberGenerator
    ) -> Duration? {
        guard failures < attempts, error.isWorthAnotherRead else { return nil }
        let wanted = error.retryAfter ?? .zero
        guard wanted <= cap else { return nil }
        let backoff = backoff(afterFailures: failures, using: &random)
        return wanted > .zero ? max(later(wanted, using: &random), backoff) : backoff
    }

    /// A time that a server has named, longer by chance: it has told many clients the same.
    func later(_ wanted: Duration, using random: inout some RandomNumberGenerator) -> Duration {
        wanted * (1 + Double.random(in: 0...jitter, using: &random))
    }

    /// The wait after so many failures, whatever they were and however many may follow.
    func backoff(
        afterFailures failures: Int,
        using random: inout some RandomNumberGenerator
    ) -> Duration {
        // 2^20 s is past any cap; the exponent is bounded so that nothing overflows.
        let backoff = min(cap, base * (1 << min(max(0, failures - 1), 20)))
        return backoff * (1 + Double.random(in: -jitter...jitter, using: &random))
    }
}

extension SanguineError {
    /// How long the server, or the app's own error, asked to wait; `nil` if it did not.
    public var retryAfter: Duration? {
        switch self {
        case .problem(let problem): problem.retryAfter.map { .seconds($0) }
        case .timedOut(let last): last.retryAfter
        case .queryFailed(let failure): failure.retryAfter
        default: nil
        }
    }
}
