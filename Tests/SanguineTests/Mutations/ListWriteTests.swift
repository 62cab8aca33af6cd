import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Writes to rows after the page that a refresh fetches.
@Suite("Writes to lists", .bounded)
struct ListWriteTests {
    private let fixture = TrackFixture()

    @Test func `a row after the first page keeps its write`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        let receipt = try client.perform(PlayTrack(track: 3))
        #expect(client.rows.map(\.plays) == [0, 0, 1, 0])
        #expect(try await receipt.outcome == .applied)
        try await client.settle()
        #expect(client.rows.map(\.plays) == [0, 0, 1, 0])
        try await client.refresh(.tracks)
        #expect(client.rows.map(\.plays) == [0, 0, 1, 0])
    }

    @Test func `a deleted row after the first page stays deleted`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        try client.perform(DropTrack(track: 4))
        try await client.settle()
        #expect(client.rows.map(\.id) == [1, 2, 3])
        try await client.refresh(.tracks)
        #expect(client.rows.map(\.id) == [1, 2, 3])
    }

    @Test func `a row that was appended after the first page stays`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        try client.perform(AppendTrack(track: 9))
        try await client.settle()
        #expect(client.rows.map(\.id) == [1, 2, 3, 4, 9])
        try await client.refresh(.tracks)
        #expect(client.rows.map(\.id) == [1, 2, 3, 4, 9])
    }

    @Test(arguments: [false, true])
    func `rows from two lanes keep their order if the second is applied first`(
        failsToRefresh: Bool
    ) async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        fixture.backend.failWrite(.status(503))
        try client.perform(AddTrack(track: -1))
        try await fixture.waitForRetry()
        if failsToRefresh { fixture.backend.failReads(.status(500)) }
        let seen = Mutex<[[Int]]>([])
        let source = client.queries.source(of: .tracks)
        let end = source.observe(
            ListSource<Track>.Observer(
                tell: { _ in
                    let rows = source.snapshot().items.map(\.id)
                    seen.withLock { if $0.last != rows { $0.append(rows) } }
                },
                finish: {}
            )
        )
        defer { end?() }
        let second = try client.perform(AddTrack(track: -2))
        #expect(try await second.outcome == .applied)
        try await eventually("the list is fetched") {
            let summary = client.outbox.summary
            return failsToRefresh
                ? client.snapshot(of: .tracks).error != nil
                : summary.unsent + summary.settling == 1
        }
        #expect(client.rows.map(\.id) == [-2, -1, 1, 2, 3, 4])
        fixture.backend.failReads(nil)
        fixture.delay.advance(by: .seconds(30))
        try await client.settle()
        try await client.refresh(.tracks)
        #expect(client.rows.map(\.id) == [-2, -1, 1, 2, 3, 4])
        let all = seen.withLock { $0 }
        #expect(all.allSatisfy { [[-1, 1, 2, 3, 4], [-2, -1, 1, 2, 3, 4]].contains($0) })
    }

    @Test func `deleting all rows of a page leaves the list complete`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        try client.perform(DropTrack(track: 3))
        try client.perform(DropTrack(track: 4))
        try await client.settle()
        #expect(client.rows.map(\.id) == [1, 2])
        for id in 5...7 { fixture.backend.state.withLock { $0.tracks[id] = Track(id: id) } }
        try await client.refresh(.tracks)
        while client.snapshot(of: .tracks).hasMore { try await client.loadNext(.tracks) }
        #expect(client.rows.map(\.id) == [1, 2, 5, 6, 7])
    }

    @Test func `a page that is loaded after a write was applied shows it once`() async throws {
        let client = try fixture.client()
        try await client.value(of: .tracks)
        fixture.backend.failRead(.status(500))
        try client.perform(PlayTrack(track: 3))
        try await client.settle()
        try await client.loadNext(.tracks)
        #expect(client.rows.map(\.plays) == [0, 0, 1, 0])
    }

    @Test func `an applied write to a list is shown once after a crash`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        try client.perform(PlayTrack(track: 3))
        try await client.settle()
        client.queries.entries.flush()
        fixture.connectivity.disconnect()
        let second = try fixture.client(seed: 2, in: try fixture.death())
        #expect(second.rows.map(\.plays) == [0, 0, 1, 0])
    }

    @Test(arguments: [1, 3])
    func `a row that may contain an unanswered write shows it once after a crash`(
        track: Int
    ) async throws {
        let client = try fixture.client()
        fixture.backend.failWrite(.fail(.interrupted("lost")), done: true)
        try client.perform(PlayTrack(track: track))
        try await fixture.waitForRetry()
        try await client.loadTracks()
        let plays = (1...4).map { $0 == track ? 1 : 0 }
        #expect(client.rows.map(\.plays) == plays)
        client.close()
        fixture.connectivity.disconnect()
        let second = try fixture.client(seed: 2)
        #expect(second.rows.map(\.plays) == plays)
        fixture.connectivity.connect()
        try await second.settle()
        #expect(second.rows.map(\.plays) == plays)
    }

    @Test func `a row whose write was answered late shows it once after a crash`() async throws {
        let client = try fixture.client()
        fixture.backend.failWrite(.fail(.interrupted("lost")), done: true)
        try client.perform(PlayTrack(track: 3))
        try await fixture.waitForRetry()
        try await client.loadTracks()
        fixture.network.hold()
        fixture.delay.advance(by: .seconds(30))
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst(where: \.isWrite)
        try await eventually("the write is answered") { client.outbox.summary.settling == 1 }
        client.queries.entries.flush()
        let second = try fixture.client(seed: 2, in: try fixture.death())

        #expect(second.rows.map(\.plays) == [0, 0, 1, 0])
    }

    @Test func `a write to a row that is not cached yet notifies observers`() async throws {
        let fixture = TrackFixture(tracks: 1...40)
        let client = try fixture.client()
        try await client.value(of: .tracks)
        while client.rows.count < 36 { try await client.loadNext(.tracks) }
        let last = try #require(client.rows.last?.id)
        fixture.network.hold()
        let updates = client.updates(of: .tracks)
        try client.perform(PlayTrack(track: last))
        try await updates.first("the last row with its play") { $0.items.last?.plays == 1 }
        #expect(client.rows.last?.plays == 1)
    }

    @Test func `discarding an operation notifies observers of rows that are not cached`()
        async throws
    {
        let fixture = TrackFixture(tracks: 1...40)
        let client = try fixture.client()
        try await client.value(of: .tracks)
        while client.rows.count < 36 { try await client.loadNext(.tracks) }
        let last = try #require(client.rows.last?.id)
        fixture.connectivity.disconnect()
        let updates = client.updates(of: .tracks)
        let receipt = try client.perform(PlayTrack(track: last))
        try await updates.first("the last row with its play") { $0.items.last?.plays == 1 }
        try client.outbox.discard(receipt.id)
        try await updates.first("the last row without its play") { $0.items.last?.plays == 0 }
    }

    @Test(arguments: 1...4)
    func `a list accepts another write after a row was deleted`(deleted: Int) async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        try client.perform(DropTrack(track: deleted))
        try await client.settle()
        let last = deleted == 4 ? 3 : 4
        try client.perform(PlayTrack(track: last))
        try await client.settle()
        let ids = (1...4).filter { $0 != deleted }
        #expect(client.rows.map(\.id) == ids)
        #expect(client.rows.map(\.plays) == ids.map { $0 == last ? 1 : 0 })
    }

    @Test
    func `a list that is stored while a write settles shows it once after a crash`() async throws {
        let client = try fixture.client()
        try await client.loadTracks()
        fixture.network.hold()
        try client.perform(PlayTrack(track: 3))
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst(where: \.isWrite)
        let queries = client.queries
        let entry = queries.source(of: ListQuery.tracks).entry
        func effect() -> Effect? { queries.entries.effects(on: entry.key)?.effects.first }
        try await eventually("the write is acknowledged") {
            effect()?.acknowledgedAt != nil
        }
        let effect = try #require(effect())
        // The source's rows contain the write and are stored before the cache records that.
        queries.extend(entry, size: { _ in nil }) { list, _ in
            effect.list?.merged(.of(list), effect).value(as: PageList<Track>.self)
        }
        client.close()
        fixture.connectivity.disconnect()
        let second = try fixture.client(seed: 2)

        #expect(second.rows.map(\.plays) == [0, 0, 1, 0])
    }
}
