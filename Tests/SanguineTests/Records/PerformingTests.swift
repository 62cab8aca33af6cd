import Foundation
import Logging
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct PerformingTests {
    private final class Opened: Sendable {
        let client = Mutex<SanguineClient?>(nil)
    }

    @Test func `an operation is visible when perform returns, without a network`() throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.add("a")
        try client.add("a", by: 2)
        #expect(client.count("a") == 3)
        #expect(client.outbox.pending.map(\.name) == ["counter.count", "counter.count"])
        #expect(fixture.pushes.isEmpty)
    }

    @Test func `a mutation's refusal is thrown, and nothing is queued`() throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        let error = #expect(throws: SanguineError.self) { try client.add("a", by: 5, limit: 4) }
        #expect(error?.code == "invalid_content")
        #expect(client.outbox.pending.isEmpty && client.count("a") == nil)
    }

    @Test func `a record with a non-finite number is refused, and nothing is queued`() throws {
        struct Ratio: SyncedRecord {
            static let collection = RecordCollection("ratios")
            let id: RecordID
            var value: Double
        }
        struct Divide: RecordMutation {
            static let name = "ratio.divide"
            let by: Double
            func apply(to records: inout Records) throws {
                records.set(Ratio(id: .of("a"), value: 1 / by))
            }
        }
        let schema = RecordSchema(Ratio.self, Divide.self)
        let client = try RecordsFixture(schema: schema).client { $0.schema = schema }
        let error = #expect(throws: SanguineError.self) { try client.perform(Divide(by: 0)) }
        #expect(error?.code == "invalid_content")
        #expect(client.outbox.pending.isEmpty && client.records(Ratio.self).isEmpty)
    }

    @Test func `a record mutation that is not registered is refused`() throws {
        struct Stranger: RecordMutation {
            static let name = "stranger"
            func apply(to records: inout Records) throws {}
        }
        let client = try RecordsFixture().client()
        #expect(throws: SanguineError.unregistered("stranger", Stranger.self)) {
            try client.perform(Stranger())
        }
    }

    @Test func `a full outbox refuses an operation`() throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        for number in 0..<RecordLimits.operations { try client.add("c\(number)") }
        #expect(throws: SanguineError.outboxFull(limit: RecordLimits.operations)) {
            try client.add("more")
        }
    }

    @Test func `a receipt reports that an operation was applied`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        let receipt = try client.add("a")
        #expect(try await receipt.outcome == .applied)
        #expect(fixture.authority.count("a") == 1)
    }

    @Test func `cancelling a wait for an outcome does not cancel the operation`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let receipt = try client.add("a")
        let waiting = Task { try await receipt.outcome }
        waiting.cancel()
        await #expect(throws: SanguineError.cancelled) { try await waiting.finished() }
        fixture.connectivity.connect()
        #expect(try await receipt.outcome == .applied)
    }

    @Test func `a refusal removes only its own effect`() async throws {
        let fixture = RecordsFixture()
        fixture.authority.set("a", to: 10)
        let client = try fixture.client()
        let refused = try client.add("a", by: 5, limit: 5)
        let applied = try client.add("a", by: 1)
        #expect(client.count("a") == 6)
        #expect(try await applied.outcome == .applied)
        guard case .refused(let problem) = try await refused.outcome else {
            Issue.record("It was not refused.")
            return
        }
        #expect(problem.code == .invalidContent)
        try await client.synchronize()
        #expect(client.count("a") == 11)
        #expect(client.outbox.refused.map(\.problem) == [problem])
    }

    @Test func `a retry from the tray has a new id and is last in order`() async throws {
        let fixture = RecordsFixture()
        fixture.authority.set("a", to: 10)
        let client = try fixture.client()
        let receipt = try client.add("a", by: 5, limit: 5)
        _ = try await receipt.outcome
        fixture.authority.set("a", to: 0)
        let again = try client.outbox.retry(receipt.id)
        #expect(again.id != receipt.id)
        #expect(try await again.outcome == .applied)
        #expect(client.outbox.refused.isEmpty && fixture.authority.count("a") == 5)
    }

    @Test func `an operation discarded from the tray does not return`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 10)
        let client = try fixture.client()
        let receipt = try client.add("a", by: 5, limit: 5)
        _ = try await receipt.outcome
        try client.outbox.discard(receipt.id)
        client.close()
        #expect(try fixture.client().outbox.refused.isEmpty)
    }

    @Test func `an operation that was sent cannot be discarded`() async throws {
        let fixture = RecordsFixture()
        fixture.network.hold()
        let client = try fixture.client()
        let receipt = try client.add("a")
        try await fixture.network.waitForHeld(2)
        let error = #expect(throws: SanguineError.self) { try client.outbox.discard(receipt.id) }
        #expect(error?.code == "operation_in_progress")
        client.close()
    }

    @Test func `durable writes are reported after the operation is on disk`() throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let url = try #require(fixture.folder).url
        let seen = RecordedLog()
        let client = try fixture.client { configuration in
            configuration.durableWrites = {
                let file = OutboxFile(try? UserFolders(url).current(), isCompanion: true)
                let rows = (try? file.rows()) ?? []
                seen.logger.info("\(rows.count)")
                file.close()
            }
        }
        try client.add("a")
        try client.add("a")
        #expect(seen.messages == ["1", "2"])
    }

    @Test(arguments: ["", "a\nb", String(repeating: "a", count: 257)])
    func `an operation whose lane cannot be transmitted is refused at once`(_ lane: String) throws {
        let client = try RecordsFixture().client()
        let error = #expect(throws: SanguineError.self) { try client.add("a", line: lane) }
        #expect(error?.code == "invalid_content")
        #expect(client.outbox.pending.isEmpty)
    }

    @Test func `the handler of durable writes may close the client`() async throws {
        let fixture = RecordsFixture()
        fixture.authority.set("a", to: 1)
        let opened = Opened()
        let client = try fixture.client { configuration in
            configuration.durableWrites = { opened.client.withLock { $0 }?.close() }
        }
        opened.client.withLock { $0 = client }
        await #expect(throws: SanguineError.closed) { try await client.synchronize() }
    }
}
