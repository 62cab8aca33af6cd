import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport

@testable import Sanguine

/// A record that names a file.
struct GalleryPhoto: SyncedRecord {
    static let collection = RecordCollection("gallery")
    let id: RecordID
    var photo: String
}

/// Adds a photo, in its own lane if it has one.
struct AddPhoto: RecordMutation {
    static let name = "gallery.add"
    let id: RecordID
    let photo: String
    var line = "main"

    var lane: String { line }

    func apply(to records: inout Records) throws {
        records.set(GalleryPhoto(id: id, photo: photo))
    }
}

/// Removes a photo, and takes back an addition that was not sent if it is an undo.
struct RemovePhoto: RecordMutation, Superseding {
    static let name = "gallery.remove"
    let id: RecordID
    var isUndo = false

    var lane: String { "main" }

    func apply(to records: inout Records) throws { records.delete(GalleryPhoto.self, id) }

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        isUndo && (earlier as? AddPhoto)?.id == id ? .undoes : nil
    }
}

/// Shares a photo with another backend.
struct SharePhoto: RemoteMutation {
    static let name = "gallery.share"
    static let host = "share.test"
    let photo: String

    func effects(on view: inout MutationEffects) {}

    func send(_ request: MutationContext) async throws {
        try await request.post("photos", ["photo": photo])
    }
}

extension RecordSchema {
    static let gallery = RecordSchema(
        collections: [GalleryPhoto.collection],
        mutations: [AddPhoto.self, RemovePhoto.self]
    )
}

/// Clients on one folder that upload photos to an authority in memory, over a network that a test
/// makes unreliable.
final class GalleryStage: Sendable {
    /// What becomes of a request.
    enum Fate {
        case served
        /// It does not arrive.
        case lost
        /// It is served, and the response is lost.
        case unanswered
    }

    static let size = ImageSize(width: 40, height: 40)
    static let uploadPath = "/v1/blobs"

    let authority: InMemoryAuthority
    let network: ScriptedTransport
    let authorizer: TestAuthorizer
    let connectivity = ManualConnectivity()
    let delay = ManualClock()
    let folder = TemporaryFolder()
    private let wall: ManualWallClock
    private let launches = Mutex<UInt64>(0)
    private let fate: WatchedState<@Sendable (TransportRequest) -> Fate>

    /// - Parameter account: The account of the first user; `nil` if it is not known. Default: one
    ///   that the server knows.
    init(account: Identifier? = TestAuthorizer.account) {
        authorizer = TestAuthorizer(account: account)
        let wall = ManualWallClock()
        let authority = InMemoryAuthority(schema: .gallery, clock: wall)
        let accounts = [authority.user, authority.addAccount(), authority.addAccount()]
        let fate = WatchedState<@Sendable (TransportRequest) -> Fate>({ _ in .served })
        (self.wall, self.authority, self.fate) = (wall, authority, fate)
        network = ScriptedTransport { request in
            let happens = fate.value(request)
            guard happens != .lost else { return .fail(.offline("a test's network")) }
            guard request.url.host() != SharePhoto.host else { return .status(204) }
            var request = request
            let token = request.headers["Authorization"]?.split(separator: "-") ?? []
            let number = token.count > 1 ? Int(token[1]) ?? 0 : 0
            let own = await authority.accessToken(for: accounts[min(number, accounts.count - 1)])
            request.headers["Authorization"] = "Bearer \(own)"
            let response = await authority.answer(request)
            return happens == .served ? .respond(response) : .fail(.timedOut)
        }
    }

    /// Decides what becomes of later requests.
    func decide(_ body: @escaping @Sendable (TransportRequest) -> Fate) {
        fate.withLock { $0 = body }
    }

    /// Returns a new client, as a new process would create it.
    func client() throws -> SanguineClient {
        // A new process does not repeat the ids of the last one.
        let seed = launches.withLock { launches in
            launches += 1
            return launches
        }
        return try TestClient(
            network: network,
            wall: wall,
            delay: delay,
            folder: folder,
            authorizer: authorizer,
            seed: seed
        ) { configuration in
            configuration.schema = .gallery
            configuration.baseURL = URL(string: "https://\(SharePhoto.host)")
            configuration.register(SharePhoto.self)
            configuration.connectivity = connectivity
            configuration.deviceId = "a-device-of-the-tests"
        }
        .client
    }

    /// A picture; each number has another content.
    static func photo(_ number: Int = 0) -> RequestBody {
        .data(Data(SampleFile.png.bytes(filler: 100 + number)), type: "image/png")
    }

    /// The bodies of the requests to the other backend.
    var shared: [String] {
        network.requests.filter { $0.url.host() == SharePhoto.host }
            .map { String(decoding: $0.body ?? Data(), as: UTF8.self) }
    }

    /// Returns when an upload is held by the network.
    func waitForHeldUpload() async throws {
        try await eventually("a held upload") {
            network.held.contains { $0.url.path() == Self.uploadPath }
        }
    }

    /// The names of the files of all users that wait for their upload.
    var staged: [String] {
        let names = FileManager.default.enumerator(atPath: folder.url.path)?.allObjects ?? []
        return names.compactMap { $0 as? String }.filter { $0.contains("-files/") }.sorted()
    }

    /// The operations that the server has received.
    var pushed: [String] {
        network.requests.filter(\.isPush).map { String(decoding: $0.body ?? Data(), as: UTF8.self) }
    }

    var uploads: Int {
        network.requests.count { $0.method == "POST" && $0.url.path() == Self.uploadPath }
    }

    func photo(_ id: String) -> String? { authority.record(GalleryPhoto.self, .of(id))?.photo }
}

extension SanguineClient {
    func shownPhoto(_ id: String) -> String? { record(GalleryPhoto.self, .of(id))?.photo }

    @discardableResult
    func addPhoto(_ id: String, _ photo: String, line: String = "main") throws -> Receipt {
        try perform(AddPhoto(id: .of(id), photo: photo, line: line))
    }
}
