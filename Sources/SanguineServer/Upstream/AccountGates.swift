import SanguineModel

/// The accounts that are kept from an upstream because their own calls fail there, as a value.
///
/// An account whose calls have failed so often in a row is kept out for a while, twice as long
/// after each failure that follows; then one call of it goes through at a time until one succeeds.
/// This protects an upstream that only one account calls, and an account's own failures keep no
/// other account out.
///
/// Invariants:
/// 1. It remembers ``limit`` accounts at most: the one that failed longest ago is forgotten first.
/// 2. No account is kept out for longer than the rules of the breaker allow.
struct AccountGates: Hashable, Sendable {
    /// Accounts that are remembered.
    static let limit = 1_024

    private struct Gate: Hashable {
        var failures = 0
        var openings = 0
        var closedUntil: Duration?
        var isProbing = false
        var lastFailure = Duration.zero
    }

    private var gates: [Identifier: Gate] = [:]

    /// How many accounts are remembered.
    var count: Int { gates.count }

    /// How long it is until a call of the account may be let through; `nil` if one would be now.
    func wait(_ account: Identifier, at now: Duration) -> Duration? {
        guard let gate = gates[account], let end = gate.closedUntil else { return nil }
        if gate.isProbing { return .seconds(1) }
        return end > now ? end - now : nil
    }

    /// Lets a call of the account through, which was not to wait.
    ///
    /// - Returns: Whether the call probes if the account may come back.
    mutating func admit(_ account: Identifier) -> Bool {
        guard gates[account]?.closedUntil != nil else { return false }
        gates[account]?.isProbing = true
        return true
    }

    /// A call of the account has succeeded.
    mutating func succeeded(_ account: Identifier, isProbe: Bool) {
        if isProbe || gates[account]?.closedUntil == nil { gates[account] = nil }
    }

    /// A call of the account says nothing.
    mutating func ended(_ account: Identifier, isProbe: Bool) {
        if isProbe { gates[account]?.isProbing = false }
    }

    /// A call of the account has failed.
    ///
    /// - Returns: Whether the failure counts: not that of a call that left before the account was
    ///   kept out.
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
