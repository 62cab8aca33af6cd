import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Stores a note, in a different lane than counting.
private struct PutAside: RecordMutation {
    static let name = "note.aside"
    let note: RecordID
    var lane: String { "aside" }

    func apply(to records: inout Records) {
        records.put(RecordValue(["text": "aside"]), for: RecordKey("notes", note))
    }
}

/// An app that is temporarily newer than the server.
@Suite("Waiting for a deployment", .bounded)
struct DeploymentTests {
    private static let schema = RecordSchema(
        collections: [Counter.collection, RecordCollection("notes")],
        mutations: [Count.self, PutAside.self]
    )
    private let fixture = RecordsFixture(onDisk: true, schema: DeploymentTests.schema)

    init() { deploy(isDone: false) }

    private func deploy(isDone: Bool) {
        guard !isDone else { return fixture.authority.refuse(nil) }
        fixture.authority.refuse { operation in
            operation.mutator == Count.name ? Refusal(.mutatorUnknown, "Deploy it.") : nil
        }
    }

    private func client(seed: UInt64 = 1) async throws -> SanguineClient {
        let client = try fixture.client(seed: seed) { configuration in
            configuration.recordPolling = nil
            configuration.schema = Self.schema
        }
        try await client.synchronize()
        return client
    }

    private func isWaiting(_ client: SanguineClient) -> Bool {
        client.outbox.pending.first?.lastFailure?.code == "mutator_unknown"
    }

    @Test func `an operation that the server does not know yet waits and is applied later`()
        async throws
    {
        let client = try await client()
        let receipt = try client.add("a")
        try await eventually("the operation waits") { isWaiting(client) }
        #expect(client.count("a") == 1 && client.outbox.refused.isEmpty)
        deploy(isDone: true)
        try await eventually("the operation is applied") {
            fixture.delay.advance(by: .seconds(1))
            return fixture.authority.count("a") == 1
        }
        #expect(try await receipt.outcome == .applied)
    }

    @Test func `a record of a collection that the server does not know yet waits too`()
        async throws
    {
        let client = try await client()
        fixture.authority.refuse { operation in
            operation.mutator == CreateRecord.name ? Refusal(.collectionUnknown, "Deploy it.") : nil
        }
        let key = RecordKey("notes", .of("n"))
        let receipt = try client.perform(CreateRecord(key, ["text": "new"]))
        try await eventually("the operation waits") {
            client.outbox.pending.first?.lastFailure?.code == "collection_unknown"
        }
        #expect(client.outbox.refused.isEmpty)
        deploy(isDone: true)
        try await client.synchronize()
        #expect(try await receipt.outcome == .applied)
        #expect(fixture.authority.value(key)?["text"] == "new")
    }

    @Test func `the lane of a waiting operation waits, and other lanes continue`() async throws {
        let client = try await client()
        fixture.connectivity.disconnect()
        try client.add("a")
        try client.perform(CreateRecord(RecordKey("notes", .of("n")), ["text": "behind"]))
        try client.perform(PutAside(note: .of("m")))
        fixture.connectivity.connect()
        try await eventually("the operation of the other lane is applied") {
            fixture.authority.value(RecordKey("notes", .of("m"))) != nil
        }
        try await eventually("the operation waits") { isWaiting(client) }
        #expect(fixture.authority.value(RecordKey("notes", .of("n"))) == nil)
        deploy(isDone: true)
        try await client.synchronize()
        #expect(fixture.authority.value(RecordKey("notes", .of("n")))?["text"] == "behind")
        #expect(fixture.authority.count("a") == 1)
    }

