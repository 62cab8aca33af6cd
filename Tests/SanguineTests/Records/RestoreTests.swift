import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded(.seconds(300))) struct RestoreTests {
    private func filled(_ count: Int, onDisk: Bool = true) -> RecordsFixture {
        let fixture = RecordsFixture(onDisk: onDisk)
        for number in 0..<count { fixture.authority.set("c\(number)", to: Int64(number)) }
        return fixture
    }

    /// Returns when each range of a restore is waiting for its first page.
    private func begin(_ client: SanguineClient, _ fixture: RecordsFixture) async throws {
        fixture.network.hold()
        _ = client.count("c1")
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst()
        try await fixture.network.waitForHeld(4)
    }

    @Test func `a long feed is restored in concurrent ranges`() async throws {
        let fixture = filled(9_000)
        let client = try fixture.client()
        try await begin(client, fixture)
        #expect(fixture.network.mostInFlight == 4)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.records(Counter.self).count == 9_000 && client.restored == 1)
    }

    @Test func `a long feed is restored in memory too`() async throws {
        let fixture = filled(4_500, onDisk: false)
        let client = try fixture.client()
        try await client.synchronize()
        #expect(client.records(Counter.self).count == 4_500)
    }

    @Test func `progress increases to 1`() async throws {
        let fixture = filled(5_000)
        let client = try fixture.client()
        fixture.network.hold()
        _ = client.count("c1")
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst()
        try await fixture.network.waitForHeld(2)
        let begun = client.restored
        #expect(begun > 0 && begun < 1 && client.count("c1") == nil)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.restored == 1 && client.count("c1") == 1)
    }

    @Test func `a restore continues after a crash`() async throws {
        let fixture = filled(9_000)
        let first = try fixture.client()
        fixture.network.hold()
        _ = first.count("c1")
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst()
        try await fixture.network.waitForHeld(4)
        for _ in 0..<4 { try await fixture.network.releaseFirst() }
        try await fixture.network.waitForRequests(9)
        first.close()
        fixture.network.release()
        let before = fixture.pulls.count
        let second = try fixture.client(seed: 2)
        try await second.synchronize()
        #expect(second.records(Counter.self).count == 9_000)
        // Four of nine pages and some after the head; starting over would take ten or more.
        #expect(fixture.pulls.count - before < 10)
    }

    @Test func `a crash during a restore loses no record and keeps no deleted one`() async throws {
        let fixture = filled(9_000)
        let first = try fixture.client()
        fixture.network.hold()
        _ = first.count("c1")
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst()
        try await fixture.network.waitForHeld(4)
        for _ in 0..<4 { try await fixture.network.releaseFirst() }
        try await fixture.network.waitForRequests(9)
        first.close()
        fixture.network.release()
        // Changes restored and unrestored records while no client runs.
        for number in stride(from: 0, to: 9_000, by: 7) {
            fixture.authority.delete(Counter.self, .of("c\(number)"))
        }
        for number in stride(from: 1, to: 9_000, by: 7) {
            fixture.authority.set("c\(number)", to: -Int64(number))
        }
        fixture.authority.set("new", to: 5)
        let second = try fixture.client(seed: 2)
        try await second.synchronize()
        var expected: [String: Int64] = ["new": 5]
        for number in 0..<9_000 where number % 7 != 0 {
            expected["c\(number)"] = number % 7 == 1 ? -Int64(number) : Int64(number)
        }
        let records = second.records(Counter.self).map { ($0.id.text, $0.count) }
        #expect(Dictionary(records) { $1 } == expected && records.count == expected.count)
        second.close()
        let third = try fixture.client(seed: 3)
        #expect(third.records(Counter.self).count == expected.count)
    }

    @Test func `a restore whose first page could not be written loses none of it`() async throws {
        let fixture = filled(1_500)
        let client = try fixture.client { $0.recordPolling = nil }
        fixture.network.hold()
        _ = client.count("c1")
        try await fixture.network.waitForHeld(1)
        let file = try #require(client.users.current.outbox.read { $0.records })
        let writer = try file.openConnections.writer
        try await writer.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    CREATE TEMP TRIGGER t BEFORE INSERT ON record
                    BEGIN SELECT RAISE(ABORT, 'no'); END
                    """
            )
        }
        fixture.network.release()
        let refusal = await #expect(throws: SanguineError.self) { try await client.synchronize() }
        #expect(refusal?.code == "store")
        try await client.synchronize()
        #expect(client.records(Counter.self).count == 1_500)
    }

    @Test func `changes during a restore match the server's state afterwards`() async throws {
        let fixture = filled(5_000)
        let client = try fixture.client()
        fixture.network.hold()
        _ = client.count("c1")
        try await fixture.network.waitForHeld(1)
        fixture.authority.set("c1", to: -1)
        fixture.authority.delete(Counter.self, .of("c2"))
        fixture.authority.set("new", to: 5)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("c1") == -1 && client.count("c2") == nil && client.count("new") == 5)
        #expect(client.records(Counter.self).count == 5_000)
    }

    @Test func `a reset shows the previous records until it ends and removes deleted ones`()
        async throws
    {
        let fixture = filled(3)
        let client = try fixture.client()
        try await client.synchronize()
        fixture.authority.delete(Counter.self, .of("c1"))
        fixture.authority.set("c2", to: 50)
        fixture.authority.forgetDeletions()
        fixture.network.hold()
        client.users.current.feed.pull()
        try await fixture.network.waitForHeld(1)
        #expect(client.records(Counter.self).map(\.count) == [0, 1, 2])
        fixture.network.release()
        try await client.synchronize()
        #expect(client.records(Counter.self).map(\.count) == [0, 50])
    }

    @Test func `operations are accepted and shown while a feed is restored`() async throws {
        let fixture = filled(5_000)
        let client = try fixture.client()
        fixture.network.hold()
        let receipt = try client.add("c7", by: 1)
        try await fixture.network.waitForHeld(1)
        #expect(client.count("c7") == 1)
        fixture.network.release()
        #expect(try await receipt.outcome == .applied)
        try await client.synchronize()
        #expect(client.count("c7") == 8 && client.outbox.pending.isEmpty)
    }

    @Test func `a restore that the server can no longer complete starts over`() async throws {
        let fixture = filled(9_000)
        let client = try fixture.client()
        try await begin(client, fixture)
        fixture.authority.delete(Counter.self, .of("c8999"))
        fixture.authority.forgetDeletions()
        fixture.network.release()
        try await client.synchronize()
        #expect(client.records(Counter.self).count == 8_999 && client.count("c8999") == nil)
    }

    @Test func `a restore that is dropped while its base is held hides no applied operation`()
        async throws
    {
        let fixture = filled(1_500)
        let client = try fixture.client()
        fixture.network.hold()
        let first = try client.add("c7", by: 1)
        try await fixture.network.waitForHeld(2)
        try await fixture.network.releaseFirst { $0.isWrite }
        #expect(try await first.outcome == .applied)
        // Two pages; the third request fetches the changes made since.
        for requests in 3...4 {
            try await fixture.network.releaseFirst { !$0.isWrite }
            try await fixture.network.waitForRequests(requests)
        }
        // Sent after that request, so the restored base may or may not contain it.
        let second = try client.add("c8", by: 1)
        try await fixture.network.waitForRequests(5)
        fixture.authority.delete(Counter.self, .of("c1499"))
        fixture.authority.forgetDeletions()
        try await fixture.network.releaseFirst { !$0.isWrite }
        try await fixture.network.waitForRequests(6)
        try await fixture.network.releaseFirst { !$0.isWrite }
        try await fixture.network.waitForRequests(7)
        try await fixture.network.releaseFirst { $0.isWrite }
        #expect(try await second.outcome == .applied)
        // Shown alone, or over the restored record.
        let shown = client.count("c7")
        #expect(shown == 1 || shown == 8)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("c7") == 8 && client.count("c8") == 9)
        #expect(client.count("c1499") == nil && client.outbox.pending.isEmpty)
    }

    @Test func `a restore begins once the account is known`() async throws {
        let fixture = filled(5_000)
        let account = Identifier(at: fixture.wall.now())
        let nobody = TestAuthorizer(account: nil)
        let client = try fixture.client(authorizer: nobody)
        await #expect(throws: SanguineError.userChanged) { try await client.synchronize() }
        #expect(fixture.pulls.isEmpty)
        fixture.network.hold()
        nobody.join(account, in: client)
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst()
        try await fixture.network.waitForHeld(2)
        client.close()
        let file = try RecordsFile(folder: fixture.folder?.user, schema: .counters)
        #expect(try file.restore()?.ranges.isEmpty == false)
        file.close()
    }

    @Test func `no restore is reported when the rest fits on one page`() async throws {
        let fixture = filled(9_000)
        let client = try fixture.client()
        try await begin(client, fixture)
        for number in 100..<9_000 { fixture.authority.delete(Counter.self, .of("c\(number)")) }
        fixture.authority.forgetDeletions()
        fixture.network.release()
        try await client.synchronize()
        #expect(client.records(Counter.self).count == 100 && client.restored == 1)
    }
}
