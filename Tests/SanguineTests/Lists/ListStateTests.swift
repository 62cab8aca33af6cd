import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

/// The rules of the list, one by one; the fuzz test combines them.
@Suite("List state", .bounded)
struct ListStateTests {
    struct Row: Codable, Sendable, Equatable, Identifiable {
        var id: String
        var version = 0
    }

    var state = ListState<Row>(pageSize: 4, pageLimit: 5)
    private var lastWaiter: UInt64 = 0

    func page(_ ids: String, next: String?, version: Int = 0) -> ListPage<Row> {
        let rows = ids.map { Row(id: String($0), version: version) }
        return ListPage(items: rows, hasMore: next != nil, nextCursor: next)
    }

    var shown: String { state.list.rows.map(\.id).joined() }

    mutating func join(_ load: ListLoad) -> ListState<Row>.Actions {
        lastWaiter += 1
        return state.join(load, waiter: lastWaiter)
    }

    mutating func request(_ load: ListLoad) throws -> ListRequest {
        let actions = join(load)
        return try #require(actions.start.first)
    }

    mutating func complete(
        _ request: ListRequest,
        _ page: ListPage<Row>
    ) throws -> ListState<Row>.Actions {
        let actions = state.complete(request.number, page)
        return try #require(actions)
    }

    mutating func expire(
        _ request: ListRequest,
        _ error: SanguineError = .queryFailed(ClosureFailure("gone"))
    ) throws -> ListState<Row>.Actions {
        let actions = state.fail(request.number, error, isCursorExpired: true)
        return try #require(actions)
    }

    /// Loads a page and finishes its request.
    mutating func load(_ load: ListLoad, _ page: ListPage<Row>) throws {
        _ = try complete(try request(load), page)
    }

    /// Three pages: abcd, efgh, ijkl.
    mutating func loadThree() throws {
        try load(.refresh, page("abcd", next: "d"))
        try load(.next, page("efgh", next: "h"))
        try load(.next, page("ijkl", next: "l"))
    }

    @Test mutating func `without a list the next page is the first one`() throws {
        let request = try request(.next)
        #expect(request.cursor == nil)
        #expect(request.limit == 4)
        let actions = try complete(request, page("abcd", next: "d"))

        #expect(actions.answer.map(\.waiter) == [1])
        #expect(shown == "abcd")
        #expect(state.hasMore)
    }

    @Test mutating func `any number of callers share one request, and all are answered`() throws {
        try load(.refresh, page("abcd", next: "d"))
        let starts = (1...1_000).map { _ in join(.next).start.count }
        #expect(starts.reduce(0, +) == 1)
        let number = try #require(state.tail?.number)
        let completed = state.complete(number, page("efgh", next: nil))
        let actions = try #require(completed)

        #expect(actions.answer.count == 1_000)
        let late = join(.next)
        #expect(late.answer.count == 1)
        #expect(state.isIdle)
    }

    @Test mutating func `the request is cancelled when the last caller leaves`() throws {
        try load(.refresh, page("abcd", next: "d"))
        let number = try request(.next).number
        _ = join(.next)

        let first = state.leave(waiter: lastWaiter)
        let last = state.leave(waiter: lastWaiter - 1)
        #expect(first.cancel.isEmpty)
        #expect(last.cancel == [number])
        let late = state.complete(number, page("efgh", next: nil))
        #expect(late?.start == nil)
        #expect(shown == "abcd")
    }

    @Test mutating func `the next page follows a fetched page that reaches appended rows`() throws {
        try load(.refresh, page("abcd", next: "d"))
        _ = state.apply(state.list.arranged(state.list.rows + [Row(id: "x"), Row(id: "y")]))
        #expect(shown == "abcdxy" && state.list.appended == 2)
        // Another device has deleted the first row, and the server has stored the appended ones.
        try load(.refresh, page("bcdx", next: "x"))
        #expect(shown == "bcdxy" && state.list.appended == 1)

        let request = try request(.next)
        #expect(request.cursor == "x")
        _ = try complete(request, page("y", next: nil))
        #expect(shown == "bcdxy" && state.list.appended == 0)
        #expect(!state.hasMore)
    }

    @Test mutating func `a refresh of many pages is one request and keeps the other pages`() throws
    {
        try loadThree()
        let actions = join(.refresh)
        try #require(actions.start.count == 1)
        let completed = try complete(actions.start[0], page("xyab", next: "b2", version: 1))

        #expect(completed.start.isEmpty)
        #expect(shown == "xyabcdefghijkl")
        #expect(state.list.rows[2].version == 1)
        #expect(state.list.next == "l")
    }

    @Test mutating func `a refresh removes deleted rows and repositions moved ones`() throws {
        try loadThree()
        try load(.refresh, page("kbcd", next: "d2"))

        #expect(shown == "kbcdefghijl")
    }

