import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Records that this version of the app cannot read: they are kept, counted and reported.
@Suite("Unreadable records", .bounded)
struct UnreadableRecordsTests {
    private func fixture() -> RecordsFixture {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 1)
        fixture.authority.put(RecordValue(["count": .string("one")]), for: .counter("b"))
        fixture.authority.put(RecordValue(["number": .integer(1)]), for: .counter("c"))
        return fixture
    }

    @Test func `unreadable records are counted`() async throws {
        let fixture = fixture()
        let client = try fixture.client()
        try await client.synchronize()
        #expect(client.records(Counter.self).map(\.id) == [.of("a")])
        #expect(client.storeReport.unreadableRecords == 2)
        #expect(client.record(Counter.self, .of("c")) == nil)
        #expect(client.storeReport.unreadableRecords == 2)
    }

    @Test func `the log reports once which member is wrong, without its value`() async throws {
        let fixture = fixture()
        let log = RecordedLog()
        let client = try fixture.client { $0.logger = log.logger }
        try await client.synchronize()
        for _ in 1...3 { _ = client.records(Counter.self) }
        let said = log.messages.filter { $0.contains("could not be decoded") }
        #expect(said.count == 1)
    }

    @Test func `unreadable records are kept for a version that can read them`() async throws {
        let fixture = fixture()
        let client = try fixture.client()
        try await client.synchronize()
        _ = client.records(Counter.self)
        client.close()
        let file = try RecordsFile(folder: fixture.folder?.user, schema: .counters)
        defer { file.close() }
        #expect(try RecordsFile.Base(file: file, space: 1).all(in: "counters").count == 3)
    }

    @Test func `a record that becomes readable is no longer counted`() async throws {
        let fixture = fixture()
        let client = try fixture.client()
        try await client.synchronize()
        _ = client.records(Counter.self)
        fixture.authority.set("b", to: 2)
        try await client.synchronize()
        #expect(client.records(Counter.self).map(\.id) == [.of("a"), .of("b")])
        #expect(client.storeReport.unreadableRecords == 1)
    }

    @Test func `unreadable records of one user are not counted for the next`() async throws {
        let fixture = fixture()
        let client = try fixture.client()
        try await client.synchronize()
        _ = client.records(Counter.self)
        fixture.authorizer.change(to: nil, in: client)
        #expect(client.storeReport.unreadableRecords == 0)
    }

    @Test func `queries and models count unreadable records`() async throws {
        let fixture = fixture()
        let client = try fixture.client()
        try await client.synchronize()
        let model = await client.model(.all(Counter.self))
        #expect(await model.value.count == 1)  // tidy: allow unbounded-wait: no task.
        #expect(client.storeReport.unreadableRecords == 2)
    }
}
