import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Traces of an applied write, and the state after a crash at that moment.
@Suite("Settling", .bounded)
struct SettlingTests {
    private let fixture = TrackFixture()

    private func execute(_ sql: String, in file: String = StoreFile.name) throws {
        let database = try DatabaseQueue(path: fixture.folder.user.appending(path: file).path)
        try database.write { try $0.execute(sql: sql) }
        try database.close()
    }

    /// Returns a client whose track is stored on disk.
    private func stored() async throws -> SanguineClient {
        let client = try fixture.client()
        _ = try await client.value(of: .track(1))
        client.queries.entries.flush()
        return client
    }

    @Test func `a crash before the value is stored still shows the applied write`() async throws {
        let client = try await stored()
        try execute("CREATE TRIGGER t BEFORE INSERT ON entry BEGIN SELECT RAISE(ABORT, 'no'); END")
        let receipt = try client.perform(PlayTrack(track: 1))
        #expect(try await receipt.outcome == .applied)
        try await client.settle()
        client.queries.entries.flush()
        fixture.connectivity.disconnect()
        let second = try fixture.client(seed: 2, in: try fixture.death())
        #expect(second.plays(1) == 1)
    }

    @Test(arguments: [false, true])
    func `a crash before the operation is removed from disk shows it once`(
        takesAnswer: Bool
    ) async throws {
        let client = try await stored()
        _ = try client.users.current.outbox.file.version()
        try execute(
            "CREATE TRIGGER t BEFORE DELETE ON operation BEGIN SELECT RAISE(ABORT, 'no'); END",
            in: OutboxFile.name
        )
        try client.perform(PlayTrack(track: 1, takesAnswer: takesAnswer))
        try await client.settle()
        client.queries.entries.flush()
        // A clock that was set back in the meantime changes nothing.
        fixture.wall.set(fixture.wall.now() - .seconds(3_600))
        fixture.connectivity.disconnect()
        let second = try fixture.client(seed: 2, in: try fixture.death())
        #expect(second.plays(1) == 1)
        try await second.settle()
        #expect(second.plays(1) == 1)
    }

    @Test func `settled operations are removed from disk`() async throws {
        let client = try await stored()
        try client.perform(PlayTrack(track: 1))
        try await client.settle()
        client.queries.entries.flush()
        #expect(try client.users.current.outbox.file.rows(.remote).isEmpty)
    }

    @Test func `a value that was invalidated before a crash is stale after it`() async throws {
        let client = try await stored()
        try execute("CREATE TRIGGER t BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'no'); END")
        client.invalidate(.track(1))
        let second = try fixture.client(seed: 2, in: try fixture.death())
        #expect(second.plays(1) == 0)
        #expect(!second.queries.isFresh(.track(1)))
    }

    @Test func `values that were invalidated together before a crash are stale after it`()
        async throws
    {
        let client = try await stored()
        try execute("CREATE TRIGGER t BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'no'); END")
        client.invalidate(all: "track")
        let second = try fixture.client(seed: 2, in: try fixture.death())
        #expect(!second.queries.isFresh(.track(1)))
    }

    @Test func `a value fetched after an invalidation is fresh in the next process`() async throws {
        let client = try await stored()
        client.invalidate(.track(1))
        _ = try await client.value(of: .track(1))
        client.queries.entries.flush()
        let second = try fixture.client(seed: 2, in: try fixture.death())
        #expect(second.queries.isFresh(.track(1)))
    }

    @Test(arguments: [false, true])
    func `an applied write settles even if the following fetch fails`(
        isObserved: Bool
    ) async throws {
        let client = try await stored()
        let following = isObserved ? client.observe(.track(1)) { _ in } : nil
        // An observed value may be fetched twice: when it is invalidated and when the write
        // settles.
        fixture.backend.failReads(.status(500))
        try client.perform(PlayTrack(track: 1))
        try await client.settle()
        #expect(client.plays(1) == 1)
        #expect(client.outbox.summary == Outbox.Summary())
        #expect(!client.queries.isFresh(.track(1)))
        fixture.backend.failReads(nil)
        fixture.backend.change(1) { $0.plays = 9 }
        #expect(try await client.value(of: .track(1)).plays == 9)
        withExtendedLifetime(following) {}
    }

    @Test func `a crash after a failed fetch shows the applied write once`() async throws {
        let client = try await stored()
        fixture.backend.failRead(.status(500))
        try client.perform(PlayTrack(track: 1))
        try await client.settle()
        client.queries.entries.flush()
        fixture.connectivity.disconnect()
        let second = try fixture.client(seed: 2, in: try fixture.death())
        #expect(second.plays(1) == 1)
        #expect(!second.queries.isFresh(.track(1)))
    }

    @Test func `a value that no longer exists settles its writes`() async throws {
        let client = try await stored()
        fixture.backend.failRead(.status(404))
        try client.perform(PlayTrack(track: 1))
        try await client.settle()
        #expect(client.outbox.summary == Outbox.Summary())
    }

    @Test func `a cancelled synchronization returns before the write is answered`() async throws {
        let client = try await stored()
        fixture.network.hold()
        try client.perform(PlayTrack(track: 1))
        try await fixture.network.waitForHeld(1)
        let synchronization = Task { try await client.synchronize() }
        synchronization.cancel()
        await #expect(throws: SanguineError.cancelled) { try await synchronization.finished() }
        #expect(client.outbox.summary.unsent == 1)
    }
}