    @Test mutating func `a refresh whose last row is new starts the list over`() throws {
        try load(.refresh, page("abcd", next: "d"))
        try load(.refresh, page("abce", next: "e"))

        #expect(shown == "abce")
        #expect(state.list.next == "e")
    }

    @Test mutating func `a shown row is searched for before the list starts over`() throws {
        try loadThree()
        _ = state.show("f")
        let completed = try complete(try request(.refresh), page("abcx", next: "x"))
        let second = try #require(completed.start.first)
        #expect(second.cursor == "x")
        _ = try complete(second, page("efghi", next: "i2"))

        #expect(shown == "abcxefghijkl")
    }

    @Test mutating func `a review continues until it meets the following rows`() throws {
        try loadThree()
        try load(.refresh, page("abcd", next: "d2"))
        let showing = state.show("f")
        let review = try #require(showing.start.first)
        let completed = try complete(review, page("efgx", next: "x"))
        let second = try #require(completed.start.first)
        #expect(second.cursor == "x")
        _ = try complete(second, page("ijk", next: "k2"))

        #expect(shown == "abcdefgxijkl")
    }

    @Test mutating func `a page that was loaded from another cursor is reviewed`() throws {
        state = ListState(pageSize: 1, pageLimit: 5)
        try load(.refresh, page("a", next: "a"))
        try load(.next, page("b", next: "b"))
        try load(.next, page("c", next: "c"))
        // An operation removes "c", and another device inserts "x" at its position.
        _ = state.replaceRows(state.list.arranged(page("ab", next: nil).items))
        try load(.refresh, page("a", next: "a"))
        try load(.next, page("d", next: nil))
        let first = try #require(state.show("b").start.first)
        _ = try complete(first, page("b", next: "b"))
        let second = try #require(state.show("d").start.first)
        #expect(second.cursor == "b")
        let third = try #require(try complete(second, page("x", next: "x")).start.first)
        _ = try complete(third, page("d", next: nil))

        #expect(shown == "abxd")
    }

    @Test mutating func `a refresh that reaches the end replaces the whole list`() throws {
        try loadThree()
        try load(.refresh, page("ab", next: nil))

        #expect(shown == "ab")
        #expect(!state.hasMore)
    }

    @Test mutating func `a refresh that does not connect starts the list over`() throws {
        try loadThree()
        try load(.refresh, page("wxyz", next: "z"))

        #expect(shown == "wxyz")
        #expect(state.list.next == "z")
    }

    @Test mutating func `the reader's row is searched for before the list starts over`() throws {
        try loadThree()
        state.setAnchor("f")
        let first = try request(.refresh)
        let completed = try complete(first, page("wxyz", next: "z"))
        let second = try #require(completed.start.first)
        #expect(shown == "abcdefghijkl")
        #expect(second.cursor == "z")
        #expect(second.limit == PageLimits.largestSize)
        let actions = try complete(second, page("uvab", next: "b"))

        #expect(actions.answer.count == 1)
        #expect(shown == "wxyzuvabcdefghijkl")
    }

    @Test mutating func `a search for the reader's row is limited`() throws {
        try loadThree()
        state.setAnchor("f")
        var request = try request(.refresh)
        var requests = 1
        while let next = state.complete(
            request.number,
            page(["1", "2", "3", "4", "5", "6"][requests], next: "\(requests)")
        )?.start.first {
            request = next
            requests += 1
        }
        #expect(requests == PageLimits.refreshRequests)
        #expect(shown == "23456")
    }

    /// Loads six pages and drops the first, which leaves efgh to uvwx.
    mutating func loadSix(next: String? = nil) throws {
        try loadThree()
        try load(.next, page("mnop", next: "p"))
        try load(.next, page("qrst", next: "t"))
        try load(.next, page("uvwx", next: next))
    }

    @Test mutating func `a refresh keeps the position of a reader further down`() throws {
        try loadSix()
        state.setAnchor("m")
        try load(.refresh, page("1234", next: "4"))
        #expect(shown == "efghijklmnopqrstuvwx")
        #expect(state.beginning.rows.map(\.id).joined() == "1234")
        let request = try request(.previous)
        let completed = try complete(request, page("1234", next: "4"))
        let second = try #require(completed.start.first)
        _ = try complete(second, page("abcd", next: "d2"))

        #expect(shown == "1234abcdefghijklmnop")
        #expect(!state.hasPrevious)
    }

    @Test mutating func `rows that were added above those further down are not skipped`() throws {
        try loadSix()
        let request = try request(.previous)
        let completed = try complete(request, page("abd1", next: "1"))
        let second = try #require(completed.start.first)
        #expect(second.cursor == "1")
        _ = try complete(second, page("23ef", next: "f2"))

        #expect(shown == "abd123efghijklmnop")
    }

