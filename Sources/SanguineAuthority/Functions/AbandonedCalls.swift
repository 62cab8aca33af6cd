import SanguineModel
import Synchronization

/// Limits how many calls of a function an account may abandon.
///
/// A call is abandoned if its caller ends it after it has left for its upstream, and before the
/// first part of an answer that is paid for by the whole; see ``IncompleteEnd``. The upstream reads
/// its prompt at no charge. So an account may abandon as many calls at once as the function's quota
/// allows in a day, and at least ``CallLimits/abandonedCalls``. Each is forgotten after its share
/// of a day. Calls that their upstream fails are not abandoned.
///
/// Invariants:
/// 1. In a day an account abandons at most twice its limit of a function, and what it has under way
///    when it reaches that.
/// 2. It remembers ``CallLimits/abandoningAccounts`` at most. Past that it forgets the account that
///    has the fewest abandoned calls of its limit.
///
/// Mutable state: `endings`, protected by the mutex.
final class AbandonedCalls: Sendable {
    private struct Pair: Hashable {
        var account: Identifier
        var function: String
    }

    /// When the last abandoned call of each account and function is forgotten, on a clock that
    /// never jumps: one moment says how many there are, as in a token bucket (GCRA, ITU-T I.371).
    private let endings = Mutex<[Pair: Duration]>([:])

    /// How many accounts and functions are remembered.
    var count: Int { endings.withLock { $0.count } }

    /// Refuses another call if as many were abandoned as may be.
    ///
    /// - Throws: `rate_limited`.
    func check(
        _ function: String,
        _ account: Identifier,
        limit: Int64,
        at now: Duration
    ) throws(Problem) {
        let pair = Pair(account: account, function: function)
        guard let end = endings.withLock({ $0[pair] }) else { return }
        let wait = end - now - CallLimits.abandonedTime / limit * (limit - 1)
        guard wait > .zero else { return }
        throw Problem(
            .rateLimited,
            """
            Too many calls of this function (\(limit)) were cancelled at no charge. Call again \
            after 'Retry-After', and let calls complete.
            """,
            retryAfter: wait.secondsRoundedUp
        )
    }

    /// Counts a call that was abandoned.
    func add(_ function: String, _ account: Identifier, limit: Int64, at now: Duration) {
        let pair = Pair(account: account, function: function)
        endings.withLock { endings in
            if endings[pair] == nil, endings.count >= CallLimits.abandoningAccounts {
                endings = endings.filter { $0.value > now }
                if endings.count >= CallLimits.abandoningAccounts,
                    let least = endings.min(by: { $0.value < $1.value })?.key
                {
                    endings[least] = nil
                }
            }
            endings[pair] = max(endings[pair] ?? now, now) + CallLimits.abandonedTime / limit
        }
    }
}

extension Price {
    /// How many calls an account may abandon at once; `nil` if that is charged, or nothing is.
    ///
    /// - Parameter quotas: What each daily quota allows.
    /// - Returns: As many calls as the quota pays for in a day, and at least
    ///   ``CallLimits/abandonedCalls``.
    func abandonedCalls(of quotas: [String: Int64]) -> Int64? {
        let isTaken = quota?.moment.charges(.abandoned) ?? false
        guard quota != nil || amount > 0, !isTaken, charge(amount, for: .abandoned) == 0,
            kind == .fixed
        else { return nil }
        let daily = quota.map { (quotas[$0.name] ?? 0) / max(1, $0.units) } ?? 0
        return max(Int64(CallLimits.abandonedCalls), daily)
    }
}
