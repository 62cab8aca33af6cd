import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

struct Track: Codable, Sendable, Equatable, Identifiable {
    var id: Int
    var plays = 0
    var title = "Untitled"
}

extension ValueQuery where Value == Track {
    static func track(_ id: Int) -> Self {
        ValueQuery("track", id, policy: .fresh(for: .minutes(5)).stored(.onDisk).retry(.never)) {
            try await $0.get("tracks/\(id)")
        }
    }
}

extension ListQuery where Item == Track {
    /// Two rows per page.
    static var tracks: Self {
        let policy = Policy.fresh(for: .minutes(5)).stored(.onDisk).retry(.never)
        return ListQuery("tracks", path: "tracks", policy: policy, size: 2)
    }
}

/// Adds, so that a duplicate is visible.
struct PlayTrack: RemoteMutation {
    static let name = "track.play"
    let track: Int
    var lane = "play"
    /// Whether the answer becomes the new value.
    var takesAnswer = false

    func effects(on view: inout MutationEffects) {
        view.update(.track(track)) { $0.plays += 1 }
        view.updateRows(of: .tracks) { if $0.id == track { $0.plays += 1 } }
    }

    func send(_ request: MutationContext) async throws {
        let played = try await request.post("tracks/\(track)/play", as: Track.self)
        if takesAnswer { request.settle(.track(track), played) }
    }
}

/// Sets, so that a duplicate is not visible.
struct RetitleTrack: RemoteMutation {
    static let name = "track.retitle"
    let track: Int
    let title: String
    var lane: String { "title" }

    func effects(on view: inout MutationEffects) {
        view.update(.track(track)) { $0.title = title }
        view.updateRows(of: .tracks) { if $0.id == track { $0.title = title } }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("tracks/\(track)/title", ["title": title])
    }
}

struct DropTrack: RemoteMutation {
    static let name = "track.drop"
    let track: Int

    func effects(on view: inout MutationEffects) { view.remove(track, from: .tracks) }

    func send(_ request: MutationContext) async throws {
        try await request.response("tracks/\(track)", method: "DELETE")
    }
}

struct AppendTrack: RemoteMutation {
    static let name = "track.append"
    let track: Int

    func effects(on view: inout MutationEffects) {
        view.insert(Track(id: track), into: .tracks, at: .max)
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("tracks/\(track)")
    }
}

/// Inserts at the top, in a separate lane.
struct AddTrack: RemoteMutation {
    static let name = "track.add"
    let track: Int
    var lane: String { "add \(track)" }

    func effects(on view: inout MutationEffects) {
        view.insert(Track(id: track), into: .tracks)
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("tracks/\(track)")
    }
}

/// A REST backend with tracks sorted by id, whose answers carry no version.
final class TrackBackend: Sendable {
    struct State {
        var tracks: [Int: Track] = [:]
        /// The answer given for each key, repeated when the request is resent.
        var answers: [String: Track] = [:]
        /// The answers to the next writes, and whether the backend applies them.
        var writeFaults: [(isDone: Bool, answer: ScriptedTransport.Answer)] = []
        /// The answers to the next reads.
        var readFaults: [ScriptedTransport.Answer] = []
        /// The answer to all reads, or `nil` for the usual answers.
        var readFault: ScriptedTransport.Answer?
    }

    let state: Mutex<State>

    init(tracks: ClosedRange<Int> = 1...4) {
        var state = State()
        for id in tracks { state.tracks[id] = Track(id: id) }
        self.state = Mutex(state)
    }

    func failWrite(_ answer: ScriptedTransport.Answer, done isDone: Bool = false) {
        state.withLock { $0.writeFaults.append((isDone, answer)) }
    }

    func failRead(_ answer: ScriptedTransport.Answer) {
        state.withLock { $0.readFaults.append(answer) }
    }

    /// Answers all reads with `answer`, or as usual if it is `nil`.
    func failReads(_ answer: ScriptedTransport.Answer?) {
        state.withLock { $0.readFault = answer }
    }

    func change(_ id: Int, _ body: (inout Track) -> Void) {
        state.withLock { state in
            guard var track = state.tracks[id] else { return }
            body(&track)
            state.tracks[id] = track
        }
    }

    var tracks: [Track] { state.withLock { $0.tracks.values.sorted { $0.id < $1.id } } }

    func network() -> ScriptedTransport {
        ScriptedTransport { [self] request in state.withLock { Self.answer(request, &$0) } }
    }

