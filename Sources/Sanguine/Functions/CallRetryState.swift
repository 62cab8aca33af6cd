import SanguineModel

/// Decides what a failed request of a call means, and when the call is sent again.
///
/// A call is always sent with the same idempotency key, so that sending it again is safe. The
/// critical decision is that it has *not* taken effect: only then may its hold be released. Once
/// one request may have reached the server, a later refusal proves this only if the server decides
/// it after looking up the key (see the order of refusals in `Documentation/Protocol.md`).
///
/// | failure | first request | after one that may have arrived |
/// |---|---|---|
/// | never reached the server | again, then refused | again, then unknown |
/// | timed out, broken off, intercepted, 408, 500, a proxy's 5xx | again, then unknown | same |
/// | 402 | refused | refused: decided after the lookup |
/// | 429, 503 of the server itself | refused | again, then unknown |
/// | 409 `operation_in_progress` | again when it says, for 2 minutes | the same |
/// | 502 `upstream_failed`, 504 `upstream_timeout` | released | released |
/// | 422 `upstream_refused`, 502 `interrupted`, 409 `call_cancelled` | released | released |
/// | one of these with `charged`: partly generated, or its hold expired | charged | charged |
/// | 422 of the key itself, an answer that cannot be read | unknown | unknown |
/// | any other refusal | refused | unknown |
struct CallRetryState: Sendable {
    enum Verdict: Hashable, Sendable {
        /// Send it again after this delay.
        case again(after: Duration)
        /// It never took effect.
        case refused
        /// It failed after its hold was placed, and the hold was released.
        case released
        /// It failed and was charged; the next fetch of the balance returns the amount.
        case charged
        /// It is unknown whether it took effect; the next fetch of the balance asks about it.
        case unknown
    }

    private static let schedule = RetrySchedule(attempts: BalanceLimits.callAttempts)

    private var failures = 0
    /// The total wait of all polls for a call that is still running.
    private var inquired = Duration.zero
    private(set) var mayHaveHappened: Bool

    /// - Parameter mayHaveHappened: Whether an earlier request may have arrived. Default: no.
    init(mayHaveHappened: Bool = false) { self.mayHaveHappened = mayHaveHappened }

    /// Records a failed request and returns what to do.
    mutating func failed(
        _ error: SanguineError,
        using random: inout some RandomNumberGenerator
    ) -> Verdict {
        switch error {
        case .transport(.offline):
            return again(after: error, using: &random, else: refusedUnlessHappened)
        case .transport(.timedOut), .transport(.interrupted), .transport(.intercepted):
            mayHaveHappened = true
            return again(after: error, using: &random, else: .unknown)
        case .problem(let problem):
            return failed(problem, using: &random)
        case .notConfigured, .invalidDeclaration, .signInRefused, .store, .conflictingQuery,
            .rangeTooLong, .queryFailed, .balanceUnsettled, .queueFull, .outboxFull:
            return refusedUnlessHappened
        case .transport, .timedOut, .decoding, .outcomeUnknown, .userChanged, .cancelled, .closed:
            mayHaveHappened = true
            return .unknown
        }
    }

    /// Returns what to do if no token was available, so that this time nothing was sent.
    func notSent() -> Verdict { refusedUnlessHappened }

    private mutating func failed(
        _ problem: Problem,
        using random: inout some RandomNumberGenerator
    ) -> Verdict {
        let error = SanguineError.problem(problem)
        switch (problem.status, problem.code) {
        case (_, .operationInProgress):
            mayHaveHappened = true
            guard inquired < BalanceLimits.callInquiryTime else { return .unknown }
            let wait = min(
                max(error.retryAfter ?? .zero, BalanceLimits.inquiryWait),
                BalanceLimits.longestWait
            )
            inquired += wait
            return .again(after: wait)
        case (_, .upstreamFailed), (_, .upstreamTimeout), (_, .upstreamRefused), (_, .interrupted),
            (_, .callCancelled):
            return problem.charged ?? 0 == 0 ? .released : .charged
        case (_, .idempotencyExpired), (_, .idempotencyMismatch):
            mayHaveHappened = true
            return .unknown
        case (402, _):
            return .refused
        case (_, .rateLimited), (_, .overloaded), (_, .upstreamMissing):
            guard mayHaveHappened else { return .refused }
            return again(after: error, using: &random, else: .unknown)
        case (408, _), (500..., _):
            mayHaveHappened = true
            return again(after: error, using: &random, else: .unknown)
        default:
            return refusedUnlessHappened
        }
    }

    private var refusedUnlessHappened: Verdict { mayHaveHappened ? .unknown : .refused }

    private mutating func again(
        after error: SanguineError,
        using random: inout some RandomNumberGenerator,
        else end: Verdict
    ) -> Verdict {
        failures += 1
        let delay = Self.schedule.delay(afterFailures: failures, of: error, using: &random)
        return delay.map { .again(after: $0) } ?? end
    }
}
