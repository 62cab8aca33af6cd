import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Updates under pending mutations", .bounded)
struct MutationUpdateTests {
    @Test func `update returns the shown value, including pending effects`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        defer { client.close() }
        _ = try await within(.seconds(30), "the song") { try await client.value(of: .song("a")) }
        fixture.connectivity.disconnect()
        try client.perform(LikeSong(song: "a"))
        try client.perform(LikeSong(song: "a"))
        let updated = client.update(.song("a")) { song in
            song.title = "New"
            song.likes += 100
        }

        #expect(updated == Song(id: "a", likes: 112, title: "New"))
        #expect(updated == client.cached(.song("a")))
    }

    @Test func `update passes the backend's value, without pending effects, to its body`()
        async throws
    {
        let fixture = SongFixture()
        let client = try fixture.client()
        defer { client.close() }
        _ = try await within(.seconds(30), "the song") { try await client.value(of: .song("a")) }
        fixture.connectivity.disconnect()
        try client.perform(LikeSong(song: "a"))
        var seen: [Int] = []
        client.update(.song("a")) { seen.append($0.likes) }

        #expect(seen == [10])
        #expect(client.likes("a") == 11)
    }

    @Test func `pending counts unsettled operations but not refused ones`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        defer { client.close() }
        fixture.server.fail(.status(422))
        let refused = try client.perform(LikeSong(song: "a"))
        _ = try await within(.seconds(30), "the refusal") { try await refused.outcome }
        fixture.connectivity.disconnect()
        let waiting = try client.perform(LikeSong(song: "a"))

        #expect(client.outbox.pending.map(\.id) == [waiting.id])
        let summary = client.outbox.summary
        #expect(client.outbox.pending.count == summary.unsent + summary.settling)
        #expect(summary.refused == 1)
    }
}
