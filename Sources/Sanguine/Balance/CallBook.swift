import OrderedCollections
import SanguineModel

/// The calls whose answers the app has not read, so that it finds them again.
///
/// A call leaves when its answer was read to its end, when it has failed for good, or when the
/// server no longer keeps its answer. A call that waits for a network stays until it is sent.
///
/// Invariant: at most ``BalanceLimits/openCalls``; the oldest that needs nothing sent goes first.
struct CallBook: Sendable {
    private var book: OrderedDictionary<String, OpenCall> = [:]

    init() {}

    init(restoring calls: [OpenCall]) {
        for call in calls.suffix(BalanceLimits.openCalls) { book[call.key] = call }
    }

    /// The calls, in the order in which they began.
    var calls: [OpenCall] { Array(book.values) }

    /// How many of them are sent until they are answered.
    var queued: Int { book.values.count { $0.isQueued && !$0.hasEnded } }

    subscript(key: String) -> OpenCall? { book[key] }

    mutating func began(_ call: OpenCall) {
        let oldest = call.begunAt - BalanceLimits.answersKept
        book.removeAll { _, old in
            old.begunAt < oldest && (old.hasEnded || !old.isQueued)
        }
        if book.count >= BalanceLimits.openCalls,
            let place = book.values.firstIndex(where: { $0.hasEnded || !$0.isQueued })
        {
            book.remove(at: place)
        }
        book[call.key] = call
    }

    /// A call that has waited is sent.
    mutating func sends(_ key: String) { book[key]?.state = .running }

    /// A call has ended.
    ///
    /// - Parameters:
    ///   - key: The call's.
    ///   - state: How it has ended.
    mutating func ended(_ key: String, _ state: OpenCall.State) { book[key]?.state = state }

    /// The app has read how the call has ended; nothing changes for one that has not.
    mutating func given(_ key: String) {
        if book[key]?.hasEnded == true { book[key] = nil }
    }

    /// There will be no answer.
    mutating func remove(_ key: String) { book[key] = nil }
}
