import SanguineModel

/// Whether calls to an upstream can be sent.
public enum BreakerPhase: String, Hashable, Sendable, CaseIterable {
    /// Calls are sent.
    case closed
    /// The upstream has failed too often, so no calls are sent for a while.
    case open
    /// One call probes whether the upstream has recovered.
    case halfOpen
}

/// A circuit breaker (Nygard, *Release It!*, chapter "Stability Patterns") as a value type, with
/// events and the time as input and decisions as output.
///
/// When closed, it opens after five consecutive failures, as Envoy's outlier detection does
/// (`consecutive_5xx`), or when half of at least twenty calls in thirty seconds have failed, which
/// is resilience4j's threshold with a window as long as Polly's. The first rule reacts quickly if
/// there are few calls; the second detects an upstream that fails every other time. It stays open
/// for five seconds, and twice as long after each failed probe, up to five minutes (Envoy's
/// `max_ejection_time`). The time varies by 20 percent, so that many servers do not probe at once.
/// Then exactly one call is admitted, whose success closes the breaker.
///
/// The failures of one account may be its own fault, so they cannot open the breaker: at most three
/// of the five consecutive failures count, and at most five in the window (``AccountGates`` blocks
/// the account itself). Failures that no account can cause, such as a refused connection, count in
/// full.
///
/// In addition, a `Retry-After` from the upstream pauses all calls until then, for at most 5 min.
///
/// Times are durations since an arbitrary start, on a monotonic clock.
///
/// Invariants:
/// 1. While half-open, at most one call that was admitted since the breaker opened is in progress.
/// 2. The breaker is never open, and no pause lasts, for longer than its rules permit.
/// 3. A call that was admitted before the breaker last opened or closed only affects the pause: an
///    old success does not close it, and an old failure does not open it again.
/// 4. Failures of a single account never open it.
struct BreakerState: Hashable, Sendable {
    /// The conditions for opening the breaker, and its times.
    struct Rules: Hashable, Sendable {
        /// The number of consecutive failures that opens it.
        var consecutiveFailures = 5
        /// The maximum number of consecutive failures of one account that count.
        var consecutiveOfAccount = 3
        /// The maximum number of an account's failures in the window that count.
        var windowOfAccount = 5
        /// The failure rate in the window that opens it.
        var failureRate = 0.5
        /// The minimum number of calls in the window for the failure rate to apply.
        var minimumCalls = 20
        /// The time for which a call counts towards the failure rate.
        var window = Duration.seconds(30)
        /// The time for which it is open at first.
        var firstOpenTime = Duration.seconds(5)
        /// The maximum time for which it is open.
        var longestOpenTime = Duration.seconds(300)
        /// The share by which the open time varies in both directions.
        var jitter = 0.2
        /// The longest pause that an upstream can request.
        var longestPause = Duration.seconds(300)

        /// Returns the time for which calls are blocked at the given opening, counted from 1.
        fileprivate func time(ofOpening number: Int, _ jitter: Double) -> Duration {
            let doubled = firstOpenTime * (1 << min(number - 1, 30))
            let factor = 1 - self.jitter + 2 * self.jitter * jitter
            return min(min(doubled, longestOpenTime) * factor, longestOpenTime)
        }
    }

    /// The admission of one call, whose end is reported to ``end(_:_:at:jitter:)``.
    struct Pass: Hashable, Sendable {
        fileprivate let era: UInt64
        /// The account of the call; `nil` without one.
        fileprivate let account: Identifier?
        /// Whether the call probes if its account can be unblocked.
        fileprivate let isAccountProbe: Bool
        /// Whether the call probes a half-open breaker.
        let isProbe: Bool
    }

    /// The conclusion about the upstream from a call.
    enum Verdict: Hashable, Sendable {
        /// The upstream works.
        case success
        /// The call of one account failed; the upstream may have requested a pause.
        case failure(pause: Duration?)
        /// The upstream cannot be reached, which no account can cause.
        case unreachable
        /// No conclusion.
        case nothing
    }

