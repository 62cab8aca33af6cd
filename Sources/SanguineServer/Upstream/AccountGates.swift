import SanguineModel

/// The accounts that are blocked from an upstream because their own calls fail there.
///
/// An account is blocked for a while after a number of consecutive failures, and twice as long
/// after each further one. Then one call at a time is admitted until one succeeds. This protects an
/// upstream that only one account calls; an account's failures never block another account.
///
/// Invariants:
/// 1. It stores at most ``limit`` accounts. The one whose last failure is oldest is removed first.
/// 2. No account is blocked for longer than the rules of the breaker permit.
struct AccountGates: Hashable, Sendable {
    /// The maximum number of accounts.
    static let limit = 1_024

    private struct Gate: Hashable {
        var failures = 0
        var openings = 0
        var closedUntil: Duration?
        var isProbing = false
        var lastFailure = Duration.zero
    }

    private var gates: [Identifier: Gate] = [:]

    /// The number of stored accounts.
    var count: Int { gates.count }

    /// Returns the time until a call of the account can be admitted; `nil` if it can be now.
    func wait(_ account: Identifier, at now: Duration) -> Duration? {
        guard let gate = gates[account], let end = gate.closedUntil else { return nil }
        if gate.isProbing { return .seconds(1) }
        return end > now ? end - now : nil
    }

    /// Admits a call of the account, for which ``wait(_:at:)`` returned `nil`.
    ///
    /// - Returns: Whether the call probes if the account can be unblocked.
    mutating func admit(_ account: Identifier) -> Bool {
        guard gates[account]?.closedUntil != nil else { return false }
        gates[account]?.isProbing = true
        return true
    }

    /// Records that a call of the account succeeded.
    mutating func succeeded(_ account: Identifier, isProbe: Bool) {
        if isProbe || gates[account]?.closedUntil == nil { gates[account] = nil }
    }

    /// Records that a call of the account ended without a verdict.
    mutating func ended(_ account: Identifier, isProbe: Bool) {
        if isProbe { gates[account]?.isProbing = false }
    }

    /// Records that a call of the account failed.
    ///
    /// - Returns: Whether the failure counts: not if the call was sent before the blocking.
    mutating func failed(
        _ account: Identifier,
        isProbe: Bool,
        at now: Duration,
        after failures: Int,
        closing time: (_ openings: Int) -> Duration
    ) -> Bool {
        var gate = gates[account] ?? Gate()
        guard gate.closedUntil == nil || isProbe else { return false }
        gate.failures += 1
        gate.lastFailure = now
        gate.isProbing = false
        if isProbe || gate.failures >= failures {
            gate.openings += 1
            gate.closedUntil = now + time(gate.openings)
        }
        if gates[account] == nil, gates.count >= Self.limit, let oldest { gates[oldest] = nil }
        gates[account] = gate
        return true
    }

    private var oldest: Identifier? {
        gates.min { $0.value.lastFailure < $1.value.lastFailure }?.key
    }
}
