import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

struct Song: Codable, Sendable, Equatable, Identifiable {
    var id: String
    var likes = 0
    var title = "Untitled"
}

extension ValueQuery where Value == Song {
    static func song(_ id: String) -> Self {
        ValueQuery("song", id, policy: .fresh(for: .minutes(5)).stored(.onDisk).retry(.never)) {
            try await $0.get("songs/\(id)")
        }
    }
}

extension ListQuery where Item == Song {
    static var songs: Self { ListQuery("songs", path: "songs", policy: .fresh(for: .minutes(5))) }
}

struct LikeSong: RemoteMutation {
    static let name = "song.like"
    let song: String
    var line: String?
    var lane: String { line ?? song }

    func effects(on view: inout MutationEffects) {
        view.update(.song(song)) { $0.likes += 1 }
        view.updateRows(of: .songs) { if $0.id == song { $0.likes += 1 } }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("songs/\(song)/like")
    }
}

struct RenameSong: RemoteMutation {
    static let name = "song.rename"
    let song: String
    let title: String
    var lane: String { "titles" }

    func effects(on view: inout MutationEffects) {
        view.update(.song(song)) { $0.title = title }
    }

    func send(_ request: MutationContext) async throws {
        let body = ["title": title]
        let renamed = try await request.post("songs/\(song)/title", body, as: Song.self)
        request.settle(.song(song), renamed)
    }
}

/// Used with a backend whose reads lag behind its writes.
struct CountPlay: RemoteMutation {
    static let name = "song.play"
    let song: String

    func effects(on view: inout MutationEffects) {
        view.update(.song(song)) { $0.likes += 1 }
    }

    func send(_ request: MutationContext) async throws {
        let made = try await request.post("songs/\(song)/like", as: Song.self)
        request.settle(.song(song)) { $0.likes >= made.likes }
    }
}

struct AddSong: RemoteMutation {
    static let name = "song.add"
    let id: String
    var lane: String { id }

    func effects(on view: inout MutationEffects) {
        view.insert(Song(id: id), into: .songs)
    }

    func send(_ request: MutationContext) async throws {
        let made = try await request.post("songs", as: Song.self)
        request.replaceID(id, by: made.id)
    }
}

struct RemoveSong: RemoteMutation {
    static let name = "song.remove"
    let song: String

    func effects(on view: inout MutationEffects) { view.remove(song, from: .songs) }

    func send(_ request: MutationContext) async throws {
        try await request.response("songs/\(song)", method: "DELETE")
    }
}

/// A backend that knows nothing of Sanguine except that it honors an `Idempotency-Key`.
final class SongServer: Sendable {
    struct State {
        var songs = ["a": Song(id: "a", likes: 10), "b": Song(id: "b", likes: 20)]
        var answers: [String: Song] = [:]
        /// The answers to the next writes, and whether the backend applies them.
        var failures: [(isDone: Bool, answer: ScriptedTransport.Answer)] = []
    }

    let state = Mutex(State())

    func fail(_ answer: ScriptedTransport.Answer, done isDone: Bool = false) {
        state.withLock { $0.failures.append((isDone, answer)) }
    }

    var songs: [String: Song] { state.withLock { $0.songs } }

    func set(_ song: Song) { state.withLock { $0.songs[song.id] = song } }

    func likes(of song: String) -> Int? { state.withLock { $0.songs[song]?.likes } }

    func network() -> ScriptedTransport {
        ScriptedTransport { [self] request in state.withLock { Self.answer(request, &$0) } }
    }

    private static func answer(
        _ request: TransportRequest,
        _ state: inout State
    ) -> ScriptedTransport.Answer {
        let path = request.url.path().split(separator: "/").map(String.init)
        guard request.method != "GET" else {
            guard path.count > 1 else {
                return .json(ListPage(items: state.songs.values.sorted { $0.id < $1.id }))
            }
            return state.songs[path[1]].map { .json($0) } ?? .status(404)
        }
        let failure = state.failures.isEmpty ? nil : state.failures.removeFirst()
        if let failure, !failure.isDone { return failure.answer }
        let key = request.headers["Idempotency-Key"] ?? ""
        if let answer = state.answers[key] { return failure?.answer ?? .json(answer) }
        var song = Song(id: "s\(state.songs.count)")
        if path.count > 1 {
            guard let known = state.songs[path[1]] else { return .status(404) }
            song = known
        }
        if path.last == "like" { song.likes += 1 }
        if path.last == "title" {
            let data = request.body ?? Data()
            let body = try? JSONDecoder().decode([String: String].self, from: data)
            song.title = body?["title"] ?? ""
        }
        state.songs[song.id] = request.method == "DELETE" ? nil : song
        state.answers[key] = song
        return failure?.answer ?? .json(song)
    }
}

/// Creates clients of a ``SongServer`` with clocks that a test advances.
struct SongFixture {
    let server = SongServer()
    let network: ScriptedTransport
    let delay = ManualClock()
    let wall = ManualWallClock()
    let connectivity = ManualConnectivity()
    let authorizer = TestAuthorizer()
    let folder: TemporaryFolder?

    init(onDisk: Bool = false) {
        network = server.network()
        folder = onDisk ? TemporaryFolder() : nil
    }

    /// Returns a new client, as a new process would create it.
    func client(
        seed: UInt64 = 1,
        change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        try TestClient(
            network: network,
            wall: wall,
            delay: delay,
            folder: folder,
            authorizer: authorizer,
            seed: seed
        ) { configuration in
            configuration.server = nil
            configuration.baseURL = URL(string: "http://songs.test")
            configuration.mutations = [
                LikeSong.self, RenameSong.self, CountPlay.self, AddSong.self, RemoveSong.self,
            ]
            configuration.connectivity = connectivity
            configuration.lifecycle = ManualLifecycle()
            change(&configuration)
        }
        .client
    }

    var writes: [TransportRequest] { network.requests.filter(\.isWrite) }

    /// Advances the clock until the backend has received that many writes.
    ///
    /// A write is answered while the clock stands still: advancing it too late would end the wait
    /// that follows the answer.
    func pass(untilWrites count: Int, fileID: String = #fileID, line: Int = #line) async throws {
        for next in 1...count where writes.count < next {
            network.hold()
            try await eventually("write \(next) of \(count) is sent", fileID: fileID, line: line) {
                if writes.count < next { delay.advance(by: .seconds(1)) }
                return writes.count >= next
            }
            network.release()
        }
    }
}

extension TransportRequest {
    var isWrite: Bool { method != "GET" }
}

extension SanguineClient {
    /// Returns when no operation is pending or settling and no fetch for it is in flight, since a
    /// refresh would join that fetch.
    func settle(fileID: String = #fileID, line: Int = #line) async throws {
        let isSettled = { @Sendable (summary: Outbox.Summary) in
            summary.unsent + summary.settling == 0
        }
        try await outbox.updates.first(
            "a settled outbox",
            fileID: fileID,
            line: line,
            where: isSettled
        )
        try await users.current.mutations.settling.settleAll()
    }

    func likes(_ song: String) -> Int? { cached(.song(song))?.likes }
}

/// The likes that an observer of a song was shown.
final class ShownLikes: Sendable {
    private let shown = Mutex<[Int]>([])

    var values: [Int] { shown.withLock { $0 } }

    func follow(_ song: String, in client: SanguineClient) -> ObservationToken {
        client.observe(.song(song)) { [self] state in
            guard let likes = state.value?.likes else { return }
            shown.withLock { if $0.last != likes { $0.append(likes) } }
        }
    }
}
