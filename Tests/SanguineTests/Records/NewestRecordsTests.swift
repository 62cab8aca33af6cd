import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct NewestRecordsTests {
    private func newest(_ count: Int, before end: String? = nil) -> RecordQuery<[Counter]> {
        .newest(count, Counter.self, before: end.map { .of($0) })
    }

    @Test func `pages from the newest to the oldest contain each record once`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        for number in 100..<180 { fixture.authority.set("c\(number)", to: Int64(number)) }
        let client = try fixture.client()
        try await client.synchronize()
        var (counts, end): ([Int64], String?) = ([], nil)
        while case let page = client.cached(newest(30, before: end)), let last = page.last {
            #expect(page.count <= 30)
            counts += page.map(\.count)
            end = last.id.text
        }
        #expect(counts == (100..<180).reversed())
    }

    @Test func `a page reads only its own records`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        for number in 1_000..<3_000 { fixture.authority.set("c\(number)", to: Int64(number)) }
        let client = try fixture.client()
        try await client.synchronize()
        let file = try #require(client.users.current.outbox.read { $0.records })
        file.cache.clear()
        #expect(client.cached(newest(50)).count == 50)
        #expect(file.cache.count == 50)
    }

    @Test(arguments: 1...50)
    func `a page contains the user's own changes`(_ seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let fixture = RecordsFixture()
        for number in 100..<130 { fixture.authority.set("c\(number)", to: 1) }
        let client = try fixture.client()
        try await client.synchronize()
        fixture.connectivity.disconnect()
        for _ in 0..<12 {
            let id = "c\(Int.random(in: 95..<135, using: &random))"
            if Bool.random(using: &random) {
                try client.add(id)
            } else if client.count(id) != nil {
                try client.perform(DeleteRecord(RecordKey(Counter.collection.name, .of(id))))
            }
        }
        let all = Array(client.records(Counter.self).reversed())
        let count = Int.random(in: 1...40, using: &random)
        #expect(client.cached(newest(count)) == Array(all.prefix(count)), "Seed \(seed)")
        let end = "c\(Int.random(in: 95..<135, using: &random))"
        let earlier = all.filter { $0.id < .of(end) }.prefix(count)
        #expect(client.cached(newest(count, before: end)) == Array(earlier), "Seed \(seed)")
    }
}