    private enum State: Hashable {
        case closed
        case open(until: Duration)
        case halfOpen(isProbing: Bool)
    }

    let rules: Rules
    private var state = State.closed
    private var era: UInt64 = 0
    private var failuresInARow = FailureCount()
    private var accounts = AccountGates()
    private var window: CallWindow
    /// The number of openings since it was last closed.
    private var openings = 0
    private var pausedUntil = Duration.zero

    init(rules: Rules = Rules()) {
        self.rules = rules
        window = CallWindow(length: rules.window)
    }

    /// The phase after the last event.
    var phase: BreakerPhase {
        switch state {
        case .closed: .closed
        case .open: .open
        case .halfOpen: .halfOpen
        }
    }

    /// The number of accounts that are stored because of their failures.
    var rememberedAccounts: Int { accounts.count }

    /// Admits a call of the account, or returns `nil`.
    mutating func admit(at now: Duration, for account: Identifier? = nil) -> Pass? {
        guard wait(at: now, for: account) == nil else { return nil }
        let isProbe = state != .closed
        if isProbe { state = .halfOpen(isProbing: true) }
        return Pass(
            era: era,
            account: account,
            isAccountProbe: account.map { accounts.admit($0) } ?? false,
            isProbe: isProbe
        )
    }

    /// Returns the time until a call of the account can be admitted; `nil` if it can be now.
    ///
    /// While a probe is in progress, the time is unknown and one second is returned.
    func wait(at now: Duration, for account: Identifier? = nil) -> Duration? {
        let own = account.flatMap { accounts.wait($0, at: now) }
        guard let shared = sharedWait(at: now) else { return own }
        return max(own ?? .zero, shared)
    }

    private func sharedWait(at now: Duration) -> Duration? {
        var end = pausedUntil
        switch state {
        case .closed, .halfOpen(isProbing: false): break
        case .open(let until): end = max(end, until)
        case .halfOpen(isProbing: true): end = max(end, now + .seconds(1))
        }
        return end > now ? end - now : nil
    }

    /// Records how a call ended.
    ///
    /// - Parameters:
    ///   - pass: The admission of the call.
    ///   - verdict: The conclusion about the upstream.
    ///   - now: The time.
    ///   - jitter: A number from 0 to 1 that varies the time for which the breaker opens.
    mutating func end(_ pass: Pass, _ verdict: Verdict, at now: Duration, jitter: Double) {
        if case .failure(let pause?) = verdict {
            pausedUntil = max(pausedUntil, now + min(pause, rules.longestPause))
        }
        let isNew = endOfAccount(pass, verdict, at: now, jitter: jitter)
        guard pass.era == era else { return }
        switch (state, verdict) {
        case (.closed, .success):
            failuresInARow = FailureCount()
            window.addSuccess(at: now)
        case (.closed, .failure):
            if isNew { failed(pass.account, at: now, jitter: jitter) }
        case (.closed, .unreachable): failed(nil, at: now, jitter: jitter)
        case (.halfOpen, .success): close()
        // A probe of an account that itself fails says nothing about the upstream.
        case (.halfOpen, .failure) where pass.isAccountProbe: state = .halfOpen(isProbing: false)
        case (.halfOpen, .failure), (.halfOpen, .unreachable): open(at: now, jitter: jitter)
        case (.halfOpen, .nothing): state = .halfOpen(isProbing: false)
        case (.closed, .nothing), (.open, _): break
        }
    }

    /// Updates whether the account of a call is blocked.
    ///
    /// - Returns: Whether a failure of the call counts.
    private mutating func endOfAccount(
        _ pass: Pass,
        _ verdict: Verdict,
        at now: Duration,
        jitter: Double
    ) -> Bool {
        guard let account = pass.account else { return true }
        let isProbe = pass.isAccountProbe
        switch verdict {
        case .success: accounts.succeeded(account, isProbe: isProbe)
        case .nothing, .unreachable: accounts.ended(account, isProbe: isProbe)
        case .failure:
            return accounts.failed(
                account,
                isProbe: isProbe,
                at: now,
                after: rules.consecutiveFailures,
                closing: { [rules] in rules.time(ofOpening: $0, jitter) }
            )
        }
        return true
    }

