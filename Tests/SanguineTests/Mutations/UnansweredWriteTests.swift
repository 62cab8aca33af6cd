import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Fetched values while it is unknown whether a write was applied.
///
/// The backend's answers carry no version.
@Suite("Fetches during unanswered writes", .bounded)
struct UnansweredWriteTests {
    private let fixture = TrackFixture()

    /// Returns a client with a track and a write that the backend has applied but not answered.
    private func playing(isCached: Bool = true) async throws -> SanguineClient {
        let client = try fixture.client()
        if isCached { _ = try await client.value(of: .track(1)) }
        fixture.network.hold()
        try client.perform(PlayTrack(track: 1))
        try await fixture.network.waitForHeld(1)
        return client
    }

    /// Refreshes the track while writes are held.
    private func refresh(_ client: SanguineClient, held: Int = 1) async throws -> Track {
        let fetch = Task { try await client.refresh(.track(1)) }
        try await fixture.network.waitForHeld(held + 1)
        try await fixture.network.releaseFirst { !$0.isWrite }
        return try await fetch.finished()
    }

    @Test(arguments: [false, true])
    func `a replayed answer does not undo later changes`(
        isRestarted: Bool
    ) async throws {
        var client = try fixture.client()
        _ = try await client.value(of: .track(1))
        // The write is applied and its answer lost; the next send receives the same answer.
        fixture.backend.failWrite(.status(500), done: true)
        try client.perform(PlayTrack(track: 1, takesAnswer: true))
        try await eventually("a write is sent") {
            fixture.network.requests.contains(where: \.isWrite)
        }
        let later = try client.perform(PlayTrack(track: 1, lane: "other"))
        #expect(try await later.outcome == .applied)
        try await eventually("the later write is settled") { client.outbox.pending.count == 1 }
        if isRestarted {
            client.queries.entries.flush()
            client = try fixture.client(seed: 2, in: try fixture.death())
            #expect(client.plays(1) == 2)
        }
        try await client.synchronize()
        try await client.settle()
        #expect(client.plays(1) == 2)
    }

    @Test(arguments: [0, 1])
    func `changes by others are shown while an adding write is in flight`(
        plays: Int
    ) async throws {
        let client = try await playing()
        // The fetch may return the state before or after the write.
        fixture.backend.change(1) { $0 = Track(id: 1, plays: plays, title: "New") }
        #expect(try await refresh(client) == Track(id: 1, plays: 1, title: "New"))
        #expect(client.cached(.track(1)) == Track(id: 1, plays: 1, title: "New"))
    }

    @Test func `changes by others are shown while a setting write is in flight`() async throws {
        let client = try fixture.client()
        _ = try await client.value(of: .track(1))
        fixture.network.hold()
        try client.perform(RetitleTrack(track: 1, title: "Mine"))
        try await fixture.network.waitForHeld(1)
        fixture.backend.change(1) { $0 = Track(id: 1, plays: 7, title: "Theirs") }
        #expect(try await refresh(client) == Track(id: 1, plays: 7, title: "Mine"))
    }

    @Test func `two adding writes in flight are each shown once`() async throws {
        let client = try await playing()
        try client.perform(PlayTrack(track: 1, lane: "other"))
        try await fixture.network.waitForHeld(2)
        fixture.backend.change(1) { $0.title = "New" }
        #expect(try await refresh(client, held: 2) == Track(id: 1, plays: 2, title: "New"))
        fixture.network.release()
        try await client.settle()
        #expect(client.cached(.track(1)) == Track(id: 1, plays: 2, title: "New"))
    }

    @Test func `a first answer does not duplicate a write in flight`() async throws {
        let client = try await playing(isCached: false)
        #expect(try await refresh(client).plays == 1)
        fixture.network.release()
        try await client.settle()
        #expect(client.plays(1) == 1)
    }

    @Test func `a first answer shows a setting write in flight`() async throws {
        let client = try fixture.client()
        fixture.network.hold()
        try client.perform(RetitleTrack(track: 1, title: "Mine"))
        try await fixture.network.waitForHeld(1)
        fixture.backend.change(1) { $0.title = "Before" }
        #expect(try await refresh(client).title == "Mine")
    }

    @Test func `a rejected write is shown on the first answer`() async throws {
        fixture.backend.failWrite(.status(503))
        let client = try await playing(isCached: false)
        #expect(try await refresh(client).plays == 0)
        try await fixture.network.releaseFirst { $0.isWrite }
        try await fixture.waitForRetry()
        #expect(client.plays(1) == 1)
    }

