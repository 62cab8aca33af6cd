import SanguineModel
import Synchronization

/// Limits how often an address tries codes.
///
/// There is no common limit for all addresses, because an attacker could exhaust it and lock all
/// users out. Codes are too long to be guessed from many addresses.
///
/// Invariants: `counts` has only addresses of the current minute, at most ``addresses`` of them and
/// ``groups`` more.
///
/// Mutable state: `state`, guarded by its mutex.
final class AttemptLimiter: Sendable {
    /// The number of addresses that are counted by themselves: 65,536.
    static let addresses = 1 << 16
    /// The number of groups into which further addresses of a minute are divided: 4,096.
    static let groups = 1 << 12

    private enum Counted: Hashable {
        case address(String)
        /// The hash has a secret seed, so that an attacker cannot choose the group of a victim.
        case group(Int)
    }

    private struct State {
        var minute: Int64 = .min
        var counts: [Counted: Int] = [:]
    }

    private let perAddress: Int
    private let state = Mutex(State())

    /// Creates a limiter.
    ///
    /// - Parameter perAddress: The attempts of an address per minute.
    init(perAddress: Int) { self.perAddress = perAddress }

    /// The number of counters, for tests.
    var count: Int { state.withLock { $0.counts.count } }

    /// Counts an attempt.
    ///
    /// - Throws: `rate_limited` for one too many.
    func count(_ address: String?, at now: Timestamp) throws(Problem) {
        let milliseconds = now.millisecondsSince1970
        let minute = milliseconds / 60_000
        let isAdmitted = state.withLock { state in
            if state.minute != minute { state = State(minute: minute) }
            var counted = Counted.address(address ?? "")
            if state.counts[counted] == nil, state.counts.count >= Self.addresses {
                counted = .group(abs((address ?? "").hashValue % Self.groups))
            }
            let own = state.counts[counted] ?? 0
            guard own < perAddress else { return false }
            state.counts[counted] = own + 1
            return true
        }
        guard isAdmitted else {
            throw Problem(
                .rateLimited,
                "Too many codes were tried. Try again after 'Retry-After'.",
                retryAfter: max(1, Int(60 - milliseconds / 1_000 % 60))
            )
        }
    }
}
