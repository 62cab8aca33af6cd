import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Guarantees 1, 5 and 6 for any backend.
@Suite("Effects of mutations", .bounded)
struct MutationEffectTests {
    @Test func `a mutation is visible before it is sent, and shown once after it is applied`()
        async throws
    {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        let shown = ShownLikes()
        let following = shown.follow("a", in: client)
        fixture.network.hold()
        let receipt = try client.perform(LikeSong(song: "a"))
        #expect(client.likes("a") == 11)
        fixture.network.release()
        #expect(try await receipt.outcome == .applied)
        try await client.settle()
        #expect(shown.values == [10, 11])
        #expect(fixture.server.likes(of: "a") == 11 && client.outbox.pending.isEmpty)
        withExtendedLifetime(following) {}
    }

    @Test func `a refusal removes only its own effect`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        fixture.connectivity.disconnect()
        let first = try client.perform(LikeSong(song: "a"))
        try client.perform(LikeSong(song: "a"))
        try client.perform(LikeSong(song: "a"))
        #expect(client.likes("a") == 13)
        fixture.server.fail(.status(422))
        fixture.connectivity.connect()
        guard case .refused = try await first.outcome else {
            Issue.record("It was not refused.")
            return
        }
        try await client.settle()
        #expect(client.likes("a") == 12 && fixture.server.likes(of: "a") == 12)
        #expect(client.outbox.refused.map(\.id) == [first.id])
    }

    @Test func `a fetch that completes before the send shows its base with the effect`()
        async throws
    {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        fixture.connectivity.disconnect()
        try client.perform(LikeSong(song: "a"))
        fixture.server.set(Song(id: "a", likes: 50))
        #expect(try await client.refresh(.song("a")).likes == 51)
        #expect(client.likes("a") == 51)
    }

    @Test func `a mutation that was rejected before it was applied hides no fetched value`()
        async throws
    {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        fixture.server.fail(.status(401))
        try client.perform(LikeSong(song: "a"))
        let refusal = await #expect(throws: SanguineError.self) { try await client.synchronize() }
        #expect(refusal?.code == "http_401")
        fixture.server.set(Song(id: "a", likes: 50))
        #expect(try await client.refresh(.song("a")).likes == 51)
    }

    @Test func `a fetch that contains an unanswered mutation does not show it twice`()
        async throws
    {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        let shown = ShownLikes()
        let following = shown.follow("a", in: client)
        fixture.network.hold()
        try client.perform(LikeSong(song: "a"))
        try await fixture.network.waitForHeld(1)
        let fetch = Task { try await client.refresh(.song("a")) }
        try await fixture.network.waitForHeld(2)
        try await fixture.network.releaseFirst { !$0.isWrite }
        #expect(try await fetch.finished().likes == 11)
        fixture.network.release()
        try await client.settle()
        #expect(shown.values == [10, 11])
        withExtendedLifetime(following) {}
    }

    @Test func `an older fetch that completes after the answer keeps the mutation visible`()
        async throws
    {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        let shown = ShownLikes()
        let following = shown.follow("a", in: client)
        fixture.network.hold()
        let fetch = Task { try await client.refresh(.song("a")) }
        try await fixture.network.waitForHeld(1)
        let receipt = try client.perform(LikeSong(song: "a"))
        try await fixture.network.waitForHeld(2)
        try await fixture.network.releaseFirst { $0.isWrite }
        #expect(try await receipt.outcome == .applied)
        fixture.network.release()
        #expect(try await fetch.finished().likes == 11)
        try await client.settle()
        #expect(shown.values == [10, 11])
        withExtendedLifetime(following) {}
    }

    @Test func `an answer that contains the new value needs no fetch`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        try client.perform(RenameSong(song: "a", title: "Blue"))
        try await client.settle()
        #expect(client.cached(.song("a")) == Song(id: "a", likes: 10, title: "Blue"))
        #expect(fixture.network.requests.map(\.method) == ["GET", "POST"])
    }

    @Test func `an effect stays until a fetched value contains it`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        fixture.network.hold()
        let receipt = try client.perform(CountPlay(song: "a"))
        try await fixture.network.waitForHeld(1)
        fixture.server.set(Song(id: "a", likes: 10))  // Reads lag behind.
        fixture.network.release()
        #expect(try await receipt.outcome == .applied)
        #expect(try await client.refresh(.song("a")).likes == 11)
        #expect(client.outbox.pending.map(\.phase) == [.acknowledged])
        fixture.server.set(Song(id: "a", likes: 11))
        #expect(try await client.refresh(.song("a")).likes == 11)
        try await client.settle()
        #expect(client.outbox.pending.isEmpty && client.likes("a") == 11)
    }

    @Test func `a value set or updated under a pending mutation becomes the base`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        fixture.connectivity.disconnect()
        try client.perform(LikeSong(song: "a"))
        #expect(client.likes("a") == nil)
        client.set(Song(id: "a", likes: 1), for: .song("a"))
        #expect(client.likes("a") == 2)
        client.update(.song("a")) { $0.likes += 10 }
        #expect(client.likes("a") == 12)
        let id = try #require(client.outbox.pending.first?.id)
        try client.outbox.discard(id)
        #expect(client.likes("a") == 11)
    }

    @Test func `lists show inserted, removed and changed rows`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        try await client.value(of: .songs)
        fixture.connectivity.disconnect()
        try client.perform(AddSong(id: "new"))
        try client.perform(RemoveSong(song: "b"))
        try client.perform(LikeSong(song: "a"))
        #expect(client.snapshot(of: .songs).items.map(\.id) == ["new", "a"])
        #expect(client.snapshot(of: .songs).items.last?.likes == 11)
        fixture.connectivity.connect()
        try await client.settle()
        // Each operation has its own lane, so the server's name for the new one depends on their
        // order.
        let there = fixture.server.songs.keys.sorted()
        #expect(there.count == 2 && there.first == "a")
        #expect(client.snapshot(of: .songs).items.map(\.id).sorted() == there)
        #expect(client.snapshot(of: .songs).items.first { $0.id == "a" }?.likes == 11)
    }
}
