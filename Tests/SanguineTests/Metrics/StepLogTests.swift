import Foundation
import Logging
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// At debug level each step is one line, and no line contains personal text.
@Suite("Log of steps", .bounded)
struct StepLogTests {
    private let log = RecordedLog()

    /// The steps as text: step, kind and name.
    private var steps: [String] {
        log.steps.map { line in
            ["step", "kind", "name"].map { "\(line[$0] ?? "-")" }.joined(separator: " ")
        }
    }

    @Test func `reads are hits, misses or shared fetches`() async throws {
        let test = try TestClient(network: .profiles()) { $0.logger = log.logger }
        let client = test.client
        #expect(client.cached(.fleeting("ada")) == nil)
        _ = try await client.value(of: .fleeting("ada"))
        _ = try await client.value(of: .fleeting("ada"))
        _ = client.cached(.fleeting("ada"))
        test.network.hold()
        let first = Task { try await client.value(of: .fleeting("bob")) }
        try await test.network.waitForHeld(1)
        let second = Task { try await client.value(of: .fleeting("bob")) }
        try await eventually("the second caller waits") {
            client.queries.entries.waiterCount(of: .fleeting("bob")) == 2
        }
        test.network.release()
        _ = try await (first.finished(), second.finished())

        #expect(
            steps == [
                "miss query fleeting", "miss query fleeting", "hit query fleeting",
                "hit query fleeting", "miss query fleeting", "shared query fleeting",
            ]
        )
    }

    @Test func `values of one query have one key each, of 16 hexadecimal digits`() async throws {
        let test = try TestClient(network: .profiles()) { $0.logger = log.logger }
        _ = try await test.client.value(of: .fleeting("ada"))
        _ = try await test.client.value(of: .fleeting("ada"))
        _ = try await test.client.value(of: .fleeting("bob"))
        let keys = log.steps.compactMap { $0["key"].map { "\($0)" } }

        #expect(keys.count == 3 && keys[0] == keys[1] && keys[0] != keys[2])
        #expect(keys.allSatisfy { $0.wholeMatch(of: #/[0-9a-f]{16}/#) != nil })
    }

    @Test func `a retried read is one line for each retry`() async throws {
        let test = try TestClient(network: .profiles()) { $0.logger = log.logger }
        test.network.script(.status(503))
        async let profile = test.client.value(of: .fleeting("ada"))
        try await test.network.waitForRequests(1)
        try await test.delay.waitForSleepers(2)
        test.delay.advance(by: try #require(test.delay.timeToNextWake))
        _ = try await profile

        #expect(steps == ["miss query fleeting", "retried query fleeting"])
        let line = try #require(log.steps.last)
        #expect(line["attempt"] == "1" && line["code"] != nil && line["key"] != nil)
    }

    @Test func `each evicted value is one line`() async throws {
        let test = try TestClient(network: .profiles()) {
            $0.logger = log.logger
            $0.memoryBytes = 1
        }
        _ = try await test.client.value(of: .fleeting("ada"))
        _ = try await test.client.value(of: .fleeting("bob"))
        try await eventually("an eviction") { steps.contains("evicted query fleeting") }
        let evicted = log.steps.filter { $0["step"] == "evicted" }.map { "\($0["key"] ?? "-")" }

        #expect(Set(evicted).count == evicted.count)
    }

    @Test func `a call is held and charged once, with its key and its amounts`() async throws {
        let fixture = ClientFixture()
        let client = try fixture.client { $0.logger = log.logger }
        _ = try await client.value(of: .balance)
        _ = try await client.call(Ask(question: "why?"))
        let rest = try #require(client.cached(.balance)?.available)
        client.close()

        let calls = log.steps.filter { $0["kind"] == "function" }
        #expect(calls.map { "\($0["step"] ?? "-")" } == ["hold", "charge"])
        #expect(calls.last?["amount"] == "\(100 - rest)")
        #expect(Set(calls.map { "\($0["key"] ?? "-")" }).count == 1)
    }

    @Test func `an operation is settled once, or refused once with its code`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client { $0.logger = log.logger }
        let receipt = try client.add("a")
        try await client.synchronize()
        fixture.authority.set("b", to: 1)
        let refused = try client.add("b", limit: 1)
        _ = try? await client.synchronize()
        _ = try? await refused.outcome

        let operations = log.steps.filter { $0["kind"] == "mutation" }
        #expect(operations.map { "\($0["step"] ?? "-")" } == ["settled", "refused"])
        #expect(operations.first?["key"] == "\(receipt.id)")
        #expect(operations.last?["code"] == "invalid_content")
        #expect(operations.allSatisfy { $0["name"] == "\(Count.name)" })
    }

    @Test func `an operation that fails is retried once for each try`() async throws {
        let fixture = TrackFixture()
        let client = try fixture.client { $0.logger = log.logger }
        fixture.backend.failWrite(.status(503))
        let receipt = try client.perform(PlayTrack(track: 1))
        try await eventually("the second try") {
            fixture.delay.advance(by: .minutes(2))
            return client.outbox.pending.isEmpty
        }
        _ = try await receipt.outcome
        try await client.synchronize()

        let operations = log.steps.filter { $0["kind"] == "mutation" }
        #expect(operations.map { "\($0["step"] ?? "-")" } == ["retried", "settled"])
    }

    @Test func `no line contains parameters, arguments, inputs or values`() async throws {
        let mark = "Confidential-7319"
        let profiles = try TestClient(network: .profiles()) { $0.logger = log.logger }
        _ = try await profiles.client.value(of: .fleeting(mark))
        _ = profiles.client.cached(.profile(mark))
        let records = RecordsFixture()
        let client = try records.client { $0.logger = log.logger }
        try client.add(mark, line: mark)
        try await client.synchronize()
        let calls = ClientFixture()
        let caller = try calls.client { $0.logger = log.logger }
        _ = try await caller.call(Ask(question: mark))
        caller.close()

        #expect(log.steps.count >= 5)
        for line in log.lines { #expect(!line.text.contains(mark), "\(line.text)") }
    }

    @Test func `above debug level there is no log of steps`() {
        var logger = log.logger
        logger.logLevel = .info
        #expect(StepLog(logger) == nil)
    }
}
