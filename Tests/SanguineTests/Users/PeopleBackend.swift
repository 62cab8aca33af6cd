import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

struct Words: Codable, Sendable, Equatable {
    var words: [String]
}

extension ValueQuery where Value == Words {
    /// The words of a person, stored on disk.
    static var said: Self {
        ValueQuery("said", policy: .forever.stored(.onDisk).retry(.never)) {
            try await $0.get("said")
        }
    }

    /// Data shared by everyone, stored on disk.
    static var news: Self {
        let policy = Policy.forever.stored(.onDisk).audience(.device).retry(.never)
        return ValueQuery("news", policy: policy) { try await $0.get("news") }
    }
}

struct Say: RemoteMutation {
    static let name = "say"
    let text: String

    func effects(on view: inout MutationEffects) {
        view.update(.said) { $0.words.append(text) }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("said", ["text": text])
    }
}

/// A device that several users of an app's own backend share.
///
/// The app holds the token of the current user, which is their name; the backend rejects requests
/// without a token.
struct PeopleBackend {
    /// An entry that a person has posted, with their token.
    struct Deed: Hashable {
        let person: String
        let text: String
    }

    private struct State {
        var token: String?
        var deeds: [Deed] = []
        var keys: [String] = []
    }

    private final class Server: Sendable {
        let state = Mutex(State())

        func answer(_ request: TransportRequest) -> ScriptedTransport.Answer {
            guard let person = request.headers["Token"] else { return .status(401) }
            guard request.method == "POST" else {
                if request.url.path() == "/tracks" { return .json(ListPage(items: [Track(id: 1)])) }
                guard request.url.path() == "/said" else { return .json(Words(words: ["news"])) }
                let deeds = state.withLock { $0.deeds }.filter { $0.person == person }
                return .json(Words(words: ["\(person)-hello"] + deeds.map(\.text)))
            }
            let body = try? JSONDecoder().decode(
                [String: String].self,
                from: request.body ?? Data()
            )
            let key = request.headers["Idempotency-Key"] ?? ""
            state.withLock { state in
                guard !state.keys.contains(key) else { return }
                state.keys.append(key)
                state.deeds.append(Deed(person: person, text: body?["text"] ?? ""))
            }
            return .status(204)
        }
    }

    let network: ScriptedTransport
    let device: TestDevice
    private let server = Server()

    init(seed: UInt64 = 1, fault: PlantedFault? = nil) {
        let server = server
        network = ScriptedTransport { server.answer($0) }
        device = TestDevice(network: network, seed: seed) { configuration in
            configuration.server = nil
            configuration.baseURL = URL(string: "http://people.test")
            configuration.baseHeaders = {
                server.state.withLock { $0.token }.map { ["Token": $0] } ?? [:]
            }
            configuration.register(Say.self)
            configuration.plantedFault = fault
        }
    }

    /// The token that the app holds.
    var token: String? {
        get { server.state.withLock { $0.token } }
        nonmutating set { server.state.withLock { $0.token = newValue } }
    }

    /// The deeds that the backend applied, in order.
    var deeds: [Deed] { server.state.withLock { $0.deeds } }

    /// Signs a person in as an app would.
    func signIn(_ person: String, to client: SanguineClient) throws {
        token = person
        try client.signIn(as: person)
    }

    /// Signs out as an app would.
    func signOut(
        of client: SanguineClient,
        keeping: SanguineClient.Keeping = .waitingOperations()
    ) async {
        token = nil
        await client.signOut(keeping: keeping)
    }
}
