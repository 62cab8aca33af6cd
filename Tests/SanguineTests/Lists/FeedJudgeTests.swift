import SanguineModel
import TestSupport
import Testing

/// Tests each rule of the strict model on a list that violates it.
@Suite("Feed judge", .bounded(.seconds(120)))
struct FeedJudgeTests {
    private typealias View = FeedJudge.View
    private typealias Landing = FeedJudge.Landing

    /// Ten rows, 10 to 1.
    private var feed = SimulatedFeed(count: 10)
    private var judge = FeedJudge()

    private mutating func load(
        _ limit: Int,
        after cursor: String? = nil
    ) throws -> (rows: [FeedRow], next: String?, landing: Landing) {
        let asked = feed.version
        let answer = feed.page(after: cursor, limit: limit)
        let page = try #require(answer)
        return (page.items, page.nextCursor, Landing(answer: feed.answers.count - 1, asked: asked))
    }

    private mutating func fault(
        _ rows: [FeedRow],
        hasMore: Bool = true,
        _ landings: [Landing] = []
    ) -> String? {
        let view = View(rows: rows, hasMore: hasMore, hasPrevious: false)
        return judge.fault(in: view, of: feed, after: landings)
    }

    @Test mutating func `two consecutive pages are not a fault`() throws {
        let first = try load(4)
        #expect(fault(first.rows, [first.landing]) == nil)
        let second = try load(4, after: first.next)

        #expect(fault(first.rows + second.rows, [second.landing]) == nil)
    }

    @Test mutating func `a row that is shown twice is a fault`() throws {
        let first = try load(4)

        let found = fault(first.rows + first.rows.suffix(1), [first.landing])
        #expect(found == "row 7 is shown twice")
    }

    @Test mutating func `a row in the wrong place is a fault`() throws {
        let first = try load(4)

        #expect(fault(first.rows.reversed(), [first.landing])?.contains("follows") == true)
    }

    @Test mutating func `a deleted row after a page that covers its position is a fault`() throws {
        let first = try load(4)
        feed.delete(id: 7)
        let fresh = try load(4)

        #expect(fault(fresh.rows + first.rows.suffix(1), [fresh.landing]) == "row 7 follows 6")
        let found = fault(first.rows, [fresh.landing])
        #expect(found?.contains("row 7 was deleted") == true)
    }

    @Test mutating func `a deleted row that the page's last row has passed is not a fault`() throws
    {
        let first = try load(4)
        feed.delete(id: 7)
        // Below the position of row 7 and above row 6.
        feed.move(2, to: 3)
        let fresh = try load(3)
        #expect(fresh.rows.map(\.id) == [10, 9, 8])

        #expect(fault(fresh.rows + first.rows.suffix(1), [fresh.landing]) == nil)
        #expect(judge.excused > 0)
    }

    @Test mutating func `a missing row that one page contained between two shown rows is a fault`()
        throws
    {
        let first = try load(4)
        let rows = first.rows.filter { $0.id != 8 }

        #expect(fault(rows, [first.landing]) == "row 8 is missing")
    }

    @Test mutating func `a row that was inserted after the answer is not missing`() throws {
        let first = try load(4)
        feed.insert(onTop: false, jump: 0, at: 1)

        #expect(fault(first.rows, [first.landing]) == nil)
    }

    @Test mutating func `a reported end is a fault unless an answer has reached it`() throws {
        let first = try load(4)
        #expect(fault(first.rows, hasMore: false, [first.landing]) == "no page has reached the end")
        let rest = try load(10, after: first.next)

        #expect(fault(first.rows + rest.rows, hasMore: false, [rest.landing]) == nil)
    }

    @Test mutating func `a row that disappears from between others without moving is a fault`()
        throws
    {
        let first = try load(2)
        let second = try load(2, after: first.next)
        let third = try load(2, after: second.next)
        let landings = [first.landing, second.landing, third.landing]
        #expect(fault(first.rows + second.rows + third.rows, landings) == nil)

        #expect(fault(first.rows + third.rows) == "row 8 has vanished")
    }
}
