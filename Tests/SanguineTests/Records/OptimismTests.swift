import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// The state that the user sees while the network delays and fails.
@Suite(.bounded) struct OptimismTests {
    @Test func `a pull that already contains the operation shows it once`() async throws {
        let fixture = RecordsFixture()
        fixture.network.hold()
        let client = try fixture.client()
        try client.add("a")
        // The push is applied and its answer held, and so is the first pull's.
        try await fixture.network.waitForHeld(2)
        try await eventually("the push is applied") { fixture.authority.count("a") == 1 }
        client.users.current.feed.pull()
        try await fixture.network.releaseFirst { $0.isPull }
        try await fixture.network.waitForRequests(3)
        #expect(client.count("a") == 1)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("a") == 1 && client.outbox.pending.isEmpty)
    }

    @Test func `an answer that must be skipped is requested again`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        fixture.network.hold()
        let receipt = try client.add("a")
        try await fixture.network.waitForHeld(1)
        let records = client.users.current.records
        let (place, number) = records.outbox.read {
            ($0.state.position, $0.state.outbox.unresolved.first)
        }
        let sequence = try #require(number)
        // The answer that was not asked about the operation is held; the other says it was applied.
        var answer = PullAnswer(changes: [], next: place + 5, head: place + 5, hasMore: false)
        #expect(records.receive(.init(answer, since: place)) == .echo)
        answer.operations = [PushResult(id: receipt.id, status: .applied, head: place + 1)]
        #expect(records.receive(.init(answer, since: place, asked: [sequence])) == .more)
        client.close()
    }

    @Test func `an acknowledged operation is visible until the feed contains it`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        fixture.network.hold()
        let receipt = try client.add("a")
        try await fixture.network.releaseFirst { $0.isPush }
        _ = try await receipt.outcome
        #expect(client.count("a") == 1)
        #expect(client.outbox.pending.map(\.phase) == [.acknowledged])
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("a") == 1 && client.outbox.pending.isEmpty)
    }

    @Test func `remote changes show while operations are pending`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        fixture.authority.set("a", to: 10)
        try await client.synchronize()
        fixture.network.script(.fail(.offline("away")))
        try client.add("a")
        try await eventually("nothing is being sent") { !client.users.current.outbox.isSending }
        fixture.authority.set("a", to: 20)
        fixture.authority.set("b", to: 7)
        try await client.users.current.feed.pull()?.value()
        #expect(client.count("a") == 21 && client.count("b") == 7)
    }

    @Test func `after a lost answer the same operation is resent under its id`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        fixture.network.script(.fail(.interrupted("lost")))
        let receipt = try client.add("a")
        try await fixture.delay.waitForSleepers(2)  // The poll and the wait before the next push.
        fixture.delay.advance(by: .seconds(2))
        #expect(try await receipt.outcome == .applied)
        let ids = fixture.pushes.map { $0.operations.map(\.id) }
        #expect(ids == [[receipt.id], [receipt.id]])
        #expect(fixture.authority.done == [receipt.id] && fixture.authority.count("a") == 1)
    }

    @Test func `operations of a restored outbox are sent in the order they were performed`()
        async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let first = try fixture.client()
        var ids: [Identifier] = []
        for _ in 0..<5 {
            ids.append(try first.add("a").id)
            fixture.wall.advance(by: .seconds(-3_600))  // The clock does not matter.
        }
        first.close()
        fixture.connectivity.connect()
        let second = try fixture.client(seed: 2)
        try await second.synchronize()
        #expect(fixture.authority.done == ids)
    }

    @Test func `an operation that the server cannot read is refused and blocks nothing`()
        async throws
    {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let poison = try client.add("a")
        let good = try client.add("b")
        fixture.authority.poison([poison.id])
        fixture.connectivity.connect()
        #expect(try await good.outcome == .applied)
        #expect(try await poison.outcome != .applied)
        #expect(client.outbox.refused.map(\.id) == [poison.id])
        #expect(client.count("a") == nil && client.count("b") == 1)
    }

    @Test func `an operation can refer to a record whose creation is queued`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.perform(Count(id: .of("mine"), by: 3, line: "one"))
        let copy = try client.perform(CopyCounter(from: .of("mine"), to: .of("copy")))
        fixture.connectivity.connect()
        #expect(try await copy.outcome == .applied)
        try await client.synchronize()
        #expect(client.records(Counter.self).map(\.id) == [.of("copy"), .of("mine")])
        #expect(client.count("copy") == 3 && fixture.authority.count("copy") == 3)
    }

    @Test func `two devices that reconnect show the same records`() async throws {
        let fixture = RecordsFixture()
        let (one, two) = (try fixture.client(), try fixture.client(seed: 2))
        fixture.connectivity.disconnect()
        for _ in 0..<10 {
            try one.add("a")
            try two.add("a")
        }
        fixture.connectivity.connect()
        try await one.synchronize()
        try await two.synchronize()
        try await one.synchronize()
        #expect(one.count("a") == 20 && two.count("a") == 20)
    }
}
