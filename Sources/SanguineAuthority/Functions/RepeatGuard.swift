import SanguineModel
import Synchronization

/// Counts how often an account repeats the same call within a minute.
///
/// A minute begins with the first call after the end of the last one, and is measured by a
/// monotonic clock. Requests that are answered without a run (the same key, a cached answer) are
/// not repetitions.
///
/// Mutable state: `window`, guarded by its mutex. It counts at most ``capacity`` calls; further
/// calls are not counted, so that no account is refused because of others.
final class RepeatGuard: Sendable {
    private struct Window {
        /// The end of the minute; `nil` before the first call.
        var end: Duration?
        var counts: [[UInt8]: Int] = [:]
    }

    /// The number of different calls that are counted in a minute.
    static let capacity = 100_000

    private let window = Mutex(Window())

    /// A counted call.
    struct Receipt: Sendable {
        fileprivate let key: [UInt8]
        fileprivate let end: Duration
    }

    /// Counts a call, at a time on a monotonic clock.
    ///
    /// - Returns: A receipt to uncount the call; `nil` for a call that is not counted.
    /// - Throws: `rate_limited` if the limit is reached.
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
            """
            The same call was made \(limit) times. Change the input, or call again after \
            'Retry-After'.
            """,
            retryAfter: max(1, rest.secondsRoundedUp)
        )
    }

    /// Uncounts a call that was not made.
    func uncount(_ receipt: Receipt) {
        window.withLock { window in
            guard window.end == receipt.end, let count = window.counts[receipt.key] else { return }
            window.counts[receipt.key] = count > 1 ? count - 1 : nil
        }
    }
}
