import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Each lane waits only for its own push.
@Suite("Lanes of pushes", .bounded)
struct PushLaneTests {
    private let fixture = RecordsFixture()

    /// Returns a client whose first push, in lane `one`, hangs.
    private func hanging() async throws -> SanguineClient {
        let client = try fixture.client { $0.recordPolling = nil }
        try await client.synchronize()
        fixture.network.hold()
        try client.add("a", line: "one")
        try await fixture.network.waitForHeld(1)
        return client
    }

    @Test func `a hanging push blocks no other lane`() async throws {
        let client = try await hanging()
        let receipt = try client.add("b", line: "two")
        try await fixture.network.waitForHeld(2)
        try await fixture.network.releaseFirst { request in
            let push = try? WireCoding.decode(PushRequest.self, from: request.body ?? Data())
            return push?.operations.first?.lane == "two"
        }
        #expect(try await receipt.outcome == .applied)
        #expect(fixture.pushes.map { $0.operations.map(\.lane) } == [["one"], ["two"]])
        #expect(client.outbox.pending.map(\.lane).contains("one"))
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("a") == 1 && client.count("b") == 1)
    }

    @Test func `a hanging push blocks later operations in its lane`() async throws {
        let client = try await hanging()
        try client.add("a", line: "one")
        client.users.current.outbox.sendQueued()
        #expect(client.users.current.outbox.isSending && fixture.pushes.count == 1)
        fixture.network.release()
        try await client.synchronize()
        #expect(fixture.pushes.map(\.operations.count) == [1, 1] && client.count("a") == 2)
    }

    @Test func `a hanging push blocks dependent operations in another lane`() async throws {
        let client = try await hanging()
        try client.add("a", line: "two")
        client.users.current.outbox.sendQueued()
        #expect(client.users.current.outbox.isSending && fixture.pushes.count == 1)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("a") == 2)
    }

    @Test func `at most four pushes are in flight`() async throws {
        let client = try await hanging()
        for line in ["two", "three", "four", "five"] { try client.add(line, line: line) }
        try await fixture.network.waitForHeld(4)
        #expect(fixture.pushes.count == RecordLimits.concurrentPushes)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.outbox.pending.isEmpty && client.count("five") == 1)
    }
}