    private mutating func failed(_ account: Identifier?, at now: Duration, jitter: Double) {
        failuresInARow.add(account)
        window.addFailure(of: account, at: now)
        if hasFailedTooOften(at: now) { open(at: now, jitter: jitter) }
    }

    private mutating func hasFailedTooOften(at now: Duration) -> Bool {
        let inARow = failuresInARow.count(atMost: rules.consecutiveOfAccount)
        if inARow >= rules.consecutiveFailures { return true }
        let counts = window.counts(at: now, atMost: rules.windowOfAccount)
        return counts.calls >= rules.minimumCalls
            && Double(counts.failures) >= rules.failureRate * Double(counts.calls)
    }

    private mutating func open(at now: Duration, jitter: Double) {
        openings += 1
        begin(.open(until: now + rules.time(ofOpening: openings, jitter)))
    }

    private mutating func close() {
        openings = 0
        begin(.closed)
    }

    private mutating func begin(_ state: State) {
        self.state = state
        era += 1
        failuresInARow = FailureCount()
        window.removeAll()
    }
}

/// Failures by account; bounded, because they are removed when a breaker opens or when they expire.
private struct FailureCount: Hashable, Sendable {
    /// The maximum number of accounts counted separately; failures of others count in full.
    private static let accountLimit = 64

    private var anonymousFailures = 0
    private var accounts: [Identifier: Int] = [:]

    mutating func add(_ account: Identifier?) {
        if let account, accounts[account] != nil || accounts.count < Self.accountLimit {
            accounts[account, default: 0] += 1
        } else {
            anonymousFailures += 1
        }
    }

    mutating func add(_ other: FailureCount) {
        anonymousFailures += other.anonymousFailures
        accounts.merge(other.accounts, uniquingKeysWith: +)
    }

    /// The total number.
    var all: Int { accounts.values.reduce(anonymousFailures, +) }

    /// Returns the number, with at most `limit` failures of each account.
    func count(atMost limit: Int) -> Int {
        accounts.values.reduce(anonymousFailures) { $0 + min($1, limit) }
    }
}

/// Recent calls and failures, counted in ten time slots.
private struct CallWindow: Hashable, Sendable {
    private static let slotCount: Int64 = 10

    private struct Slot: Hashable {
        let number: Int64
        var calls = 0
        var failures = FailureCount()
    }

    private let slotNanoseconds: Int64
    /// Oldest first; at most ten.
    private var slots: [Slot] = []

    init(length: Duration) { slotNanoseconds = max(1, length.wholeNanoseconds / Self.slotCount) }

    mutating func addSuccess(at now: Duration) { add(at: now) }

    mutating func addFailure(of account: Identifier?, at now: Duration) {
        add(at: now)
        slots[slots.count - 1].failures.add(account)
    }

    /// Returns calls and failures, without an account's failures beyond the limit.
    mutating func counts(at now: Duration, atMost limit: Int) -> (calls: Int, failures: Int) {
        forget(at: now)
        let failures = slots.reduce(into: FailureCount()) { $0.add($1.failures) }
        let calls = slots.reduce(0) { $0 + $1.calls }
        let counted = failures.count(atMost: limit)
        return (calls - failures.all + counted, counted)
    }

    private mutating func add(at now: Duration) {
        forget(at: now)
        let number = now.wholeNanoseconds / slotNanoseconds
        if slots.last?.number != number { slots.append(Slot(number: number)) }
        slots[slots.count - 1].calls += 1
    }

    mutating func removeAll() { slots.removeAll() }

    private mutating func forget(at now: Duration) {
        let oldest = now.wholeNanoseconds / slotNanoseconds - Self.slotCount + 1
        slots.removeAll { $0.number < oldest }
    }
}
