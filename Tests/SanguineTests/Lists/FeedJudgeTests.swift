import SanguineModel
import TestSupport
import Testing

/// Tests each rule of the strict model on a list that violates it.
@Suite("Feed judge", .bounded(.seconds(120)))
struct FeedJudgeTests {
    private typealias View = FeedJudge.View
    private typealias AppliedPage = FeedJudge.AppliedPage

    /// Ten rows, 10 to 1.
    private var feed = SimulatedFeed(count: 10)
    private var judge = FeedJudge()

    private mutating func load(
        _ limit: Int,
        after cursor: String? = nil
    ) throws -> (rows: [FeedRow], next: String?, applied: AppliedPage) {
        let asked = feed.version
        let answer = feed.page(after: cursor, limit: limit)
        let page = try #require(answer)
        let applied = AppliedPage(answer: feed.answers.count - 1, asked: asked)
        return (page.items, page.nextCursor, applied)
    }

    private mutating func fault(
        _ rows: [FeedRow],
        hasMore: Bool = true,
        _ appliedPages: [AppliedPage] = []
    ) -> String? {
        let view = View(rows: rows, hasMore: hasMore, hasPrevious: false)
        return judge.fault(in: view, of: feed, after: appliedPages)
    }

    @Test mutating func `two consecutive pages are not a fault`() throws {
        let first = try load(4)
        #expect(fault(first.rows, [first.applied]) == nil)
        let second = try load(4, after: first.next)

        #expect(fault(first.rows + second.rows, [second.applied]) == nil)
    }

    @Test mutating func `a row that is shown twice is a fault`() throws {
        let first = try load(4)

        let found = fault(first.rows + first.rows.suffix(1), [first.applied])
        #expect(found == "row 7 is shown twice")
    }

    @Test mutating func `a row in the wrong place is a fault`() throws {
        let first = try load(4)

        #expect(fault(first.rows.reversed(), [first.applied])?.contains("follows") == true)
    }

    @Test mutating func `a deleted row after a page that covers its position is a fault`() throws {
        let first = try load(4)
        feed.delete(id: 7)
        let fresh = try load(4)

        #expect(fault(fresh.rows + first.rows.suffix(1), [fresh.applied]) == "row 7 follows 6")
        let found = fault(first.rows, [fresh.applied])
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

        #expect(fault(fresh.rows + first.rows.suffix(1), [fresh.applied]) == nil)
        #expect(judge.excused > 0)
    }

    @Test mutating func `a missing row that one page contained between two shown rows is a fault`()
        throws
    {
        let first = try load(4)
        let rows = first.rows.filter { $0.id != 8 }

        #expect(fault(rows, [first.applied]) == "row 8 is missing")
    }

    @Test mutating func `a row that was inserted after the answer is not missing`() throws {
        let first = try load(4)
        feed.insert(onTop: false, jump: 0, at: 1)

        #expect(fault(first.rows, [first.applied]) == nil)
    }

    @Test mutating func `a reported end is a fault unless an answer has reached it`() throws {
        let first = try load(4)
        #expect(fault(first.rows, hasMore: false, [first.applied]) == "no page has reached the end")
        let rest = try load(10, after: first.next)

        #expect(fault(first.rows + rest.rows, hasMore: false, [rest.applied]) == nil)
    }

    @Test mutating func `a row that disappears from between others without moving is a fault`()
        throws
    {
        let first = try load(2)
        let second = try load(2, after: first.next)
        let third = try load(2, after: second.next)
        let appliedPages = [first.applied, second.applied, third.applied]
        #expect(fault(first.rows + second.rows + third.rows, appliedPages) == nil)

        #expect(fault(first.rows + third.rows) == "row 8 has vanished")
    }
}
