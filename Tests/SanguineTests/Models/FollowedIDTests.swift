import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A model of an entity that is still being created continues with its real id.
@MainActor
@Suite("Models with temporary ids", .bounded)
struct FollowedIDTests {
    private let fixture = SongFixture()

    @Test func `a query's model switches to the real id and always shows a value`() async throws {
        let client = try fixture.client()
        client.set(Song(id: "new", title: "Blue"), for: .song("new"))
        let model = client.model(of: "new") { .song($0) }
        fixture.connectivity.disconnect()
        try client.perform(AddSong(id: "new"))
        try client.perform(LikeSong(song: "new"))
        #expect(model.value == Song(id: "new", likes: 1, title: "Blue"))
        fixture.connectivity.connect()
        try await eventually("the model has the real id") {
            #expect(model.value != nil)
            return model.value?.id == "s2"
        }
        try await client.settle()
        try await eventually("the song is liked") { model.value?.likes == 1 }

        #expect(client.model(of: "new") { .song($0) } === model)
        try client.perform(LikeSong(song: "new"))
        #expect(model.value?.likes == 2)
    }

    @Test func `a model created afterwards has the real id`() async throws {
        let client = try fixture.client()
        let receipt = try client.perform(AddSong(id: "new"))
        _ = try await receipt.outcome
        let model = client.model(of: "new") { .song($0) }
        try await eventually("the model has the real id") { model.value != nil }

        #expect(model.value?.id == "s2")
    }

    @Test func `an id that is not temporary stays`() async throws {
        let client = try fixture.client()
        let model = client.model(of: "a") { .song($0) }
        try await eventually("the model has the song") { model.value?.id == "a" }

        #expect(client.model(.song("a")) === model)
    }

    @Test func `a list's model switches to the real id and is never empty`() async throws {
        let client = try fixture.client()
        let songs = { (id: String) in
            ListQuery<Song>("songs of", id, policy: .fresh(for: .minutes(5))) { request, _ in
                let song = try await request.get("songs/\(id == "new" ? "a" : id)", as: Song.self)
                return ListPage(items: [song])
            }
        }
        let model = client.model(of: "new", songs)
        try await eventually("the model has the song") { model.items.map(\.id) == ["a"] }
        try client.perform(AddSong(id: "new"))
        try await eventually("the model has the real id") {
            #expect(!model.items.isEmpty)
            return model.items.map(\.id) == ["s2"]
        }
    }
}
