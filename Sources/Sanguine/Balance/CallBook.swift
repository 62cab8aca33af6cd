import OrderedCollections
import SanguineModel

/// The calls whose answers the app has not read, so that it finds them again.
///
/// A call leaves when its answer was read to its end, when it has failed for good, or when the
/// server no longer keeps its answer. ``KeptTime`` counts the time, so that no key is forgotten too
/// early when the device's clock jumps. A call that waits for a network stays until it is sent.
///
/// Invariant: at most ``BalanceLimits/openCalls``; the oldest that needs nothing sent goes first.
struct CallBook: Sendable {
    private var book: OrderedDictionary<String, OpenCall> = [:]

    /// The time that has passed, as far as it is sure.
    private(set) var kept = KeptTime()

    init() {}

    init(restoring calls: [OpenCall], kept: KeptTime? = nil) {
        self.kept = kept ?? KeptTime()
        for call in calls.suffix(BalanceLimits.openCalls) { book[call.key] = call }
    }

    /// The calls, in the order in which they began.
    var calls: [OpenCall] { Array(book.values) }

    /// The keys of those whose requests are stored.
    var withRequests: Set<String> { Set(book.values.filter(\.keepsRequest).map(\.key)) }

    /// How many of them are sent until they are answered.
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

    /// A call is not sent again, whether or not its end is known.
    mutating func leavesQueue(_ key: String) { book[key]?.isQueued = false }

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
