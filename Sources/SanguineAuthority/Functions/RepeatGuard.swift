import SanguineModel
import Synchronization

/// Counts how often an account makes the same call within a minute.
///
/// Minutes are those of the clock: a window begins with the first call after the last one's end.
///
/// Mutable state: `window`, guarded by the mutex. It counts at most ``capacity`` calls; those that
/// come after it is full are not counted, so that nobody is refused for others.
final class RepeatGuard: Sendable {
    private struct Window {
        var end = Timestamp(millisecondsSince1970: .min)
        var counts: [[UInt8]: Int] = [:]
    }

    /// Different calls that are counted in a minute.
    static let capacity = 100_000

    private let window = Mutex(Window())

    /// Counts a call.
    ///
    /// - Throws: `rate_limited` if it was made more often than the limit.
    func count(
        _ function: String,
        _ account: Identifier,
        _ input: JSONValue,
        _ attachments: [BlobFacts] = [],
        limit: Int?,
        at now: Timestamp
    ) throws(Problem) {
        guard let limit else { return }
        let text = String(decoding: input.canonical, as: UTF8.self)
        let files = attachments.map(\.id).joined(separator: " ")
        let key = Fingerprint(function, account.description, text, files).bytes
        let rest = window.withLock { window -> Duration? in
            if now >= window.end {
                window.end = now + .seconds(60)
                window.counts = [:]
            }
            guard window.counts.count < Self.capacity || window.counts[key] != nil else {
                return nil
            }
            window.counts[key, default: 0] += 1
            return window.counts[key, default: 0] > limit ? window.end - now : nil
        }
        guard let rest else { return }
        throw Problem(
            .rateLimited,
            "Ask something else, or wait for 'Retry-After': the same call was made \(limit) times.",
            retryAfter: max(1, rest.secondsRoundedUp)
        )
    }
}