    @Test mutating func `a row that moved up leaves the rows further down`() throws {
        try loadSix()
        state.setAnchor("m")
        try load(.refresh, page("1e34", next: "4"))

        #expect(shown == "fghijklmnopqrstuvwx")
        #expect(state.hasPrevious)
        let review = state.show("m")
        #expect(review.start.map(\.cursor) == ["l"])
    }

    @Test mutating func `a refresh without a reader's row goes to the top`() throws {
        try loadSix()
        try load(.refresh, page("123e", next: "e2"))

        #expect(shown == "123e")
        #expect(!state.hasPrevious)
    }

    @Test mutating func `a first page that reaches the rows further down joins them`() throws {
        try loadSix()
        state.setAnchor("m")
        try load(.refresh, page("1efg", next: "g2"))

        #expect(shown == "1efghijklmnopqrstuvwx".prefix(shown.count))
        #expect(shown.contains("m") && !state.hasPrevious)
    }

    @Test mutating func `beyond the limit, the rows farthest from the reader's row are dropped`()
        throws
    {
        try loadThree()
        try load(.next, page("mnop", next: "p"))
        try load(.next, page("qrst", next: "t"))
        state.setAnchor("s")
        let completed = try complete(try request(.refresh), page("1234", next: "4"))
        let second = try #require(completed.start.first)
        _ = try complete(second, page("abcd", next: "d2"))

        #expect(shown == "abcdefghijklmnopqrst")
        #expect(state.hasPrevious)
        #expect(state.beginning.rows.map(\.id).joined() == "1234abcd")
    }

    @Test mutating func `an observer applies only the changed rows`() throws {
        try loadThree()
        let three = state.span
        #expect(state.change(since: nil) == .all(state.list.rows))
        #expect(state.change(since: three) == .nothing)
        try load(.next, page("mnop", next: "p"))
        let appended = page("mnop", next: nil).items
        #expect(state.change(since: three) == .slid(dropped: 0, appended: appended))
        let four = state.span
        try load(.next, page("qrst", next: "t"))
        try load(.next, page("uvwx", next: nil))
        let both = page("qrstuvwx", next: nil).items
        #expect(state.change(since: four) == .slid(dropped: 4, appended: both))
        try load(.refresh, page("1234", next: "4"))

        #expect(state.change(since: four) == .all(state.list.rows))
    }

    @Test mutating func `an outdated page is requested again when one of its rows is shown`() throws
    {
        try loadThree()
        try load(.refresh, page("abcd", next: "d2"))
        let fresh = state.show("b")
        #expect(fresh.start.isEmpty)
        let showing = state.show("f")
        let request = try #require(showing.start.first)
        #expect(request.load == .review)
        #expect(request.cursor == "d2")
        let actions = state.complete(request.number, page("efxg", next: "g2", version: 1))

        #expect(actions?.start.isEmpty == true)
        #expect(shown == "abcdefxghijkl")
        #expect(state.list.rows[4].version == 1)
        #expect(state.list.next == "l")
    }

    @Test mutating func `a refresh cancels a review and goes first`() throws {
        try loadThree()
        try load(.refresh, page("abcd", next: "d2"))
        let showing = state.show("f")
        let review = try #require(showing.start.first)
        let actions = join(.refresh)

        #expect(actions.cancel == [review.number])
        #expect(actions.start.map(\.load) == [.refresh])
    }

    @Test mutating func `a retry requests the page that failed`() throws {
        try loadThree()
        let first = try request(.next)
        let failure = state.fail(first.number, .transport(.timedOut))
        #expect(failure?.answer.first?.error == .transport(.timedOut))
        #expect(state.tailError == .transport(.timedOut))
        #expect(shown == "abcdefghijkl")
        let second = try request(.next)

        #expect(second.cursor == "l")
        _ = state.complete(second.number, page("mnop", next: nil))
        #expect(state.tailError == nil)
        #expect(shown == "abcdefghijklmnop")
    }

    @Test mutating func `beyond the limit the far end is dropped and can be loaded again`() throws {
        try loadThree()
        try load(.next, page("mnop", next: "p"))
        try load(.next, page("qrst", next: "t"))
        try load(.next, page("uvwx", next: nil))
        #expect(shown == "efghijklmnopqrstuvwx")
        #expect(state.hasPrevious)
        let request = try request(.previous)
        #expect(request.cursor == nil)
        _ = state.complete(request.number, page("abcd", next: "d2"))

        #expect(shown == "abcdefghijklmnopqrst")
        #expect(!state.hasPrevious)
        #expect(state.hasMore)
        try load(.next, page("uvwx", next: nil))
        #expect(state.list.rows.last?.id == "x")
    }

