import SanguineModel

/// The schedule of retries for a failed read.
///
/// The wait after the n-th failure is `base × 2^(n−1)`, at most `cap`, and then randomly up to a
/// quarter longer or shorter, so that clients that failed together do not retry together. A
/// server's `Retry-After` is respected: no retry comes sooner, and randomness only makes the wait
/// longer. If it is more than `cap`, there is no retry, and the caller gets the error, which
/// contains the time, at once.
public struct RetrySchedule: Hashable, Sendable {
    /// The maximum number of attempts, including the first.
    public var attempts: Int
    /// The wait after the first failure.
    ///
    /// Default: 1 second.
    public var base: Duration
    /// The longest wait before randomness is added.
    ///
    /// Default: 30 seconds.
    public var cap: Duration
    /// The fraction by which a wait may randomly be longer or shorter.
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

    /// Returns the wait before the next attempt.
    ///
    /// - Parameters:
    ///   - failures: The number of failed attempts, at least 1.
    ///   - error: The error of the last attempt.
    ///   - random: The source of randomness.
    /// - Returns: The wait, or `nil` if there is no further attempt.
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

    /// Makes the wait that a server has named randomly longer, because many clients got the same
    /// one.
    func later(_ wanted: Duration, using random: inout some RandomNumberGenerator) -> Duration {
        wanted * (1 + Double.random(in: 0...jitter, using: &random))
    }

    /// Returns the wait after a number of failures, regardless of the errors and the remaining
    /// attempts.
    func backoff(
        afterFailures failures: Int,
        using random: inout some RandomNumberGenerator
    ) -> Duration {
        // 2^20 s exceeds any cap; the exponent is bounded to prevent overflow.
        let backoff = min(cap, base * (1 << min(max(0, failures - 1), 20)))
        return backoff * (1 + Double.random(in: -jitter...jitter, using: &random))
    }
}

extension SanguineError {
    /// The wait that the server or the app's own error asked for; `nil` if there is none.
    public var retryAfter: Duration? {
        switch self {
        case .problem(let problem): problem.retryAfter.map { .seconds($0) }
        case .timedOut(let last): last.retryAfter
        case .queryFailed(let failure): failure.retryAfter
        default: nil
        }
    }
}
