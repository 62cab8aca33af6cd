import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Guarantees 3, 4 and 8 for any backend.
@Suite("Sending mutations", .bounded)
struct MutationSendingTests {
    @Test func `the next process shows and sends queued mutations`() async throws {
        let fixture = SongFixture(onDisk: true)
        let first = try fixture.client()
        _ = try await first.value(of: .song("a"))
        fixture.connectivity.disconnect()
        let receipt = try first.perform(LikeSong(song: "a"))
        first.close()
        let second = try fixture.client(seed: 2)
        #expect(second.likes("a") == 11)
        #expect(second.outbox.pending.map(\.id) == [receipt.id])
        fixture.connectivity.connect()
        try await second.settle()
        #expect(second.likes("a") == 11 && fixture.server.likes(of: "a") == 11)
        second.close()
        #expect(try fixture.client(seed: 3).likes("a") == 11)
    }

    @Test func `the base is stored, and an unregistered mutation is in the tray`() async throws {
        let fixture = SongFixture(onDisk: true)
        let first = try fixture.client()
        _ = try await first.value(of: .song("a"))
        fixture.connectivity.disconnect()
        try first.perform(LikeSong(song: "a"))
        first.close()
        let second = try fixture.client(seed: 2) { $0.mutations = [] }
        #expect(second.likes("a") == 10)
        #expect(second.outbox.refused.map(\.problem.code) == [.mutatorUnknown])
        second.close()
        let third = try fixture.client(seed: 3)
        #expect(third.outbox.pending.count == 1)
        third.close()
    }

