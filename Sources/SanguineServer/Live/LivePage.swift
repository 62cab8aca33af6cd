import NIOCore
import SanguineAuthority
import SanguineModel

/// A part of a feed as it is written to live connections: read once, and shared by all at its
/// place.
struct LivePage: Sendable {
    /// The position of the readers to whom it is written.
    let after: FeedPosition
    /// Their position after it.
    let next: FeedPosition
    /// Whether there is more to read at once.
    let hasMore: Bool
    /// How many events it has.
    let events: Int
    /// The events (WHATWG HTML, section 9.2.6).
    let bytes: ByteBuffer

    init(_ part: FeedPart, after position: FeedPosition) {
        let answer = part.answer
        after = position
        next = FeedPosition(number: answer.next, horizon: part.horizon)
        hasMore = answer.hasMore
        events = answer.changes.count + (answer.reset ? 1 : 0)
        bytes = ByteBuffer(bytes: LiveEvents.bytes(of: answer, after: position.number))
    }
}

/// The last pages of one account, each beginning where the one before it ends.
///
/// A page stays right for whoever stands where it begins, and knows of the same forgotten
/// deletions, however old it is: the pages after it bring what came since.
///
/// Invariants:
///
/// 1. Each page's ``LivePage/after`` has the number of the ``LivePage/next`` before it.
/// 2. They have at most ``LiveLimits/sharedEvents`` and ``LiveLimits/sharedBytes`` together.
struct LivePages: Sendable {
    private var pages: [LivePage] = []
    private var events = 0
    private var bytes = 0

    /// The page for a reader at this position, if it is known.
    func page(after position: FeedPosition) -> LivePage? {
        pages.last { $0.after == position }
    }

    /// Keeps a page, if it leads on.
    mutating func add(_ page: LivePage) {
        defer { checkInvariants() }
        guard page.next.number > page.after.number, page.events <= LiveLimits.sharedEvents,
            page.bytes.readableBytes <= LiveLimits.sharedBytes
        else { return }
        if let last = pages.last, last.next.number != page.after.number {
            guard page.next.number > last.next.number else { return }
            // Someone far behind read past all of it: what comes next follows that.
            pages = []
            (events, bytes) = (0, 0)
        }
        pages.append(page)
        events += page.events
        bytes += page.bytes.readableBytes
        while events > LiveLimits.sharedEvents || bytes > LiveLimits.sharedBytes {
            let first = pages.removeFirst()
            events -= first.events
            bytes -= first.bytes.readableBytes
        }
    }

    private func checkInvariants() {
        assert(zip(pages, pages.dropFirst()).allSatisfy { $0.next.number == $1.after.number })
        assert(events == pages.reduce(0) { $0 + $1.events } && events <= LiveLimits.sharedEvents)
        assert(bytes == pages.reduce(0) { $0 + $1.bytes.readableBytes })
        assert(bytes <= LiveLimits.sharedBytes)
    }
}
