import SanguineModel
import Synchronization

/// Limits how often codes are tried, by address and in total.
///
/// Invariants: `counts` has only addresses of the current minute, at most `total` of them.
///
/// Mutable state: `state`, guarded by its mutex.
final class AttemptLimiter: Sendable {
    private struct State {
        var minute: Int64 = .min
        var sum = 0
        var counts: [String: Int] = [:]
    }

    private let perAddress: Int
    private let total: Int
    private let state = Mutex(State())

    /// Creates a limiter.
    ///
    /// - Parameters:
    ///   - perAddress: The attempts of an address per minute.
    ///   - total: The attempts of all addresses per minute.
    init(perAddress: Int, total: Int) {
        self.perAddress = perAddress
        self.total = total
    }

    /// Counts an attempt.
    ///
    /// - Throws: `rate_limited` for one too many.
    func count(_ address: String?, at now: Timestamp) throws(Problem) {
        let milliseconds = now.millisecondsSince1970
        let minute = milliseconds / 60_000
        let isAdmitted = state.withLock { state in
            if state.minute != minute { state = State(minute: minute) }
            let own = state.counts[address ?? ""] ?? 0
            guard own < perAddress, state.sum < total else { return false }
            state.counts[address ?? ""] = own + 1
            state.sum += 1
            return true
        }
        guard isAdmitted else {
            throw Problem(
                .rateLimited,
                "Too many codes were tried. Wait for 'Retry-After', then try again.",
                retryAfter: max(1, Int(60 - milliseconds / 1_000 % 60))
            )
        }
    }
}
