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
struct BreakerState: Hashable, Sendable {
    /// When the breaker opens, and for how long.
    struct Rules: Hashable, Sendable {
        /// Failures in a row that open it.
        var consecutiveFailures = 5
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
    }

    /// Leave for one call, which says how it ended by ``end(_:_:at:jitter:)``.
    struct Pass: Hashable, Sendable {
        fileprivate let era: UInt64
        /// Whether the call probes a half-open breaker.
        let isProbe: Bool
    }

    /// What a call says about the upstream.
    enum Verdict: Hashable, Sendable {
        /// It works.
        case success
        /// It does not, and perhaps asked to be left alone for so long.
        case failure(pause: Duration?)
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
    private var failuresInARow = 0
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

    /// Lets a call through, or returns `nil`.
    mutating func admit(at now: Duration) -> Pass? {
        guard wait(at: now) == nil else { return nil }
        if state == .closed { return Pass(era: era, isProbe: false) }
        state = .halfOpen(isProbing: true)
        return Pass(era: era, isProbe: true)
    }

    /// How long it is until a call may be let through; `nil` if one would be now.
    ///
    /// While a probe is out, that is not known, and a second is what is said.
    func wait(at now: Duration) -> Duration? {
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
        guard pass.era == era else { return }
        switch (state, verdict) {
        case (.closed, .success):
            failuresInARow = 0
            window.add(isFailure: false, at: now)
        case (.closed, .failure):
            failuresInARow += 1
            window.add(isFailure: true, at: now)
            if hasFailedTooOften(at: now) { open(at: now, jitter: jitter) }
        case (.halfOpen, .success): close()
        case (.halfOpen, .failure): open(at: now, jitter: jitter)
        case (.halfOpen, .nothing): state = .halfOpen(isProbing: false)
        case (.closed, .nothing), (.open, _): break
        }
    }

    private mutating func hasFailedTooOften(at now: Duration) -> Bool {
        if failuresInARow >= rules.consecutiveFailures { return true }
        let counts = window.counts(at: now)
        return counts.calls >= rules.minimumCalls
            && Double(counts.failures) >= rules.failureRate * Double(counts.calls)
    }

    private mutating func open(at now: Duration, jitter: Double) {
        openings += 1
        let doubled = rules.firstOpenTime * (1 << min(openings - 1, 30))
        let factor = 1 - rules.jitter + 2 * rules.jitter * jitter
        let time = min(min(doubled, rules.longestOpenTime) * factor, rules.longestOpenTime)
        begin(.open(until: now + time))
    }

    private mutating func close() {
        openings = 0
        begin(.closed)
    }

    private mutating func begin(_ state: State) {
        self.state = state
        era += 1
        failuresInARow = 0
        window.removeAll()
    }
}

/// Calls and failures of the last while, counted in ten slots.
private struct CallWindow: Hashable, Sendable {
    private static let slotCount: Int64 = 10

    private struct Slot: Hashable {
        let number: Int64
        var calls = 0
        var failures = 0
    }

    private let slotNanoseconds: Int64
    /// Oldest first; at most ten.
    private var slots: [Slot] = []

    init(length: Duration) { slotNanoseconds = max(1, length.wholeNanoseconds / Self.slotCount) }

    mutating func add(isFailure: Bool, at now: Duration) {
        forget(at: now)
        let number = now.wholeNanoseconds / slotNanoseconds
        if slots.last?.number != number { slots.append(Slot(number: number)) }
        slots[slots.count - 1].calls += 1
        if isFailure { slots[slots.count - 1].failures += 1 }
    }

    mutating func counts(at now: Duration) -> (calls: Int, failures: Int) {
        forget(at: now)
        return slots.reduce((0, 0)) { ($0.0 + $1.calls, $0.1 + $1.failures) }
    }

    mutating func removeAll() { slots.removeAll() }

    private mutating func forget(at now: Duration) {
        let oldest = now.wholeNanoseconds / slotNanoseconds - Self.slotCount + 1
        slots.removeAll { $0.number < oldest }
    }
}
