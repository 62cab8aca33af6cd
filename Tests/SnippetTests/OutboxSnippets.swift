import Foundation
import Sanguine
import TestSupport
import Testing

/// Values that previews and fakes create through the public interface only.
@Suite("Outbox snippets", .bounded)
struct OutboxSnippets {
    private static let id = Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa")

    private struct Row: Codable, Sendable, Equatable, Identifiable {
        var id = 1
    }

    @Test func `a new outbox has no pending operations`() throws {
        let client = try SanguineClient(.inMemory())
        defer { client.close() }
        let waiting = client.outbox.summary.unsent
        #expect(waiting == 0)
        #expect(client.outbox.summary == Outbox.Summary())
    }

    @Test func `an app can create a summary`() {
        let summary = Outbox.Summary(unsent: 1, settling: 2, refused: 3)

        #expect((summary.unsent, summary.settling, summary.refused) == (1, 2, 3))
    }

    @Test func `an app can create operations`() throws {
        let id = try #require(Self.id)
        let problem = Problem(.notOwner, "Ask its owner.")
        let waiting = Outbox.Operation(id: id, name: "song.like")
        let conflict = Refusal(.notFound, "Create the song first.")
        let other = Outbox.Operation(
            id: id,
            name: "song.like",
            lane: "a",
            phase: .sending,
            conflict: conflict
        )
        let refused = Outbox.Refused(id: id, name: "song.like", lane: "a", problem: problem)

        #expect(waiting.lane == "main" && waiting.phase == .queued && waiting.conflict == nil)
        #expect(other.lane == "a" && other.phase == .sending && other.conflict == conflict)
        #expect(refused.problem == problem && refused.id == id && refused.lane == "a")
    }

    @Test func `an app can create a store report`() {
        let file = URL(filePath: "/tmp/aside")
        let report = StoreReport(
            place: .memoryInsteadOfDisk,
            failure: "full",
            movedAside: [file],
            droppedRows: 2
        )

        #expect(report.failure == "full" && report.movedAside == [file])
        #expect(StoreReport(place: .disk) == StoreReport(place: .disk, failure: nil))
    }

    @Test func `an app can create states of lists and ranges`() {
        let list = ListSnapshot(items: [Row()], hasMore: true, phase: .ready)
        let part = RangeValues(range: 1...2, values: [1: "a"], missing: [2...2])

        #expect(list.items == [Row()] && list.hasMore && list.phase == .ready)
        #expect(!part.isComplete && part[1] == "a")
    }
}
