import SanguineModel
import Synchronization

/// Counts how often an account makes the same call within a minute.
///
/// A minute begins with the first call after the last one's end. It is measured by a clock that
/// never jumps. What is answered without a run (the same key again, a kept answer) is no
/// repetition.
///
/// Mutable state: `window`, guarded by the mutex. It counts at most ``capacity`` calls; those that
/// come after it is full are not counted, so that nobody is refused for others.
final class RepeatGuard: Sendable {
    private struct Window {
        /// When it ends; `nil` before the first call.
        var end: Duration?
        var counts: [[UInt8]: Int] = [:]
    }

    /// Different calls that are counted in a minute.
    static let capacity = 100_000

    private let window = Mutex(Window())

    /// A call that was counted.
    struct Receipt: Sendable {
        fileprivate let key: [UInt8]
        fileprivate let end: Duration
    }

    /// Counts a call, at a time on a clock that never jumps.
    ///
    /// - Returns: What takes it back; `nil` for one that is not counted.
    /// - Throws: `rate_limited` if it was made as often as it may.
    func count(
        _ function: String,
        _ account: Identifier,
        _ input: JSONValue,
        _ attachments: [BlobFacts] = [],
        limit: Int?,
        at now: Duration
    ) throws(Problem) -> Receipt? {
        guard let limit else { return nil }
        let text = String(decoding: input.canonical, as: UTF8.self)
        let files = attachments.map(\.id).joined(separator: " ")
        let key = Fingerprint(function, account.description, text, files).bytes
        let (receipt, rest) = window.withLock { window -> (Receipt?, Duration?) in
            let end: Duration
            if let last = window.end, now < last {
                end = last
            } else {
                end = now + .seconds(60)
                window = Window(end: end)
            }
            let count = window.counts[key]
            guard window.counts.count < Self.capacity || count != nil else { return (nil, nil) }
            guard count ?? 0 < limit else { return (nil, end - now) }
            window.counts[key] = (count ?? 0) + 1
            return (Receipt(key: key, end: end), nil)
        }
        guard let rest else { return receipt }
        throw Problem(
            .rateLimited,
            "Ask something else, or wait for 'Retry-After': the same call was made \(limit) times.",
            retryAfter: max(1, rest.secondsRoundedUp)
        )
    }

    /// Counts a call no more: it was not made.
    func takeBack(_ receipt: Receipt) {
        window.withLock { window in
            guard window.end == receipt.end, let count = window.counts[receipt.key] else { return }
            window.counts[receipt.key] = count > 1 ? count - 1 : nil
        }
    }
}
