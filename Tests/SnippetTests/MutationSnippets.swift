import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

struct Track: Codable, Sendable, Equatable, Identifiable {
    var id: String
    var likes = 0
    var title = ""
    var version = 0
}

extension ValueQuery where Value == Track {
    static func track(_ id: String) -> Self {
        ValueQuery("track", id, policy: .fresh(for: .minutes(5))) {
            try await $0.get("tracks/\(id)")
        }
    }
}

extension ListQuery where Item == Track {
    static var tracks: Self { ListQuery("tracks", path: "tracks") }
}

struct Like: RemoteMutation {
    static let name = "track.like"
    let track: String
    var lane: String { track }

    func effects(on view: inout MutationEffects) {
        view.update(.track(track)) { $0.likes += 1 }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("tracks/\(track)/like")
    }
}

struct Unlike: RemoteMutation, Superseding {
    static let name = "track.unlike"
    let track: String
    var lane: String { track }

    func effects(on view: inout MutationEffects) {
        view.update(.track(track)) { $0.likes -= 1 }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("tracks/\(track)/unlike")
    }

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        (earlier as? Like)?.track == track ? .undoes : nil
    }
}

struct RenameTrack: RemoteMutation {
    static let name = "track.rename"
    let track: String
    let title: String

    func effects(on view: inout MutationEffects) {
        view.update(.track(track)) { $0.title = title }
    }

    func send(_ request: MutationContext) async throws {
        let body = ["title": title]
        let renamed = try await request.post("tracks/\(track)/title", body, as: Track.self)
        request.settle(.track(track), renamed)
    }
}

struct PlayTrack: RemoteMutation {
    static let name = "track.play"
    let track: String

    func effects(on view: inout MutationEffects) {
        view.update(.track(track)) { $0.likes += 1 }
    }

    func send(_ request: MutationContext) async throws {
        let counted = try await request.post("tracks/\(track)/play", as: Track.self)
        request.settle(.track(track)) { $0.version >= counted.version }
    }
}

struct AddTrack: RemoteMutation {
    static let name = "track.add"
    let id: String
    var lane: String { id }

    func effects(on view: inout MutationEffects) { view.insert(Track(id: id), into: .tracks) }

    func send(_ request: MutationContext) async throws {
        let made = try await request.post("tracks", as: Track.self)
        request.replaceID(id, by: made.id)
        request.settle(.tracks, row: made)
    }
}

/// The samples of the guide to mutations.
@Suite("Mutation snippets", .bounded)
struct MutationSnippets {
    @Test func `a mutation is visible at once`() async throws {
        let network = ScriptedTransport { _ in .json(Track(id: "1", likes: 1)) }
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        configuration.register(Like.self, AddTrack.self)
        let client = try SanguineClient(configuration)
        client.set(Track(id: "1"), for: .track("1"))
        network.hold()

        let receipt = try client.perform(Like(track: "1"))
        #expect(client.cached(.track("1"))?.likes == 1)
        network.release()
        #expect(try await receipt.outcome == .applied)
        client.outbox.resume()
    }

    @Test func `a sent mutation is undone by another one`() async throws {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        let network = ScriptedTransport { _ in .json(Track(id: "1")) }
        configuration.transport = network
        configuration.register(Like.self, Unlike.self)
        let client = try SanguineClient(configuration)
        let receipt = try client.perform(Like(track: "1"))
        #expect(try await receipt.outcome == .applied)
        network.hold()
        if try !receipt.withdraw() { try client.perform(Unlike(track: "1")) }
        #expect(client.outbox.pending.contains { $0.name == Unlike.name })
        client.close()
    }

    @Test(arguments: ["ada", "bob"])
    func `a returning user claims their operations`(user: String) async throws {
        let lastUser = "ada"
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: folder) }
        var configuration = SanguineClient.Configuration()
        configuration.folder = folder
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = ScriptedTransport()
        configuration.register(Like.self)
        let client = try SanguineClient(configuration)
        try client.perform(Like(track: "1"))
        await client.signOut()
        #expect(client.outbox.unclaimed == 1)

        if user == lastUser {
            try client.outbox.claim()
        } else {
            try client.outbox.discardUnclaimed()
        }
        #expect(client.outbox.unclaimed == 0)
        #expect(client.outbox.pending.count == (user == lastUser ? 1 : 0))
    }
}

/// A backend that answers writes with redirects.
@Suite("Web page snippets", .bounded)
struct AnswerSnippets {
    @Test func `a backend's redirect is an answer`() throws {
        var configuration = SanguineClient.Configuration()

        configuration.isAnswer = { request, response in
            response.status == 303 || response.isAnswer(to: request)
        }

        let request = TransportRequest(method: "POST", url: URL(filePath: "/"))
        #expect(configuration.isAnswer(request, TransportResponse(status: 303)))
    }
}