    @Test func `a lost answer is requested again under the same key`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        fixture.server.fail(.fail(.interrupted("test")), done: true)
        try client.perform(LikeSong(song: "a"))
        try await fixture.pass(untilWrites: 2)
        try await client.settle()
        #expect(Set(fixture.writes.map { $0.headers["Idempotency-Key"] }).count == 1)
        #expect(fixture.server.likes(of: "a") == 11 && client.likes("a") == 11)
    }

    @Test func `a mutation in flight when the process dies is resent under the same key`()
        async throws
    {
        let fixture = SongFixture(onDisk: true)
        let first = try fixture.client()
        _ = try await first.value(of: .song("a"))
        fixture.network.hold()
        try first.perform(LikeSong(song: "a"))
        try await fixture.network.waitForHeld(1)
        first.close()
        fixture.network.release()
        let second = try fixture.client(seed: 2)
        #expect(second.likes("a") == 11)
        try await second.settle()
        #expect(Set(fixture.writes.map { $0.headers["Idempotency-Key"] }).count == 1)
        #expect(fixture.writes.count == 2 && fixture.server.likes(of: "a") == 11)
        #expect(second.likes("a") == 11)
    }

    @Test func `a refused mutation blocks nothing and is retried under a new id`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        fixture.server.fail(.status(422))
        let first = try client.perform(LikeSong(song: "a"))
        let second = try client.perform(LikeSong(song: "a"))
        #expect(try await second.outcome == .applied)
        #expect(client.outbox.refused.map(\.id) == [first.id])
        let again = try client.outbox.retry(first.id)
        #expect(try await again.outcome == .applied && again.id != first.id)
        #expect(client.outbox.refused.isEmpty && fixture.server.likes(of: "a") == 12)
    }

    @Test func `a lane is sent in order, and several lanes at the same time`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        fixture.network.hold()
        try client.perform(LikeSong(song: "a"))
        try client.perform(LikeSong(song: "a"))
        try client.perform(LikeSong(song: "b"))
        try await fixture.network.waitForHeld(2)
        #expect(Set(fixture.writes.map { $0.url.path() }) == ["/songs/a/like", "/songs/b/like"])
        #expect(client.outbox.pending.map(\.phase) == [.sending, .queued, .sending])
        fixture.network.release()
        try await client.settle()
        #expect(fixture.writes.count == 3)
    }

    @Test func `headers are read when a mutation is sent, and are not stored`() async throws {
        let fixture = SongFixture(onDisk: true)
        let token = Mutex("the-old-secret")
        let folder = try #require(fixture.folder)
        let client = try fixture.client { configuration in
            configuration.baseHeaders = { ["Authorization": token.withLock { $0 }] }
        }
        fixture.connectivity.disconnect()
        try client.perform(LikeSong(song: "a"))
        #expect(try folder.contains(LikeSong.name) && !folder.contains("secret"))
        token.withLock { $0 = "the-new-secret" }
        fixture.connectivity.connect()
        try await client.settle()
        #expect(fixture.writes.map { $0.headers["Authorization"] } == ["the-new-secret"])
        #expect(try !folder.contains("secret"))
    }

    @Test func `a 401 pauses the outbox until it is resumed`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        fixture.server.fail(.status(401))
        let receipt = try client.perform(LikeSong(song: "a"))
        let refusal = await #expect(throws: SanguineError.self) { try await client.synchronize() }
        #expect(refusal?.code == "http_401")
        try client.perform(LikeSong(song: "b"))
        #expect(client.outbox.summary.unsent == 2)
        client.outbox.resume()
        #expect(try await receipt.outcome == .applied)
        try await client.settle()
        #expect(fixture.server.likes(of: "a") == 11 && fixture.server.likes(of: "b") == 21)
    }

    @Test func `a 429 is resent after its Retry-After`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        fixture.server.fail(.status(429, headers: ["Retry-After": "30"]))
        try client.perform(LikeSong(song: "a"))
        let range = Duration.seconds(30)...Duration.seconds(38)
        try await eventually("a wait of 30 seconds") {
            fixture.delay.timeToNextWake.map { range.contains($0) } ?? false
        }
        #expect(fixture.writes.count == 1)
        fixture.delay.advance(by: .seconds(38))
        try await client.settle()
        #expect(fixture.writes.count == 2 && fixture.server.likes(of: "a") == 11)
    }

    @Test func `a temporary id is replaced by the real one in every queued operation`() async throws
    {
        let fixture = SongFixture(onDisk: true)
        let client = try fixture.client()
        try await client.value(of: .songs)
        fixture.network.hold()
        let receipt = try client.perform(AddSong(id: "temporary"))
        try client.perform(LikeSong(song: "temporary"))
        try await fixture.network.waitForHeld(1)
        fixture.connectivity.disconnect()
        try await fixture.network.releaseFirst { $0.isWrite }
        #expect(try await receipt.outcome == .applied)
        #expect(client.outbox.pending.last?.lane == "s2")
        try client.perform(LikeSong(song: "temporary"))
        client.close()
        fixture.network.release()
        let second = try fixture.client(seed: 2)
        #expect(second.outbox.pending.suffix(2).map(\.lane) == ["s2", "s2"])
        fixture.connectivity.connect()
        try await second.settle()
        #expect(second.outbox.refused.isEmpty && fixture.server.likes(of: "s2") == 2)
    }

    @Test func `mutations are not shown or sent for another user, and return with their owner`()
        async throws
    {
        let fixture = SongFixture(onDisk: true)
        let owner = try #require(fixture.authorizer.account)
        let client = try fixture.client()
        fixture.connectivity.disconnect()
        let receipt = try client.perform(LikeSong(song: "a"))
        func change(to account: Identifier?) {
            fixture.authorizer.change(to: account, in: client)
        }
        change(to: Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6bb"))
        await #expect(throws: SanguineError.userChanged) { try await receipt.outcome }
        fixture.connectivity.connect()
        #expect(try await client.value(of: .song("a")).likes == 10)
        #expect(client.outbox.pending.isEmpty && fixture.writes.isEmpty)
        change(to: owner)
        #expect(try await client.value(of: .song("a")).likes >= 10)
        try await client.settle()
        #expect(fixture.writes.map { $0.headers["Idempotency-Key"] } == [receipt.id.description])
    }

    @Test func `a mutation that is not registered is rejected`() throws {
        let client = try SongFixture().client { $0.mutations = [] }
        let error = #expect(throws: SanguineError.self) {
            try client.perform(LikeSong(song: "a"))
        }
        #expect(error?.code == "invalid_declaration" && client.outbox.pending.isEmpty)
    }
}
