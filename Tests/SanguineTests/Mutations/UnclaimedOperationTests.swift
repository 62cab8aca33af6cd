import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Operations that a user of the app's own backend leaves at sign-out.
@Suite("Unclaimed operations", .bounded)
struct UnclaimedOperationTests {
    private let fixture = TrackFixture()
    private static let words = "for my eyes only"

    /// Returns a client after its user has left an operation unsent.
    private func left() async throws -> SanguineClient {
        fixture.connectivity.disconnect()
        let client = try fixture.client(session: true)
        try client.perform(RetitleTrack(track: 1, title: Self.words))
        await client.signOut()
        return client
    }

    private func isOnDisk() throws -> Bool { try fixture.folder.contains(Self.words) }

    @Test func `the next user neither sees nor sends unclaimed operations`() async throws {
        let client = try await left()
        fixture.connectivity.connect()
        try await client.synchronize()
        #expect(client.outbox.pending.isEmpty && fixture.network.requests.isEmpty)
        #expect(client.outbox.unclaimed == 1)
    }

    @Test func `unclaimed operations are counted in the next process`() async throws {
        let client = try await left()
        client.close()
        let second = try fixture.client(seed: 2, session: true)
        #expect(second.outbox.unclaimed == 1)
    }

    @Test func `the user who left operations behind claims and sends them`() async throws {
        let client = try await left()
        try client.outbox.claim()
        #expect(client.outbox.unclaimed == 0)
        #expect(client.outbox.pending.map(\.name) == [RetitleTrack.name])
        fixture.connectivity.connect()
        try await client.synchronize()
        #expect(fixture.backend.tracks.first?.title == Self.words)
    }

    @Test func `operations are claimed while a companion writes, once`() async throws {
        let client = try await left()
        let lock = try UserFolders(fixture.folder.url).lock()
        defer { lock?.close() }
        try client.outbox.claim()
        #expect(client.outbox.unclaimed == 0)
        try client.outbox.discard(try #require(client.outbox.pending.first?.id))
        try client.outbox.claim()
        #expect(client.outbox.pending.isEmpty)
    }

    @Test func `a claimed operation can be discarded`() async throws {
        let client = try await left()
        try client.outbox.claim()
        try client.outbox.discard(try #require(client.outbox.pending.first?.id))
        #expect(client.outbox.unclaimed == 0 && client.outbox.pending.isEmpty)
    }

    @Test func `discarded operations are removed from disk`() async throws {
        let client = try await left()
        #expect(try isOnDisk())
        try client.outbox.discardUnclaimed()
        #expect(client.outbox.unclaimed == 0)
        #expect(try !isOnDisk())
    }
}
