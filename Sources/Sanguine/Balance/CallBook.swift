import OrderedCollections
import SanguineModel

/// The calls whose answers the app has not been given, so that it finds them again.
///
/// A call leaves when its answer is given, when it is known that there will be none, or when the
/// server keeps answers no longer. One that waits for a network stays until it is sent.
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
    ///   - isGiven: Whether the app is given its answer, so that it is looked for no more.
    mutating func ended(_ key: String, _ state: OpenCall.State, isGiven: Bool) {
        if isGiven { book[key] = nil } else { book[key]?.state = state }
    }

    /// The app was given the answer, or there is none.
    mutating func remove(_ key: String) { book[key] = nil }
}