    @Test func `a rejected write stays shown when it is resent`() async throws {
        fixture.backend.failWrite(.status(503))
        let client = try await playing(isCached: false)
        #expect(try await refresh(client).plays == 0)
        let load = Task { try await client.value(of: .tracks) }
        try await fixture.network.waitForHeld(2)
        try await fixture.network.releaseFirst { !$0.isWrite }
        try await load.finished()
        #expect(client.rows.first?.plays == 0)
        try await fixture.network.releaseFirst(where: \.isWrite)
        try await fixture.waitForRetry()
        #expect(client.rows.first?.plays == 1)

        fixture.delay.advance(by: .seconds(30))
        try await fixture.network.waitForHeld(1)

        #expect(client.plays(1) == 1)
        #expect(client.rows.first?.plays == 1)
    }

    @Test func `a 503 hides no change by others`() async throws {
        let client = try fixture.client()
        _ = try await client.value(of: .track(1))
        fixture.backend.failWrite(.status(503))
        try client.perform(PlayTrack(track: 1))
        try await fixture.waitForRetry()
        fixture.backend.change(1) { $0 = Track(id: 1, plays: 40, title: "New") }
        #expect(try await client.refresh(.track(1)) == Track(id: 1, plays: 41, title: "New"))
    }

    @Test(arguments: [false, true])
    func `a lost answer hides no change by others and duplicates nothing`(
        isDone: Bool
    ) async throws {
        let client = try fixture.client()
        _ = try await client.value(of: .track(1))
        fixture.backend.failWrite(.fail(.interrupted("test")), done: isDone)
        try client.perform(PlayTrack(track: 1))
        try await fixture.waitForRetry()
        fixture.backend.change(1) { $0.title = "New" }
        #expect(try await client.refresh(.track(1)) == Track(id: 1, plays: 1, title: "New"))
    }

    @Test func `a value withheld during a write is fetched once the write is rejected`()
        async throws
    {
        let client = try fixture.client()
        let following = client.observe(.track(1)) { _ in }
        fixture.backend.failWrite(.status(503))
        _ = try await client.value(of: .track(1))
        fixture.network.hold()
        try client.perform(PlayTrack(track: 1))
        try await fixture.network.waitForHeld(1)
        fixture.backend.change(1) { $0.plays = 40 }
        #expect(try await refresh(client).plays == 1)
        fixture.network.release()
        try await eventually("the backend's number with the play") { client.plays(1) == 41 }
        withExtendedLifetime(following) {}
    }

    @Test func `a refused write keeps the value fetched in the meantime`() async throws {
        fixture.backend.failWrite(.status(422))
        let client = try await playing()
        fixture.backend.change(1) { $0.title = "New" }
        #expect(try await refresh(client) == Track(id: 1, plays: 1, title: "New"))
        fixture.network.release()
        try await client.settle()
        try await eventually("the play is removed") {
            client.cached(.track(1)) == Track(id: 1, title: "New")
        }
    }

    @Test func `a value that may contain a write is not stored`() async throws {
        let client = try await playing(isCached: false)
        _ = try await refresh(client)
        client.queries.entries.flush()
        let second = try fixture.client(seed: 2, in: try fixture.death())
        #expect(second.plays(1) == nil)
    }

    @Test func `rows changed by others are shown while an adding write is in flight`()
        async throws
    {
        let client = try fixture.client()
        try await client.loadTracks()
        fixture.network.hold()
        try client.perform(PlayTrack(track: 1))
        try await fixture.network.waitForHeld(1)
        fixture.backend.change(1) { $0.title = "New" }
        fixture.backend.change(2) { $0.title = "Other" }
        let fetch = Task { try await client.refresh(.tracks) }
        try await fixture.network.waitForHeld(2)
        try await fixture.network.releaseFirst { !$0.isWrite }
        try await fetch.finished()
        #expect(client.rows.first == Track(id: 1, plays: 1, title: "New"))
        #expect(client.rows[1] == Track(id: 2, title: "Other"))
    }

    @Test func `a row that is loaded while its write is in flight shows it once`() async throws {
        let client = try fixture.client()
        try await client.value(of: .tracks)
        fixture.network.hold()
        try client.perform(PlayTrack(track: 3))
        try await fixture.network.waitForHeld(1)
        let fetch = Task { try await client.loadNext(.tracks) }
        try await fixture.network.waitForHeld(2)
        try await fixture.network.releaseFirst { !$0.isWrite }
        try await fetch.finished()
        #expect(client.rows.map(\.plays) == [0, 0, 1, 0])
        fixture.network.release()
        try await client.settle()
        #expect(client.rows.map(\.plays) == [0, 0, 1, 0])
    }
}