    private static func answer(
        _ request: TransportRequest,
        _ state: inout State
    ) -> ScriptedTransport.Answer {
        let path = request.url.path().split(separator: "/").map(String.init)
        let id = path.count > 1 ? Int(path[1]) ?? 0 : 0
        if request.method == "GET" {
            if let fault = state.readFault { return fault }
            if !state.readFaults.isEmpty { return state.readFaults.removeFirst() }
            guard path.count == 1 else { return state.tracks[id].map { .json($0) } ?? .status(404) }
            return .json(page(request.url, state))
        }
        let fault = state.writeFaults.isEmpty ? nil : state.writeFaults.removeFirst()
        if let fault, !fault.isDone { return fault.answer }
        let key = request.headers["Idempotency-Key"] ?? ""
        if state.answers[key] == nil {
            switch (request.method, path.last) {
            case ("DELETE", _): state.tracks[id] = nil
            case (_, "play"): state.tracks[id]?.plays += 1
            case (_, "title"):
                let body = try? JSONDecoder().decode(
                    [String: String].self,
                    from: request.body ?? Data()
                )
                state.tracks[id]?.title = body?["title"] ?? ""
            default: state.tracks[id] = state.tracks[id] ?? Track(id: id)
            }
            state.answers[key] = state.tracks[id] ?? Track(id: id)
        }
        return fault?.answer ?? .json(state.answers[key])
    }

    private static func page(_ url: URL, _ state: State) -> ListPage<Track> {
        let items = URLComponents(url: url, resolvingAgainstBaseURL: false)?.queryItems ?? []
        func number(_ name: String) -> Int? {
            items.first { $0.name == name }?.value.flatMap { Int($0) }
        }
        let after = state.tracks.values.sorted { $0.id < $1.id }
            .filter { $0.id > number("cursor") ?? .min }
        let rows = Array(after.prefix(number("limit") ?? 2))
        let next = rows.count < after.count ? rows.last.map { String($0.id) } : nil
        return ListPage(items: rows, hasMore: next != nil, nextCursor: next)
    }
}

/// Creates clients of a ``TrackBackend`` with clocks that a test advances.
struct TrackFixture {
    let backend: TrackBackend
    let network: ScriptedTransport
    let delay = ManualClock()
    let wall = ManualWallClock()
    let connectivity = ManualConnectivity()
    let authorizer = TestAuthorizer()
    let folder: TemporaryFolder

    init(tracks: ClosedRange<Int> = 1...4, folder: TemporaryFolder = TemporaryFolder()) {
        backend = TrackBackend(tracks: tracks)
        network = backend.network()
        self.folder = folder
    }

    /// Returns a new client, as a new process would create it: in its own folder or the fixture's,
    /// and with the fixture's user or its own session.
    func client(
        seed: UInt64 = 1,
        in folder: TemporaryFolder? = nil,
        session: Bool = false,
        change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        try TestClient(
            network: network,
            wall: wall,
            delay: delay,
            folder: folder ?? self.folder,
            authorizer: session ? nil : authorizer,
            seed: seed
        ) { configuration in
            configuration.server = nil
            configuration.baseURL = URL(string: "http://tracks.test")
            configuration.mutations = [
                PlayTrack.self, RetitleTrack.self, DropTrack.self, AppendTrack.self,
                AnsweredTrack.self, AddTrack.self,
            ]
            configuration.connectivity = connectivity
            configuration.lifecycle = ManualLifecycle()
            change(&configuration)
        }
        .client
    }

    /// Returns when a write waits for its retry.
    ///
    /// A send may take a minute; the first retry delays are shorter.
    func waitForRetry() async throws {
        try await eventually("a write waits for its retry") {
            delay.timeToNextWake.map { $0 < .seconds(30) } ?? false
        }
    }

    /// Returns a copy of the files that a process crashing now leaves on disk.
    func death() throws -> TemporaryFolder {
        let copy = TemporaryFolder()
        let files = FileManager.default
        try files.createDirectory(at: copy.url, withIntermediateDirectories: true)
        // The folder does not exist before something is stored.
        guard files.fileExists(atPath: folder.url.path) else { return copy }
        // Reads and writes the data, since `copyItem` never returns if a file shrinks while it is
        // copied.
        for path in try files.subpathsOfDirectory(atPath: folder.url.path) {
            let (from, to) = (folder.url.appending(path: path), copy.url.appending(path: path))
            var isFolder: ObjCBool = false
            guard files.fileExists(atPath: from.path, isDirectory: &isFolder) else { continue }
            if isFolder.boolValue {
                try files.createDirectory(at: to, withIntermediateDirectories: true)
            } else if let data = try? Data(contentsOf: from) {
                try data.write(to: to)
            }
        }
        return copy
    }
}

extension SanguineClient {
    func plays(_ track: Int) -> Int? { cached(.track(track))?.plays }

    /// The rows shown.
    var rows: [Track] { snapshot(of: .tracks).items }

    /// Loads both pages of the list.
    func loadTracks() async throws {
        try await value(of: .tracks)
        try await loadNext(.tracks)
    }
}
