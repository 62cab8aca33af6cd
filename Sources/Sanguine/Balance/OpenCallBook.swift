import OrderedCollections
import SanguineModel

/// The calls whose answers the app has not read, so that the app can find them again.
///
/// A call is removed when the app has read its answer or its failure, when no answer will arrive,
/// or when the server no longer keeps its answer. ``RetentionTime`` measures that time, so that no
/// key is forgotten too early when the device's clock jumps. A call that waits for a network stays
/// until it is sent.
///
/// Invariant: there are at most ``BalanceLimits/openCalls``; the oldest call that does not have to
/// be sent is removed first.
struct OpenCallBook: Sendable {
    private var book: OrderedDictionary<String, OpenCall> = [:]

    /// The time that has certainly passed.
    private(set) var kept = RetentionTime()

    init() {}

    init(restoring calls: [OpenCall], kept: RetentionTime? = nil) {
        self.kept = kept ?? RetentionTime()
        for call in calls.suffix(BalanceLimits.openCalls) { book[call.key] = call }
    }

    /// The calls, in the order in which they began.
    var calls: [OpenCall] { Array(book.values) }

    /// The keys of the calls whose requests are stored.
    var withRequests: Set<String> { Set(book.values.filter(\.keepsRequest).map(\.key)) }

    /// The number of calls that are sent until they are answered.
    var queued: Int { book.values.count { $0.isQueued && !$0.hasEnded } }

    subscript(key: String) -> OpenCall? { book[key] }

    mutating func began(_ call: OpenCall) {
        kept.read(call.begunAt, counting: BalanceLimits.countedGap)
        let now = kept.counted
        let lifetime = BalanceLimits.answersKept + BalanceLimits.countedGap
        book.removeAll { _, old in
            now - (old.begunAfter ?? .zero) >= lifetime && (old.hasEnded || !old.isQueued)
        }
        if book.count >= BalanceLimits.openCalls,
            let place = book.values.firstIndex(where: { $0.hasEnded || !$0.isQueued })
        {
            book.remove(at: place)
        }
        var call = call
        call.begunAfter = now
        book[call.key] = call
    }

    /// Records that a call will not be sent again, whether or not its outcome is known.
    mutating func leavesQueue(_ key: String) { book[key]?.isQueued = false }

    /// Records that a waiting call was sent.
    mutating func sends(_ key: String) { book[key]?.state = .running }

    /// Records that a call has ended.
    ///
    /// - Parameters:
    ///   - key: The key of the call.
    ///   - state: The state in which it has ended.
    mutating func ended(_ key: String, _ state: OpenCall.State) { book[key]?.state = state }

    /// Removes a call whose result the app has read, if it has ended.
    mutating func resultRead(_ key: String) {
        if book[key]?.hasEnded == true { book[key] = nil }
    }

    /// Removes a call without an answer.
    mutating func remove(_ key: String) { book[key] = nil }
}
