import SanguineModel
import SanguineTesting
import Synchronization

@testable import SanguineAuthority

/// A key server that responds as a test says, and counts the requests.
final class ScriptedKeyServer: KeyServer {
    /// The next responses to a URL.
    enum Script: Sendable {
        case body([UInt8], cacheControl: String? = nil, age: Int64? = nil)
        case status(Int)
        /// No connection.
        case unreachable
        /// No response until the request is cancelled.
        case silent
    }

    struct Unreachable: Error {}

    private struct State {
        var scripts: [String: Script] = [:]
        var counts: [String: Int] = [:]
        var reports: [String] = []
    }

    private let state = Mutex(State())

    /// Sets the responses to a URL until the next call.
    func set(_ script: Script, for url: String = TestIssuer.keysURL) {
        state.withLock { $0.scripts[url] = script }
    }

    /// The number of requests to a URL.
    func count(_ url: String = TestIssuer.keysURL) -> Int {
        state.withLock { $0.counts[url] ?? 0 }
    }

    /// The reported errors.
    var reports: [String] { state.withLock(\.reports) }

    func get(_ url: String, upTo bytes: Int) async throws -> KeyServerResponse {
        let script = state.withLock { state in
            state.counts[url, default: 0] += 1
            return state.scripts[url] ?? .status(404)
        }
        switch script {
        case .body(let body, let cacheControl, let age):
            return KeyServerResponse(
                status: 200,
                cacheControl: cacheControl,
                age: age,
                body: body
            )
        case .status(let status): return KeyServerResponse(status: status, body: [])
        case .unreachable: throw Unreachable()
        case .silent:
            // Ends when the task is cancelled.
            let (responses, end) = AsyncStream.makeStream(of: Never.self)
            for await _ in responses {}  // tidy: allow unbounded-wait: the caller cancels it.
            end.finish()
            throw CancellationError()
        }
    }

    func report(_ reason: String, of provider: String) {
        state.withLock { $0.reports.append(reason) }
    }
}

/// An authority that accepts the identity tokens of a ``TestIssuer``.
struct IdentityWorld {
    let wall = ManualClock()
    let delay = SanguineTesting.ManualClock()
    let server = ScriptedKeyServer()
    let issuer = TestIssuer()
    let storage = MemoryStorage()
    let authority: Authority

    init(_ change: (inout IdentityProvider) -> Void = { _ in }) throws {
        server.set(.body(try issuer.keySet()))
        var settings = AuthoritySettings()
        settings.identityProviders = [TestIssuer.provider(change)]
        authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            settings: settings,
            clock: wall,
            keyServer: server,
            delay: delay
        )
    }

    /// Verifies a token; fails with the problem.
    @discardableResult
    func verify(
        _ token: String,
        nonce: String = TestIssuer.nonce
    ) async throws(Problem) -> VerifiedIdentity {
        try await authority.identityTokens.verify(
            IdentityRequest(provider: "example", identityToken: token, nonce: nonce)
        )
    }

    /// The problem with which a token is refused, or `nil`.
    func refusal(_ token: String, nonce: String = TestIssuer.nonce) async -> Problem? {
        await problem { () throws(Problem) in try await verify(token, nonce: nonce) }
    }

    /// Creates a guest and returns the caller.
    func guest(_ number: Int = 1) async throws -> Identity {
        let request = GuestRequest(
            deviceId: "device-of-guest-\(number)",
            deviceSecret: Base64URL.encode([UInt8](repeating: 7, count: 32))
        )
        let session = try await authority.guest(request).signedIn.session
        return try await authority.tokens.verify(session.accessToken)
    }

    /// Binds a token to the caller's account.
    @discardableResult
    func register(_ token: String, _ identity: Identity) async throws(Problem) -> SignedIn {
        try await authority.register(
            IdentityRequest(
                provider: "example",
                identityToken: token,
                nonce: TestIssuer.nonce
            ),
            identity
        ).0
    }

    /// Signs in with a token.
    func signIn(_ token: String) async throws(Problem) -> SignedIn {
        try await authority.signIn(
            provider: "example",
            identityToken: token,
            nonce: TestIssuer.nonce,
            as: nil
        )
    }
}
