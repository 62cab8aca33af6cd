import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The like of a later version of the app, with the new member `by`.
private struct LikeBy: RemoteMutation, Defaulted {
    static let name = LikeSong.name
    static let defaults = LikeBy(song: "", by: 1)
    let song: String
    var by: Int
    var lane: String { song }

    func effects(on view: inout MutationEffects) {
        view.update(.song(song)) { [by] in $0.likes += by }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("songs/\(song)/like")
    }
}

/// A later version without a declared default.
private struct LikeBare: RemoteMutation {
    static let name = LikeSong.name
    let song: String
    var by: Int

    func effects(on view: inout MutationEffects) {}
    func send(_ request: MutationContext) async throws {}
}

/// A song of a later version of the app, with the same query.
private struct LaterSong: Codable, Sendable, Equatable, Defaulted {
    static let defaults = LaterSong(id: "")
    var id: String
    var likes = 0
    var title = "Untitled"
    var plays = 3
}

@Suite("Changed mutation types", .bounded)
struct MutationTypeChangeTests {
    private func left() async throws -> SongFixture {
        let fixture = SongFixture(onDisk: true)
        let first = try fixture.client()
        _ = try await first.value(of: .song("a"))
        fixture.connectivity.disconnect()
        try first.perform(LikeSong(song: "a"))
        first.close()
        return fixture
    }

    @Test func `a queued mutation gets the default of a new member and is sent`() async throws {
        let fixture = try await left()
        let client = try fixture.client(seed: 2) { $0.mutations = [LikeBy.self] }
        #expect(client.likes("a") == 11 && client.outbox.refused.isEmpty)
        fixture.connectivity.connect()
        try await client.settle()
        #expect(fixture.server.likes(of: "a") == 11)
    }

    @Test func `a mutation that cannot be decoded is in the tray and names the member`()
        async throws
    {
        let fixture = try await left()
        let client = try fixture.client(seed: 2) { $0.mutations = [LikeBare.self] }
        let refused = try #require(client.outbox.refused.first)
        #expect(refused.problem.detail.contains("the member 'by' is missing"))
        let error = #expect(throws: SanguineError.self) { try client.outbox.retry(refused.id) }
        #expect(error?.description.contains("the member 'by' is missing") == true)
    }

    @Test func `an undecodable mutation is sent after an update that can decode it`() async throws {
        let fixture = try await left()
        try fixture.client(seed: 2) { $0.mutations = [LikeBare.self] }.close()
        let client = try fixture.client(seed: 3) { $0.mutations = [LikeBy.self] }
        #expect(client.outbox.pending.count == 1 && client.likes("a") == 11)
        fixture.connectivity.connect()
        try await client.settle()
        #expect(fixture.server.likes(of: "a") == 11)
    }

    @Test func `a refused mutation is retried after an update`() async throws {
        let fixture = SongFixture(onDisk: true)
        let first = try fixture.client()
        fixture.server.fail(.status(422))
        let receipt = try first.perform(LikeSong(song: "a"))
        guard case .refused = try await receipt.outcome else {
            Issue.record("It was not refused.")
            return
        }
        first.close()
        let client = try fixture.client(seed: 2) { $0.mutations = [LikeBy.self] }
        try client.outbox.retry(try #require(client.outbox.refused.first).id)
        try await client.settle()
        #expect(fixture.server.likes(of: "a") == 11)
    }

    @Test func `a stored value gets the default of a new member`() async throws {
        let fixture = try await left()
        let query = ValueQuery<LaterSong>(
            "song",
            "a",
            policy: .fresh(for: .minutes(5)).stored(.onDisk)
        ) { try await $0.get("songs/a") }
        let client = try fixture.client(seed: 2) { $0.mutations = [] }
        #expect(client.cached(query)?.plays == 3 && client.cached(query)?.likes == 10)
    }
}
