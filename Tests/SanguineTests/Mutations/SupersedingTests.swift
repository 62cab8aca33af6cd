import Foundation
import Logging
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

private struct UnlikeSong: RemoteMutation, Superseding {
    static let name = "song.unlike"
    let song: String
    var lane: String { song }

    func effects(on view: inout MutationEffects) {
        view.update(.song(song)) { $0.likes -= 1 }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("songs/\(song)/unlike")
    }

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        (earlier as? LikeSong)?.song == song ? .undoes : nil
    }
}

/// Only the last title counts.
private struct TitleSong: RemoteMutation, Superseding {
    static let name = "song.entitle"
    let song: String
    let title: String
    var lane: String { song }

    func effects(on view: inout MutationEffects) {
        view.update(.song(song)) { $0.title = title }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("songs/\(song)/title", ["title": title])
    }

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        (earlier as? TitleSong)?.song == song ? .replaces : nil
    }
}

/// Also withdraws queued operations on the song.
private struct DropSong: RemoteMutation, Superseding {
    static let name = "song.drop"
    let song: String
    var lane: String { song }

    func effects(on view: inout MutationEffects) { view.remove(song, from: .songs) }

    func send(_ request: MutationContext) async throws {
        try await request.response("songs/\(song)", method: "DELETE")
    }

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        switch earlier {
        case let made as AddSong: made.id == song ? .undoes : nil
        case let titled as TitleSong: titled.song == song ? .replaces : nil
        default: nil
        }
    }
}

/// Operations that make other unsent operations unnecessary.
@Suite("Superseding operations", .bounded)
struct SupersedingTests {
    private let fixture: SongFixture

    init() { fixture = SongFixture(onDisk: true) }

    private func client(seed: UInt64 = 1) throws -> SanguineClient {
        try fixture.client(seed: seed) {
            $0.mutations += [UnlikeSong.self, TitleSong.self, DropSong.self]
        }
    }

    @Test func `a like and an unlike while offline cancel each other out`() async throws {
        let client = try client()
        _ = try await client.value(of: .song("a"))
        fixture.connectivity.disconnect()
        let like = try client.perform(LikeSong(song: "a"))
        #expect(client.likes("a") == 11)
        let unlike = try client.perform(UnlikeSong(song: "a"))

        #expect(client.likes("a") == 10)
        #expect(client.outbox.pending.isEmpty)
        #expect(try await like.outcome == .withdrawn)
        #expect(try await unlike.outcome == .withdrawn)
        fixture.connectivity.connect()
        try await client.synchronize()
        #expect(fixture.writes.isEmpty)
    }

    @Test func `cancelled operations do not return in the next process`() throws {
        let client = try client()
        fixture.connectivity.disconnect()
        try client.perform(LikeSong(song: "a"))
        try client.perform(UnlikeSong(song: "a"))
        client.close()

        #expect(try self.client(seed: 2).outbox.pending.isEmpty)
    }

    @Test func `an operation that was sent is not undone, and the other one follows it`()
        async throws
    {
        let client = try client()
        fixture.network.hold()
        let like = try client.perform(LikeSong(song: "a"))
        try await fixture.network.waitForHeld(1)
        let unlike = try client.perform(UnlikeSong(song: "a"))

        #expect(client.outbox.pending.map(\.id) == [like.id, unlike.id])
        fixture.network.release()
        #expect(try await like.outcome == .applied)
        #expect(try await unlike.outcome == .applied)
        #expect(fixture.writes.map { $0.url.lastPathComponent } == ["like", "unlike"])
    }

    @Test func `the newest of several is undone, in its own lane`() throws {
        let client = try client()
        fixture.connectivity.disconnect()
        let first = try client.perform(LikeSong(song: "a"))
        try client.perform(LikeSong(song: "a"))
        let elsewhere = try client.perform(LikeSong(song: "a", line: "other"))
        try client.perform(UnlikeSong(song: "a"))

        #expect(client.outbox.pending.map(\.id) == [first.id, elsewhere.id])
    }

    @Test func `a title replaces queued titles and is shown without a flicker`() async throws {
        let client = try client()
        _ = try await client.value(of: .song("a"))
        let shown = RecordedLog()
        let following = client.observe(.song("a")) { shown.logger.info("\($0.value?.title ?? "")") }
        fixture.connectivity.disconnect()
        let first = try client.perform(TitleSong(song: "a", title: "1"))
        let like = try client.perform(LikeSong(song: "a"))
        let last = try client.perform(TitleSong(song: "a", title: "2"))

        #expect(client.outbox.pending.map(\.id) == [like.id, last.id])
        #expect(try await first.outcome == .withdrawn)
        #expect(shown.messages.filter { $0 == "Untitled" }.count == 1)
        #expect(Set(shown.messages) == ["Untitled", "1", "2"])
        fixture.connectivity.connect()
        try await client.settle()
        #expect(fixture.server.songs["a"]?.title == "2" && fixture.writes.count == 2)
        withExtendedLifetime(following) {}
    }