    @Test func `an operation is retried at growing intervals, and at once in the foreground`()
        async throws
    {
        let client = try await client()
        try client.add("a")
        try await eventually("the operation waits") { isWaiting(client) }
        for _ in 0..<14 {
            let before = fixture.pushes.count
            try await fixture.delay.waitForSleepers(1)
            #expect((fixture.delay.timeToNextWake ?? .zero) <= .seconds(20 * 60))
            fixture.delay.advance(by: .seconds(20 * 60))
            try await eventually("another attempt is made") { fixture.pushes.count > before }
            try await eventually("the operation waits") { isWaiting(client) }
        }
        let before = fixture.pushes.count
        fixture.lifecycle.enterBackground()
        fixture.lifecycle.enterForeground()
        try await eventually("another attempt is made") { fixture.pushes.count > before }
    }

    @Test func `records from other devices arrive while an operation waits`() async throws {
        let client = try await client()
        try client.add("a")
        try await eventually("the operation waits") { isWaiting(client) }
        fixture.authority.set("b", to: 7)
        client.users.current.feed.pull()
        try await eventually("the other device's record arrives") { client.count("b") == 7 }
        #expect(client.count("a") == 1)
    }

    @Test func `synchronizing while an operation waits fetches records from other devices`()
        async throws
    {
        let client = try await client()
        try client.add("a")
        try await eventually("the operation waits") { isWaiting(client) }
        fixture.authority.set("b", to: 7)
        try await client.synchronize()
        #expect(client.count("b") == 7)
        #expect(isWaiting(client) && client.count("a") == 1)
    }

    @Test func `after a week of waiting an operation is in the tray, even after a restart`()
        async throws
    {
        let first = try await client()
        try first.add("a")
        try await eventually("the operation waits") { isWaiting(first) }
        first.close()
        fixture.wall.advance(by: RecordLimits.deploymentWait - .seconds(60))
        let second = try await client(seed: 2)
        #expect(isWaiting(second) && second.count("a") == 1)
        fixture.wall.advance(by: .seconds(61))
        try await second.synchronize()
        #expect(second.outbox.refused.map(\.problem.code) == [.mutatorUnknown])
        #expect(second.count("a") == nil)
        deploy(isDone: true)
        try second.outbox.retry(try #require(second.outbox.refused.first).id)
        try await second.synchronize()
        #expect(fixture.authority.count("a") == 1)
    }

    @Test(arguments: [-56, 1])
    func `the wait is not measured from a time when the clock was wrong`(
        years: Int
    ) async throws {
        let error = Duration.seconds(years * 365 * 24 * 3_600)
        fixture.wall.advance(by: error)
        let client = try await client()
        try client.add("a")
        try await eventually("the operation waits") { isWaiting(client) }
        fixture.wall.advance(by: .zero - error)
        try? await client.synchronize()
        #expect(isWaiting(client) && client.outbox.refused.isEmpty)
        fixture.wall.advance(by: RecordLimits.deploymentWait + .seconds(1))
        try await client.synchronize()
        #expect(client.outbox.refused.map(\.problem.code) == [.mutatorUnknown])
    }

    @Test func `an operation that a late copy of its request may apply cannot be withdrawn`()
        async throws
    {
        let client = try await client()
        let receipt = try client.add("a")
        try await eventually("the operation waits") { isWaiting(client) }
        #expect(client.outbox.pending.map(\.phase) == [.sending])
        #expect(try !client.outbox.withdraw(receipt.id))
        let refusal = #expect(throws: SanguineError.self) { try client.outbox.discard(receipt.id) }
        #expect(refusal?.code == "operation_in_progress")
        #expect(client.count("a") == 1)
    }

    @Test func `the effect of a late copy of a request is not shown twice`() async throws {
        let client = try await client()
        let receipt = try client.add("a")
        try await eventually("the operation waits") { isWaiting(client) }
        let copy = try #require(fixture.pushes.last?.operations)
        deploy(isDone: true)
        let caller = AuthorityCaller(authority: fixture.authority)
        _ = try await caller.push(copy)
        #expect(fixture.authority.count("a") == 1)
        client.users.current.feed.pull()
        try await eventually("the pull reports the operation") { client.outbox.pending.isEmpty }
        #expect(client.count("a") == 1)
        #expect(try await receipt.outcome == .applied)
    }
}
