import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct RecordDurabilityTests {
    @Test func `a client that was not closed shows the same state when it is reopened`()
        async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 10)
        let first = try fixture.client()
        try await first.synchronize()
        fixture.connectivity.disconnect()
        try first.add("a")
        try first.add("b")
        // Not closed, as after a kill.
        let second = try fixture.client(seed: 2)
        #expect(second.count("a") == 11 && second.count("b") == 1)
        #expect(second.outbox.pending.map(\.id) == first.outbox.pending.map(\.id))
        first.close()
    }

    @Test func `a full disk loses no record`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        for number in 0..<50 { fixture.authority.set("c\(number)", to: Int64(number)) }
        let client = try fixture.client { $0.recordPolling = nil }
        try client.add("c7")
        try await client.synchronize()
        let file = try #require(client.users.current.outbox.read { $0.records })
        // SQLite fails as it does when the disk is full.
        let writer = try file.openConnections.writer
        try await writer.writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA max_page_count = 1")
        }
        for number in 50..<600 { fixture.authority.set("c\(number)", to: Int64(number)) }
        try await client.synchronize()
        #expect(!file.isOnDisk)
        #expect(client.records(Counter.self).count == 600)
        #expect(client.count("c7") == 8 && client.count("c599") == 599)
        #expect(client.storeReport.failure?.contains("full") == true)
    }

    @Test func `an operation in flight at a kill is resent under its id`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        let first = try fixture.client()
        try await first.synchronize()
        fixture.network.hold()
        let receipt = try first.add("a")
        try await fixture.network.waitForHeld(1)
        first.close()
        fixture.network.release()
        let second = try fixture.client(seed: 2)
        #expect(second.count("a") == 1)
        try await second.synchronize()
        #expect(fixture.authority.done == [receipt.id])
        #expect(second.count("a") == 1 && second.outbox.pending.isEmpty)
    }

    @Test func `a crash between writing the base and the outbox shows nothing twice`() async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        let first = try fixture.client()
        try first.add("a")
        try await first.synchronize()
        let position = first.users.current.outbox.read { $0.state.position }
        first.close()
        // As if the process had died before the outbox was notified of the feed.
        let outbox = OutboxFile(try fixture.place)
        let data = try JSONEncoder().encode(Count(id: .of("a")))
        let id = Identifier(at: fixture.wall.now())
        let row = OutboxFile.Row(id: id, lane: "main", name: Count.name, arguments: data)
        let sequence = try outbox.insert(row, at: fixture.wall.now())
        try outbox.write([.acknowledged(sequence, head: position, epoch: nil)])
        outbox.close()
        let second = try fixture.client(seed: 2)
        #expect(second.count("a") == 1 && second.outbox.pending.isEmpty)
    }

    @Test func `damaged records are restored from the server and reported`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 10)
        let first = try fixture.client()
        try await first.synchronize()
        first.close()
        let file = try #require(fixture.folder).user.appending(path: RecordsFile.name)
        try Data("no database at all, but of some length".utf8).write(to: file)
        let second = try fixture.client(seed: 2)
        #expect(second.count("a") == nil)
        #expect(second.storeReport.failure?.contains("restored from the server") == true)
        try await second.synchronize()
        #expect(second.count("a") == 10)
    }

    @Test func `an outbox that cannot be opened accepts nothing and is left unchanged`() throws {
        let fixture = RecordsFixture(onDisk: true)
        let folder = try #require(fixture.folder).user
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let file = folder.appending(path: OutboxFile.name)
        let content = Data("no database at all, but of some length".utf8)
        try content.write(to: file)
        let client = try fixture.client()
        let error = #expect(throws: SanguineError.self) { try client.add("a") }
        #expect(error?.code == "store")
        client.close()
        #expect(try Data(contentsOf: file) == content)
    }

    @Test func `an operation of an unknown type is sent but not shown`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let first = try fixture.client()
        try first.add("a")
        first.close()
        let older = try fixture.client(seed: 2) { $0.schema = .standard }
        #expect(older.outbox.pending.first?.conflict?.code == .mutatorUnknown)
        fixture.connectivity.connect()
        try await older.synchronize()
        #expect(fixture.authority.count("a") == 1)
    }

    @Test func `records are found by an index that the app declares later`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        let first = try fixture.client {
            $0.schema = RecordSchema(
                collections: [RecordCollection("counters")],
                mutations: [Count.self]
            )
        }
        try first.perform(Count(id: .of("a"), group: "x"))
        try await first.synchronize()
        first.close()
        let second = try fixture.client(seed: 2)
        #expect(second.records(where: Counter.byGroup, is: "x").map(\.id) == [.of("a")])
    }
}