    @Test mutating func `a row that appears again on the next page is kept in its new version`()
        throws
    {
        try load(.refresh, page("abcd", next: "d"))
        try load(.next, page("defg", next: nil, version: 1))

        #expect(shown == "abcdefg")
        #expect(state.list.rows[3].version == 1)
    }

    @Test mutating func `a page that arrives after the list starts over is not appended`() throws {
        try loadThree()
        let next = try request(.next)
        try load(.refresh, page("wxyz", next: "z"))
        let actions = try complete(next, page("mnop", next: nil))

        #expect(shown == "wxyz")
        #expect(actions.start.map(\.cursor) == ["z"])
    }

    @Test mutating func `a late page does not remove a row that has moved into a newer page`()
        throws
    {
        try loadThree()
        let next = try request(.next)
        try load(.refresh, page("nabc", next: "c2", version: 1))
        _ = try complete(next, page("mnop", next: nil))

        #expect(shown == "nabcdefghijklmop")
        #expect(state.list.rows[0].version == 1)
        #expect(!state.hasMore)
    }

    @Test mutating func `a refresh without new rows does not change the list`() throws {
        try loadThree()
        let before = state.list
        try load(.refresh, page("abcd", next: "d2"))

        #expect(state.list.round > before.round)
        #expect(state.list.looksSame(as: before))
    }

    @Test mutating func `the list knows which load failed at its beginning`() throws {
        try loadThree()
        for rows in ["mnop", "qrst", "uvwx"] {
            try load(.next, page(rows, next: String(rows.suffix(1))))
        }
        let previous = try request(.previous)
        _ = state.fail(previous.number, .transport(.timedOut))
        #expect(state.failedHeadLoad == .previous)
        try load(.previous, page("abcd", next: "d2"))

        #expect(state.failedHeadLoad == nil)
    }

    @Test mutating func `a list whose cursor does not advance ends`() throws {
        try load(.refresh, page("abcd", next: "d"))
        try load(.next, page("efgh", next: "d"))

        #expect(!state.hasMore)
    }

    @Test mutating func `empty pages are skipped, up to a limit`() throws {
        try load(.refresh, page("abcd", next: "0"))
        var request = try request(.next)
        var requests = 1
        while let next = state.complete(request.number, page("", next: "\(requests)"))?.start.first
        {
            request = next
            requests += 1
        }
        #expect(requests == PageLimits.emptyPages)
        #expect(state.isIdle)
        #expect(state.hasMore)
        #expect(state.tailError == .problem(.emptyPages))

        let again = try self.request(.next)
        #expect(again.cursor == "\(requests)")
        _ = try complete(again, page("ef", next: nil))
        #expect(shown == "abcdef" && !state.hasMore && state.tailError == nil)
    }

    @Test mutating func `empty pages at the beginning are skipped, up to a limit`() throws {
        var request = try request(.refresh)
        var requests = 1
        while let next = state.complete(request.number, page("", next: "\(requests)"))?.start.first
        {
            request = next
            requests += 1
        }
        #expect(requests == PageLimits.emptyPages)
        #expect(state.isIdle && state.isLoaded && state.hasMore)
        #expect(state.tailError == .problem(.emptyPages))
        try load(.next, page("ab", next: nil))
        #expect(shown == "ab" && state.tailError == nil)
    }

    @Test mutating func `a refresh that moves the end of the list clears the failure there`()
        throws
    {
        var request = try request(.refresh)
        var pages = 1
        while let next = state.complete(request.number, page("", next: "\(pages)"))?.start.first {
            request = next
            pages += 1
        }
        #expect(state.tailError == .problem(.emptyPages))
        try load(.refresh, page("ab", next: "b"))
        #expect(shown == "ab" && state.hasMore && state.tailError == nil)
    }

    @Test mutating func `a first row after empty pages is found`() throws {
        var request = try request(.refresh)
        for number in 1..<10 {
            let actions = try complete(request, page("", next: "\(number)"))
            request = try #require(actions.start.first)
        }
        _ = try complete(request, page("ab", next: "b"))
        #expect(shown == "ab" && state.hasMore && state.tailError == nil)
    }

    @Test mutating func `an empty cursor ends the list`() throws {
        try load(.refresh, page("abcd", next: "0"))
        _ = try complete(try request(.next), page("ef", next: ""))
        #expect(shown == "abcdef" && !state.hasMore)
        #expect(!ListPage<Row>(items: [], nextCursor: "").hasMore)
    }

    @Test mutating func `a change of user cancels every load and removes all rows`() throws {
        try loadThree()
        let next = try request(.next)
        let actions = state.reset(.userChanged)

        #expect(actions.cancel == [next.number])
        #expect(actions.answer.map(\.error) == [.userChanged])
        #expect(shown.isEmpty && !state.hasMore && !state.isLoaded)
        let late = state.complete(next.number, page("mnop", next: nil))
        #expect(late?.start == nil)
    }
}
