import SanguineModel

/// Whether calls of an upstream can leave, and why not.
public enum BreakerPhase: String, Hashable, Sendable, CaseIterable {
    /// Calls leave.
    case closed
    /// The upstream has failed too often, and is left alone for a while.
    case open
    /// One call probes whether the upstream has recovered.
    case halfOpen
}

/// A circuit breaker (Nygard, *Release It!*, chapter "Stability Patterns"), as a value: event in,
/// decision out, time passed in.
///
/// Closed, it opens after five failures in a row, which is what Envoy's outlier detection takes
/// (`consecutive_5xx`), or when half of at least twenty calls in thirty seconds have failed, which
/// is resilience4j's threshold on a window as long as Polly's: the first rule is quick where little
/// is called, the second sees an upstream that fails every other time. It stays open for five
/// seconds, and twice as long after each probe that fails, up to five minutes (Envoy's
/// `max_ejection_time`), give or take a fifth, so that many servers do not probe at once. Then
/// exactly one call goes through; its success closes the breaker.
///
/// The failures of one account may be its own fault, so they cannot open the breaker: of the
/// five in a row three count at most, and of the window five (``AccountGates`` keeps the account
/// itself out). Failures that no account can cause, such as a refused connection, all count.
///
/// Beside that, an upstream that says when to come back (`Retry-After`) gets no call until then, at
/// most five minutes.
///
/// Time is a duration since any moment, on a clock that never goes back.
///
/// Invariants:
/// 1. While half-open, at most one call is out that was let through since the breaker opened.
/// 2. The breaker is never open, and no pause lasts, for longer than its rules allow.
/// 3. A call that was let through before the breaker last opened or closed changes nothing but the
///    pause: an old success does not close it, an old failure does not open it again.
/// 4. Failures of a single account never open it.
struct BreakerState: Hashable, Sendable {
    /// When the breaker opens, and for how long.
    struct Rules: Hashable, Sendable {
        /// Failures in a row that open it.
        var consecutiveFailures = 5
        /// Of the failures in a row, those of one account that count.
        var consecutiveOfAccount = 3
        /// Of the failures in the window, those of one account that count.
        var windowOfAccount = 5
        /// The share of failures in the window that opens it.
        var failureRate = 0.5
        /// Calls in the window below which the share says nothing.
        var minimumCalls = 20
        /// How long a call counts for the share.
        var window = Duration.seconds(30)
        /// How long it is open at first.
        var firstOpenTime = Duration.seconds(5)
        /// How long it is open at most.
        var longestOpenTime = Duration.seconds(300)
        /// The share by which the time varies, up and down.
        var jitter = 0.2
        /// The longest pause that an upstream can ask for.
        var longestPause = Duration.seconds(300)

        /// The time for which calls are kept out at the first opening and at each that follows.
        fileprivate func time(ofOpening number: Int, _ jitter: Double) -> Duration {
            let doubled = firstOpenTime * (1 << min(number - 1, 30))
            let factor = 1 - self.jitter + 2 * self.jitter * jitter
            return min(min(doubled, longestOpenTime) * factor, longestOpenTime)
        }
    }

    /// Leave for one call, which says how it ended by ``end(_:_:at:jitter:)``.
    struct Pass: Hashable, Sendable {
        fileprivate let era: UInt64
        /// The account that calls; `nil` for none in particular.
        fileprivate let account: Identifier?
        /// Whether it probes if its account may come back.
        fileprivate let isAccountProbe: Bool
        /// Whether the call probes a half-open breaker.
        let isProbe: Bool
    }

    /// What a call says about the upstream.
    enum Verdict: Hashable, Sendable {
        /// It works.
        case success
        /// It does not, as this account saw, and perhaps asked to be left alone for so long.
        case failure(pause: Duration?)
        /// It cannot be reached, which no account can cause.
        case unreachable
        /// Nothing.
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
    /// How often it has opened since it was last closed.
    private var openings = 0
    private var pausedUntil = Duration.zero

    init(rules: Rules = Rules()) {
        self.rules = rules
        window = CallWindow(length: rules.window)
    }

    /// The phase as of the last event.
    var phase: BreakerPhase {
        switch state {
        case .closed: .closed
        case .open: .open
        case .halfOpen: .halfOpen
        }
    }

    /// How many accounts are remembered for their failures.
    var rememberedAccounts: Int { accounts.count }

    /// Lets a call of the account through, or returns `nil`.
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

    /// How long it is until a call of the account may be let through; `nil` if one would be now.
    ///
    /// While a probe is out, that is not known, and a second is what is said.
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

    /// Hears how a call has ended.
    ///
    /// - Parameters:
    ///   - pass: The leave that the call had.
    ///   - verdict: What it says about the upstream.
    ///   - now: The time.
    ///   - jitter: A number from 0 to 1, for the time that the breaker may be open now.
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
        // The probe of an account that fails by itself says nothing of the upstream.
        case (.halfOpen, .failure) where pass.isAccountProbe: state = .halfOpen(isProbing: false)
        case (.halfOpen, .failure), (.halfOpen, .unreachable): open(at: now, jitter: jitter)
        case (.halfOpen, .nothing): state = .halfOpen(isProbing: false)
        case (.closed, .nothing), (.open, _): break
        }
    }

    /// Keeps the account of a call out if its calls fail.
    ///
    /// - Returns: Whether a failure of it counts.
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

/// Failures, with the accounts that saw them; bounded, because a count that is full opens a breaker
/// or ages.
private struct FailureCount: Hashable, Sendable {
    /// The accounts that are counted one by one; failures of further ones count in full.
    private static let accountLimit = 64

    private var nobodys = 0
    private var accounts: [Identifier: Int] = [:]

    mutating func add(_ account: Identifier?) {
        if let account, accounts[account] != nil || accounts.count < Self.accountLimit {
            accounts[account, default: 0] += 1
        } else {
            nobodys += 1
        }
    }

    mutating func add(_ other: FailureCount) {
        nobodys += other.nobodys
        accounts.merge(other.accounts, uniquingKeysWith: +)
    }

    /// All of them.
    var all: Int { accounts.values.reduce(nobodys, +) }

    /// Those that count if one account gives no more than that.
    func count(atMost limit: Int) -> Int { accounts.values.reduce(nobodys) { $0 + min($1, limit) } }
}

/// Calls and failures of the last while, counted in ten slots.
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

    /// Calls and failures, without the failures of an account beyond the limit.
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
