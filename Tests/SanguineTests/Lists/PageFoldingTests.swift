import Testing

@testable import Sanguine

/// Applies an operation's effect to the pages of a list.
@Suite("Merging effects into pages")
struct PageFoldingTests {
    struct Row: Codable, Sendable, Equatable, Identifiable {
        var id: Int
    }

    private let list = PageList(
        rows: [1, 2, 3, 4].map { Row(id: $0) },
        runs: [
            PageRun(start: nil, count: 2, round: 1), PageRun(start: "2", count: 2, round: 0),
        ],
        next: "4",
        round: 1
    )

    private func folded(_ ids: [Int]) -> PageList<Row> {
        list.merging(7, rows: ids.map { Row(id: $0) })
    }

    @Test func `a removed row is missing from its page`() {
        let folded = folded([1, 3, 4])
        #expect(folded.runs.map(\.count) == [1, 2])
        #expect(folded.isValid && folded.folded == [7])
    }

    @Test func `an inserted row belongs to the page of the row before it`() {
        #expect(folded([1, 2, 9, 3, 4]).runs.map(\.count) == [3, 2])
        #expect(folded([1, 2, 3, 4, 9]).runs.map(\.count) == [2, 3])
        #expect(folded([9, 1, 2, 3, 4]).runs.map(\.count) == [3, 2])
    }

    @Test func `appended rows are counted, also after the list is read from disk`() throws {
        let folded = folded([1, 2, 3, 4, 8, 9])
        #expect(folded.appended == 2)
        let stored = try StoredCoding.encode(folded)
        let read = try StoredCoding.decode(PageList<Row>.self, from: stored)
        #expect(read.appended == 2)
        #expect(read.merging(8, rows: [1, 2, 9, 3, 4].map { Row(id: $0) }).appended == 0)
    }

    @Test func `a page without rows passes its start to the next page`() {
        let folded = folded([3, 4])
        #expect(folded.runs == [PageRun(start: nil, count: 2, round: 0)])
        #expect(folded.isValid)
    }

    @Test func `an emptied list keeps its next cursor`() {
        let folded = folded([])
        #expect(folded.runs.isEmpty && folded.next == "4" && folded.isValid)
    }

    @Test func `a first row gets a page`() {
        let folded = PageList<Row>().merging(1, rows: [Row(id: 1)])
        #expect(folded.isValid && folded.rows.count == 1)
    }

    @Test func `a duplicate row is kept once`() {
        let folded = folded([1, 2, 3, 4, 1])
        #expect(folded.isValid && folded.rows.map(\.id) == [1, 2, 3, 4])
    }
}
