import Foundation
import Logging
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

/// A client with a scripted network, manual clocks, and its own folder or none.
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
        authorizer: (any AuthorizerSource)? = TestAuthorizer(),
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
        client = try SanguineClient(configuration, authorizers: authorizer)
    }

    /// Returns the number of retries left in the server's budget, and uses them all.
    func retriesLeft() -> Int {
        let retries = client.queries.entries.user.attempts.backend.retries
        let host = URL(string: Self.server)?.hostKey ?? ""
        var random = SplitMix64(seed: 1)
        var count = 0
        while retries.wait(.zero, by: .standard, for: host, using: &random) != nil { count += 1 }
        return count
    }
}

/// Signed-in users that a test changes; each has a number, which is part of their tokens.
final class TestAuthorizer: AuthorizerSource {
    private let state: Mutex<TestUser>

    static let account = Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa")

    init(account: Identifier? = TestAuthorizer.account) {
        state = Mutex(TestUser(number: 0, account: account))
    }

    /// The current user.
    var present: TestUser { state.withLock { $0 } }
    var account: Identifier? { state.withLock { $0.account } }
    var rejectedCount: Int { state.withLock { $0.rejectedCount } }

    func first() -> any Authorizer {
        state.withLock { state in
            // The same state as another process leaves for the user.
            state = TestUser(number: state.number, account: state.account, state.rejectedCount)
            return state
        }
    }

    func next(_ account: Identifier?) -> any Authorizer {
        state.withLock { state in
            state = TestUser(number: state.number + 1, account: account)
            return state
        }
    }

    /// Does what a session does when a guest's account becomes known.
    func join(_ account: Identifier?, in client: SanguineClient) {
        if let account { state.withLock { $0 }.join(account, in: client) }
    }

    /// Does what a session does at a sign-out or when another user signs in.
    func change(to account: Identifier?, in client: SanguineClient) {
        client.users.switchUser(to: account)
    }
}

/// One user with tokens that are always valid.
final class TestUser: Authorizer {
    private struct State {
        var account: Identifier?
        var rejected = 0
        var ending: SanguineError?
    }

    let number: Int
    private let state: Mutex<State>

    init(number: Int = 0, account: Identifier? = TestAuthorizer.account, _ rejected: Int = 0) {
        self.number = number
        state = Mutex(State(account: account, rejected: rejected))
    }

    var account: Identifier? { state.withLock { $0.account } }
    var rejectedCount: Int { state.withLock { $0.rejected } }

    func accessToken() async throws(SanguineError) -> String {
        try check()
        return state.withLock { "token-\(number)-\($0.rejected)" }
    }

    func rejected(_ token: String) async throws(SanguineError) -> String {
        state.withLock { $0.rejected += 1 }
        return try await accessToken()
    }

    func check() throws(SanguineError) {
        if let ending = state.withLock({ $0.ending }) { throw ending }
    }

    func end(_ reason: SanguineError) -> Ended {
        state.withLock { $0.ending = reason }
        return Ended()
    }

    /// Does what a session does when a guest's account becomes known.
    func join(_ account: Identifier, in client: SanguineClient) {
        state.withLock { $0.account = account }
        client.users.signedIn(client.users.current, account, isFirst: true)
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

    /// The store of the first user.
    var file: URL { user.appending(path: StoreFile.name) }

    /// The folder of the first user.
    var user: URL { url.appending(path: "users/1") }

    /// Whether any file in it contains the text.
    func contains(_ text: String) throws -> Bool {
        try !FileBytes.files(in: url, with: text).isEmpty
    }
}

struct Profile: Codable, Sendable, Equatable {
    var name: String
}

extension ValueQuery where Value == Profile {
    // As in the documentation: this must stay that short.
    static func profile(_ id: String) -> Self {
        ValueQuery("profile", id, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
            try await request.get("profiles/\(id)")
        }
    }

    static func fleeting(_ id: String, audience: Policy.Audience = .user) -> Self {
        ValueQuery("fleeting", id, policy: .fresh(for: .minutes(5)).audience(audience)) { request in
            try await request.get("profiles/\(id)")
        }
    }
}

extension ScriptedTransport {
    /// Answers each profile request with the last component of its path and a running count.
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
