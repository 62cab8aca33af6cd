import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@MainActor
@Suite("A pager of records", .bounded) struct RecordPagerTests {
    private let most = RecordLimits.pagerPages

    /// A client with the counters `c1000` to `c1299`.
    private func filled() async throws -> (RecordsFixture, SanguineClient) {
        let fixture = RecordsFixture(onDisk: true)
        for number in 1_000..<1_300 { fixture.authority.set("c\(number)", to: Int64(number)) }
        let client = try fixture.client()
        try await client.synchronize()
        return (fixture, client)
    }

    @Test func `a pager begins with the newest page`() async throws {
        let (_, client) = try await filled()
        let pager = client.pager(of: Counter.self, size: 20)
        #expect(pager.items.map(\.count) == (1_280..<1_300).reversed())
        #expect(pager.hasEarlier && !pager.hasLater && pager.isComplete)
    }

    @Test func `a pager reaches every record and holds a limited number of pages`() async throws {
        let (_, client) = try await filled()
        let pager = client.pager(of: Counter.self, size: 20)
        var seen = Set(pager.items.map(\.count))
        while pager.hasEarlier {
            let last = try #require(pager.items.last)
            pager.itemAppeared(last.id)
            #expect(pager.items.count <= most * 20 && pager.items.contains(last))
            seen.formUnion(pager.items.map(\.count))
        }
        #expect(seen == Set(1_000..<1_300) && pager.hasLater)
        while pager.hasLater {
            let first = try #require(pager.items.first)
            pager.itemAppeared(first.id)
            #expect(pager.items.count <= most * 20 && pager.items.contains(first))
        }
        #expect(pager.items.first?.count == 1_299)
        pager.showNewest()
        #expect(pager.items.count == 20)
    }

    @Test func `a short collection is one page`() async throws {
        let fixture = RecordsFixture()
        for number in 0..<3 { fixture.authority.set("c\(number)", to: 1) }
        let client = try fixture.client()
        try await client.synchronize()
        let pager = client.pager(of: Counter.self, size: 3)
        #expect(pager.items.count == 3 && !pager.hasEarlier)
        pager.loadEarlier()
        pager.loadLater()
        #expect(pager.items.count == 3)
    }

    @Test func `a pager follows the user's changes`() async throws {
        let (_, client) = try await filled()
        let pager = client.pager(of: Counter.self, size: 20)
        pager.loadEarlier()
        try client.add("c1290", by: 1)
        #expect(pager.items.first { $0.id == .of("c1290") }?.count == 1_291)
        try client.perform(DeleteRecord(RecordKey(Counter.collection.name, .of("c1299"))))
        #expect(pager.items.first?.count == 1_298 && pager.items.count == 40)
    }
}
