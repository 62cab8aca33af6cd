import SanguineModel
import Synchronization

/// Limits the number of calls of a function that an account may abandon.
///
/// A call is abandoned if its caller ends it after it was sent to its upstream, and before the
/// first part of an answer that is only charged as a whole; see ``IncompleteEnd``. The upstream
/// then reads the prompt without a charge to the account. So an account may abandon as many calls
/// at once as the function's quota allows in a day, and at least ``CallLimits/abandonedCalls``.
/// Each one is forgotten after its share of a day. Calls that fail at their upstream do not count.
///
/// Invariants:
/// 1. In a day, an account abandons at most twice its limit for a function, in addition to the
///    calls that are running when it reaches the limit.
/// 2. At most ``CallLimits/abandoningAccounts`` pairs are remembered. Beyond that, the one with the
///    fewest abandoned calls relative to its limit is forgotten.
///
/// Mutable state: `endings`, protected by the mutex.
final class AbandonedCalls: Sendable {
    private struct Pair: Hashable {
        var account: Identifier
        var function: String
    }

    /// The time at which the last abandoned call of each account and function is forgotten.
    ///
    /// The clock is monotonic. This one time encodes the number of calls, as in a token bucket
    /// (GCRA, ITU-T I.371).
    private let endings = Mutex<[Pair: Duration]>([:])

    /// The number of remembered pairs of account and function.
    var count: Int { endings.withLock { $0.count } }

    /// Refuses another call if the account has reached its limit.
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

    /// Counts an abandoned call.
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
    /// Returns the number of calls that an account may abandon at once; `nil` if abandoned calls
    /// are charged, or calls are free.
    ///
    /// - Parameter quotas: The quotas by name.
    /// - Returns: The number of calls that the quota pays for in a day, and at least
    ///   ``CallLimits/abandonedCalls``.
    func abandonedCalls(of quotas: [String: QuotaRule]) -> Int64? {
        let isTaken = quota?.moment.charges(.abandoned) ?? false
        guard quota != nil || amount > 0, !isTaken, charge(amount, for: .abandoned) == 0,
            kind == .fixed
        else { return nil }
        let daily = quota.map { (quotas[$0.name]?.perDay ?? 0) / max(1, $0.units) } ?? 0
        return max(Int64(CallLimits.abandonedCalls), daily)
    }
}
