import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// An operation that no server can have received can be withdrawn.
@Suite("Withdrawing operations", .bounded)
struct WithdrawalTests {
    @Test func `a queued mutation is withdrawn and never sent`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        fixture.connectivity.disconnect()
        let receipt = try client.perform(LikeSong(song: "a"))
        let kept = try client.perform(LikeSong(song: "a"))
        #expect(client.likes("a") == 12)

        #expect(try client.outbox.withdraw(receipt.id))
        #expect(client.likes("a") == 11)
        #expect(try await receipt.outcome == .withdrawn)
        #expect(client.outbox.pending.map(\.id) == [kept.id])
        fixture.connectivity.connect()
        try await client.settle()
        #expect(fixture.server.likes(of: "a") == 11 && fixture.writes.count == 1)
    }

    @Test func `a receipt withdraws its own operation, once`() throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let first = try client.add("a")
        try client.add("a", by: 10)

        #expect(try first.withdraw())
        #expect(client.count("a") == 10)
        #expect(try !first.withdraw())
        #expect(client.outbox.summary == Outbox.Summary(unsent: 1))
    }

    @Test func `callers that wait for a withdrawn operation are notified`() async throws {
        let fixture = SongFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let receipt = try client.perform(LikeSong(song: "a"))
        let waiting = Task { try await receipt.outcome }
        try await eventually("a caller waits") { receipt.shot.waiting == 1 }
        #expect(try receipt.withdraw())

        #expect(try await waiting.finished() == .withdrawn)
    }

    @Test func `a withdrawn operation does not return in the next process`() throws {
        let fixture = SongFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let receipt = try client.perform(LikeSong(song: "a"))
        #expect(try receipt.withdraw())
        client.close()

        #expect(try fixture.client(seed: 2).outbox.pending.isEmpty)
    }

    @Test func `an operation in flight cannot be withdrawn`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        fixture.network.hold()
        let receipt = try client.perform(LikeSong(song: "a"))
        try await fixture.network.waitForHeld(1)

        #expect(try !receipt.withdraw())
        fixture.network.release()
        #expect(try await receipt.outcome == .applied)
        #expect(try !receipt.withdraw())
    }

    @Test func `an operation that may have been applied cannot be withdrawn`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        fixture.server.fail(.status(500), done: true)
        let receipt = try client.perform(LikeSong(song: "a"))
        try await eventually("the operation has failed") {
            client.outbox.pending.first?.lastFailure != nil
        }

        #expect(try !receipt.withdraw())
        #expect(client.outbox.pending.map(\.phase) == [.sending])
    }

    @Test func `a rejected operation was not applied and can be withdrawn`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        fixture.server.fail(.status(503))
        let receipt = try client.perform(LikeSong(song: "a"))
        try await eventually("the operation waits for its retry") {
            client.outbox.pending.map(\.phase) == [.queued]
        }

        #expect(try receipt.withdraw())
        #expect(client.likes("a") == 10)
    }

    @Test func `an operation that an earlier process may have sent cannot be withdrawn`()
        async throws
    {
        let fixture = SongFixture(onDisk: true)
        fixture.network.hold()
        let client = try fixture.client()
        let receipt = try client.perform(LikeSong(song: "a"))
        try await fixture.network.waitForHeld(1)
        client.close()
        fixture.connectivity.disconnect()

        let next = try fixture.client(seed: 2)
        #expect(try !next.outbox.withdraw(receipt.id))
    }

    @Test func `refused and unknown operations cannot be withdrawn`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        fixture.server.fail(.status(422))
        let receipt = try client.perform(LikeSong(song: "a"))
        _ = try await receipt.outcome
        let stranger = Identifier(at: Timestamp(millisecondsSince1970: 0))

        #expect(try !receipt.withdraw())
        #expect(client.outbox.refused.map(\.id) == [receipt.id])
        #expect(try !client.outbox.withdraw(stranger))
    }

    @Test func `nothing can be withdrawn after a sign-out or after the client is closed`() throws {
        let fixture = SongFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let receipt = try client.perform(LikeSong(song: "a"))
        fixture.authorizer.change(to: nil, in: client)
        #expect(throws: SanguineError.userChanged) { try receipt.withdraw() }
        let other = try client.perform(LikeSong(song: "a"))
        client.close()
        #expect(throws: SanguineError.closed) { try other.withdraw() }
    }

    @Test func `discarding an unsent operation withdraws it`() async throws {
        let fixture = SongFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let receipt = try client.perform(LikeSong(song: "a"))
        try client.outbox.discard(receipt.id)

        #expect(try await receipt.outcome == .withdrawn)
    }

    /// In either order, the operation is withdrawn or sent, never both.
    @Test func `sending and withdrawing are decided under one lock`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        var done = 0
        for _ in 0..<100 {
            let receipt = try client.perform(LikeSong(song: "a"))
            let isTaken = try await Task.detached { try receipt.withdraw() }.finished()
            #expect(try await receipt.outcome == (isTaken ? .withdrawn : .applied))
            if !isTaken { done += 1 }
        }
        try await client.settle()
        #expect(fixture.server.likes(of: "a") == 10 + done)
    }
}
