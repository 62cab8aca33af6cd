import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Rows that the app adds itself, from a push or a write's answer.
@Suite("Setting and updating lists", .bounded)
struct ListChangeTests {
    private let fixture = TrackFixture()

    @Test func `a pushed row is shown at once and survives a restart`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()

        let shown = client.update(.tracks) { $0.insert(Track(id: 9), at: 0) }
        client.queries.entries.flush()
        fixture.connectivity.disconnect()
        let second = try fixture.client(seed: 2, in: try fixture.death())

        #expect(shown?.map(\.id) == [9, 1, 2, 3, 4])
        #expect(client.rows.map(\.id) == [9, 1, 2, 3, 4])
        #expect(second.rows.map(\.id) == [9, 1, 2, 3, 4])
    }

    @Test func `updating a list that was never loaded does nothing`() throws {
        let client = try fixture.client()

        #expect(client.update(.tracks) { $0.append(Track(id: 9)) } == nil)
        #expect(client.cached(.tracks) == nil)
    }

    @Test func `the first of two rows with the same id is kept`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()

        client.update(.tracks) { $0.insert(Track(id: 3, plays: 7), at: 0) }

        #expect(client.rows.map(\.id) == [3, 1, 2, 4])
        #expect(client.rows.first?.plays == 7)
    }

    @Test func `a refresh in flight does not undo an update`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        fixture.network.hold()
        let refresh = Task { try await client.refresh(.tracks) }
        try await fixture.network.waitForHeld(1)

        fixture.backend.state.withLock { $0.tracks[2]?.title = "Pushed" }
        client.update(.tracks) { rows in
            for place in rows.indices where rows[place].id == 2 { rows[place].title = "Pushed" }
        }
        try await eventually("the refresh starts over") { fixture.network.requests.count >= 4 }
        fixture.network.release()
        try await refresh.finished()

        #expect(client.rows.first { $0.id == 2 }?.title == "Pushed")
    }

    @Test func `continuous pushes do not prevent a refresh from finishing`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        fixture.network.hold()
        let refresh = Task { try await client.refresh(.tracks) }
        try await fixture.network.waitForHeld(1)
        let before = fixture.network.requests.count

        for plays in 1...50 {
            client.update(.tracks) { rows in rows[0].plays = plays }
        }
        try await eventually("the last restart is sent") {
            fixture.network.requests.count == before + PageLimits.restarts
        }
        fixture.network.release()
        try await refresh.finished()

        #expect(fixture.network.requests.count == before + PageLimits.restarts)
    }

    @Test func `an operation's effect stays shown after an update`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        fixture.connectivity.disconnect()
        try client.perform(PlayTrack(track: 1))

        client.update(.tracks) { rows in rows[0].title = "New" }

        #expect(client.rows.first?.plays == 1)
        #expect(client.rows.first?.title == "New")
    }

    @Test func `a list that is set is fresh, complete and shown to observers`() async throws {
        let client = try fixture.client()
        let requests = fixture.network.requests.count

        #expect(client.set([Track(id: 5), Track(id: 6)], for: .tracks))
        let rows = try await client.value(of: .tracks)

        #expect(rows.map(\.id) == [5, 6])
        #expect(!client.snapshot(of: .tracks).hasMore)
        #expect(client.cached(.tracks)?.map(\.id) == [5, 6])
        #expect(fixture.network.requests.count == requests)
    }

    @Test func `a first page that is set continues at its cursor`() async throws {
        let client = try fixture.client()
        let page = ListPage(items: [Track(id: 1), Track(id: 2)], hasMore: true, nextCursor: "2")

        client.set(page, for: .tracks)
        try await client.loadNext(.tracks)

        #expect(client.rows.map(\.id) == [1, 2, 3, 4])
    }

    @MainActor
    @Test func `a model shows rows that are set and updated`() async throws {
        let client = try fixture.client()
        client.set([Track(id: 5)], for: .tracks)
        let model = client.model(.tracks)

        client.update(.tracks) { $0.append(Track(id: 6)) }

        try await eventually("the model has the row") { model.items.count == 2 }
        #expect(model.items.map(\.id) == [5, 6])
    }

    @Test func `rows that one user has set are not visible to the next user`() async throws {
        let client = try fixture.client()
        client.set([Track(id: 5)], for: .tracks)

        await client.signOut()

        #expect(client.cached(.tracks) == nil)
        #expect(client.update(.tracks) { $0.append(Track(id: 6)) } == nil)
    }

    @Test func `the row of an answer replaces the optimistic row`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        let requests = fixture.network.requests.count

        try client.perform(AnsweredTrack(track: 9))
        try await client.settle()

        #expect(client.rows.last?.title == "Answered")
        #expect(client.rows.map(\.id) == [1, 2, 3, 4, 9])
        #expect(fixture.network.requests.count == requests + 1)  // The write; no read follows.
        #expect(client.outbox.pending.isEmpty)
    }

    @Test func `an operation is pending until the row of its answer is shown`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        let shown = Mutex<[String]>([])
        let outbox = client.users.current.outbox
        let observation = client.users.services.outboxNotifier.follow {
            guard outbox.pending().isEmpty, let row = client.rows.first(where: { $0.id == 9 })
            else { return }
            shown.withLock { $0.append(row.title) }
        }

        try client.perform(AnsweredTrack(track: 9))
        try await client.settle()

        #expect(Set(shown.withLock { $0 }) == ["Answered"])
        withExtendedLifetime(observation) {}
    }
}

/// Inserts the row of the answer.
struct AnsweredTrack: RemoteMutation {
    static let name = "track.answered"
    let track: Int

    func effects(on view: inout MutationEffects) {
        view.insert(Track(id: track), into: .tracks, at: .max)
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("tracks/\(track)")
        request.settle(.tracks, row: Track(id: track, title: "Answered"))
    }
}