    @Test func `a removal undoes the creation and withdraws the operations in between`()
        async throws
    {
        let client = try client()
        try await client.value(of: .songs)
        fixture.connectivity.disconnect()
        try client.perform(AddSong(id: "new"))
        try client.perform(TitleSong(song: "new", title: "1"))
        try client.perform(DropSong(song: "new"))

        #expect(client.outbox.pending.isEmpty)
        #expect(client.snapshot(of: .songs).items.map(\.id) == ["a", "b"])
    }

    @Test func `a full outbox accepts an operation that makes others unnecessary`() throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client {
            $0.schema = RecordSchema(
                collections: [Counter.collection],
                mutations: [Count.self, SetCount.self, ForgetCounter.self]
            )
        }
        for number in 1..<RecordLimits.operations { try client.add("c\(number)") }
        try client.perform(SetCount(id: .of("a"), to: 1))
        #expect(throws: SanguineError.outboxFull(limit: RecordLimits.operations)) {
            try client.add("more")
        }
        try client.perform(SetCount(id: .of("a"), to: 2))
        #expect(client.count("a") == 2)
        try client.perform(ForgetCounter(id: .of("a")))
        #expect(client.count("a") == nil)
        #expect(client.outbox.summary.unsent == RecordLimits.operations - 1)
    }
}

private struct SetCount: RecordMutation, Superseding {
    static let name = "counter.set"
    let id: RecordID
    let to: Int64
    var isRefused = false

    func apply(to records: inout Records) throws {
        let count = records.get(Counter.self, id)?.count ?? 0
        guard count < to else { throw Refusal(.invalidContent, "Count up.") }
        records.set(Counter(id: id, count: to))
    }

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        (earlier as? SetCount)?.id == id ? .replaces : nil
    }
}

private struct ForgetCounter: RecordMutation, Superseding {
    static let name = "counter.forget"
    let id: RecordID

    func apply(to records: inout Records) throws {
        guard records.get(Counter.self, id) != nil else {
            throw Refusal(.notFound, "Count first.")
        }
        records.delete(Counter.self, id)
    }

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        (earlier as? SetCount)?.id == id ? .undoes : nil
    }
}

/// Mutations of records that make others unnecessary.
@Suite("Superseding mutations", .bounded)
struct SupersedingMutatorTests {
    private static func client(_ fixture: RecordsFixture) throws -> SanguineClient {
        try fixture.client {
            $0.schema = RecordSchema(
                collections: [Counter.collection],
                mutations: [Count.self, SetCount.self, ForgetCounter.self]
            )
        }
    }

    @Test func `a mutation replaces a queued one`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try Self.client(fixture)
        let first = try client.perform(SetCount(id: .of("a"), to: 1))
        let last = try client.perform(SetCount(id: .of("a"), to: 2))

        #expect(client.count("a") == 2)
        #expect(client.outbox.pending.map(\.id) == [last.id])
        #expect(try await first.outcome == .withdrawn)
    }

    @Test func `a mutation undoes a queued one`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try Self.client(fixture)
        let made = try client.perform(SetCount(id: .of("a"), to: 1))
        let forgotten = try client.perform(ForgetCounter(id: .of("a")))

        #expect(client.count("a") == nil && client.outbox.pending.isEmpty)
        #expect(try await made.outcome == .withdrawn)
        #expect(try await forgotten.outcome == .withdrawn)
    }

    @Test func `a refused mutation does not change the queued ones`() throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try Self.client(fixture)
        let first = try client.perform(SetCount(id: .of("a"), to: 5))
        let refusal = #expect(throws: SanguineError.self) {
            try client.perform(SetCount(id: .of("a"), to: 4))
        }
        #expect(refusal?.code == "invalid_content")

        #expect(client.count("a") == 5)
        #expect(client.outbox.pending.map(\.id) == [first.id])
    }

    @Test func `a companion supersedes nothing because the app may be sending it`() throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let client = try Self.client(fixture)
        try client.perform(SetCount(id: .of("a"), to: 1))
        var configuration = SanguineClient.Configuration()
        configuration.folder = fixture.folder?.url
        configuration.schema = client.configuration.schema
        try SanguineCompanion(configuration).perform(SetCount(id: .of("a"), to: 2))
        client.users.current.outbox.loadForeignOperations()

        #expect(client.count("a") == 2 && client.outbox.pending.count == 2)
    }
}
