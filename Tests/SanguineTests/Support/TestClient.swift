import Foundation
import Logging
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

/// A client with a scripted network, manual clocks and a folder of its own or none.
struct TestClient {
    let client: SanguineClient
    let network: ScriptedTransport
    let wall: ManualWallClock
    let delay: ManualClock

    static let server = "http://sanguine.test"

    init(
        network: ScriptedTransport = ScriptedTransport(),
        wall: ManualWallClock = ManualWallClock(),
        delay: ManualClock = ManualClock(),
        folder: TemporaryFolder? = nil,
        authorizer: (any Authorizer)? = TestAuthorizer(),
        seed: UInt64 = 1,
        change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws {
        var configuration = SanguineClient.Configuration(server: URL(string: Self.server))
        configuration.isInMemory = folder == nil
        configuration.folder = folder?.url
        configuration.transport = network
        configuration.clock = wall
        configuration.delay = delay
        configuration.random = RandomSource(SplitMix64(seed: seed))
        configuration.logger = .silent
        change(&configuration)
        self.network = network
        self.wall = wall
        self.delay = delay
        client = try SanguineClient(configuration, authorizer: authorizer)
    }

    /// How many retries the server's budget has, all of which this takes.
    func retriesLeft() -> Int {
        let retries = client.queries.attempts.backend.retries
        let host = URL(string: Self.server)?.hostKey ?? ""
        var random = SplitMix64(seed: 1)
        var count = 0
        while retries.wait(.zero, by: .standard, for: host, using: &random) != nil { count += 1 }
        return count
    }
}

/// A signed-in user who changes when a test says so.
final class TestAuthorizer: Authorizer {
    private struct State {
        var epoch: SessionEpoch
        var rejected = 0
    }

    private let state: Mutex<State>

    init(account: Identifier? = Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa")) {
        state = Mutex(State(epoch: SessionEpoch(number: 0, account: account)))
    }

    var epoch: SessionEpoch { state.withLock { $0.epoch } }
    var rejectedCount: Int { state.withLock { $0.rejected } }

    func accessToken(for epoch: SessionEpoch) async throws(SanguineError) -> String {
        state.withLock { "token-\($0.epoch.number)-\($0.rejected)" }
    }

    func rejected(
        _ token: String,
        for epoch: SessionEpoch
    ) async throws(SanguineError) -> String {
        state.withLock { $0.rejected += 1 }
        return try await accessToken(for: epoch)
    }

    /// What a session does at a sign-out, or a sign-in of somebody else.
    func change(to account: Identifier?, in client: SanguineClient) {
        client.queries.adopt(advance(to: account))
        client.pages.userChanged()
    }

    /// The first half of that: the user has changed, and the cache does not know.
    @discardableResult
    func advance(to account: Identifier?) -> SessionEpoch {
        state.withLock { state in
            state.epoch = SessionEpoch(number: state.epoch.number + 1, account: account)
            return state.epoch
        }
    }
}

/// A folder that is removed with the last reference to it.
final class TemporaryFolder: Sendable {
    let url: URL

    init() {
        url = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-\(UUID().uuidString)")
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    var file: URL { url.appending(path: StoreFile.name) }

    /// Whether the bytes of any file in it have the text in them.
    func contains(_ text: String) throws -> Bool {
        let files = try FileManager.default.contentsOfDirectory(
            at: url,
            includingPropertiesForKeys: nil
        )
        return try files.contains { try Data(contentsOf: $0).range(of: Data(text.utf8)) != nil }
    }
}

struct Profile: Codable, Sendable, Equatable {
    var name: String
}

extension Query where Value == Profile {
    // As in the documentation: this must stay so short.
    static func profile(_ id: String) -> Self {
        Query("profile", id, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
            try await request.get("profiles/\(id)")
        }
    }

    static func fleeting(_ id: String, audience: Policy.Audience = .user) -> Self {
        Query("fleeting", id, policy: .fresh(for: .minutes(5)).audience(audience)) { request in
            try await request.get("profiles/\(id)")
        }
    }
}

extension ScriptedTransport {
    /// Answers every profile with the name that is the last part of its path, and how often it did.
    static func profiles() -> ScriptedTransport {
        let count = Mutex(0)
        return ScriptedTransport { request in
            let number = count.withLock { count in
                count += 1
                return count
            }
            return .json(Profile(name: "\(request.url.lastPathComponent) \(number)"))
        }
    }
}

extension Logger {
    /// Logs nothing.
    static var silent: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}
