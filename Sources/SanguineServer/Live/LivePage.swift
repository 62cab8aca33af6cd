import NIOCore
import SanguineAuthority
import SanguineModel

/// A part of a feed, encoded once for all live connections at its position.
struct LivePage: Sendable {
    /// The position of the readers that receive it.
    let after: FeedPosition
    /// Their position afterwards.
    let next: FeedPosition
    /// Whether more changes can be read at once.
    let hasMore: Bool
    /// The number of events.
    let events: Int
    /// The encoded events (WHATWG HTML, section 9.2.6).
    let bytes: ByteBuffer

    init(_ part: FeedPart, after position: FeedPosition) {
        let answer = part.answer
        after = position
        next = FeedPosition(
            number: answer.next,
            horizon: part.horizon,
            config: part.config
        )
        hasMore = answer.hasMore
        events = answer.changes.count + (answer.reset ? 1 : 0)
        bytes = ByteBuffer(bytes: LiveEvents.bytes(of: answer, after: position.number))
    }
}

/// The recent pages of one account, each of which begins where the previous one ends.
///
/// A page stays valid, however old it is, for readers at its start that have the same horizon: the
/// following pages contain later changes.
///
/// Invariants:
///
/// 1. Each page's ``LivePage/after`` has the number of the previous page's ``LivePage/next``.
/// 2. Together, the pages have at most ``LiveLimits/sharedEvents`` and ``LiveLimits/sharedBytes``.
struct LivePages: Sendable {
    private var pages: [LivePage] = []
    private var events = 0
    private var bytes = 0

    /// Returns the stored page for a reader at this position, if there is one.
    func page(after position: FeedPosition) -> LivePage? {
        pages.last { $0.after == position }
    }

    /// Stores a page if it advances the position and fits the limits.
    mutating func add(_ page: LivePage) {
        defer { checkInvariants() }
        guard page.next.number > page.after.number, page.events <= LiveLimits.sharedEvents,
            page.bytes.readableBytes <= LiveLimits.sharedBytes
        else { return }
        if let last = pages.last, last.next.number != page.after.number {
            guard page.next.number > last.next.number else { return }
            // A reader from far behind has passed all stored pages; later pages follow this one.
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
