import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Fetching, caching and rotating the keys of an identity provider.
@Suite("Keys of identity providers", .bounded)
struct ProviderKeysTests {
    private func set(_ keys: [[String: JSONValue]]) -> [UInt8] {
        TestIssuer.encode(["keys": .array(keys.map { .object($0) })])
    }

    @Test func `keys are fetched once for many tokens`() async throws {
        let world = try IdentityWorld()
        for _ in 0..<50 { try await world.verify(try await world.issuer.token()) }
        #expect(world.server.count() == 1)
    }

    @Test func `concurrent first tokens wait for one fetch`() async throws {
        let world = try IdentityWorld()
        let token = try await world.issuer.token()
        let problems = await withTaskGroup(of: Problem?.self) { tasks in
            for _ in 0..<100 { tasks.addTask { await world.refusal(token) } }
            return await tasks.reduce(into: []) { $0.append($1) }
        }

        #expect(problems.allSatisfy { $0 == nil } && problems.count == 100)
        #expect(world.server.count() == 1)
    }

    private static let lives: [(String?, Int64?, Int)] = [
        (nil, nil, 3_600), ("public, max-age=21600", nil, 21_600), ("max-age=60", nil, 300),
        ("MAX-AGE=7200", 3_600, 3_600), ("max-age=99999999999", nil, 86_400),
        ("no-store", nil, 300),
        ("max-age=-1", nil, 300), ("max-age=x", nil, 300), ("max-age=7200, no-cache", nil, 300),
        ("private", nil, 3_600), ("max-age=7200", -9, 7_200), ("max-age=600", .max, 300),
    ]

    @Test(arguments: lives.indices)
    func `keys are cached as the provider says, within bounds`(index: Int) async throws {
        let (cacheControl, age, seconds) = Self.lives[index]
        let world = try IdentityWorld()
        world.server.set(.body(try world.issuer.keySet(), cacheControl: cacheControl, age: age))
        try await world.verify(try await world.issuer.token())
        world.wall.advance(by: .seconds(seconds - 1))
        try await world.verify(try await world.issuer.token(at: world.wall.now()))
        #expect(world.server.count() == 1)
        world.wall.advance(by: .seconds(1))
        try await world.verify(try await world.issuer.token(at: world.wall.now()))
        #expect(world.server.count() == 2)
    }

    @Test func `a rotated key is fetched at its first token, and the withdrawn one is refused`()
        async throws
    {
        let world = try IdentityWorld()
        let old = try await world.issuer.token()
        try await world.verify(old)
        let next = TestIssuer()
        world.server.set(.body(set([try next.key(.ec, id: "next")])))
        world.wall.advance(by: .seconds(30))
        let token = try await next.token(header: ["kid": "next"])

        #expect(await world.refusal(token) == nil)
        #expect(world.server.count() == 2)
        let problem = await world.refusal(old)
        #expect(problem?.detail == IdentityTokenFault.key.problem.detail)
    }

    @Test func `ten thousand unknown keys cause one fetch in thirty seconds`() async throws {
        let world = try IdentityWorld()
        try await world.verify(try await world.issuer.token())
        for number in 0..<10_000 {
            let kid = JSONValue.string("unknown-\(number)")
            let token = try await world.issuer.token(header: ["kid": kid]) { _ in [1] }
            let problem = await world.refusal(token)
            #expect(problem?.detail == IdentityTokenFault.key.problem.detail)
            if number % 1_000 == 999 { world.wall.advance(by: .seconds(30)) }
        }

        #expect(world.server.count() == 10)
        // Valid tokens are not affected.
        try await world.verify(try await world.issuer.token(at: world.wall.now()))
    }

    @Test func `the last keys are used while the provider cannot be reached, for a week`()
        async throws
    {
        let world = try IdentityWorld()
        try await world.verify(try await world.issuer.token())
        for script: ScriptedKeyServer.Script in [.unreachable, .status(500), .status(302)] {
            world.server.set(script)
            world.wall.advance(by: .seconds(86_400))
            let token = try await world.issuer.token(at: world.wall.now())
            #expect(await world.refusal(token) == nil)
        }
        #expect(world.server.reports.count == 3)
        world.wall.advance(by: .seconds(4 * 86_400))
        let token = try await world.issuer.token(at: world.wall.now())
        #expect(await world.refusal(token)?.code == .overloaded)
        world.server.set(.body(try world.issuer.keySet()))
        world.wall.advance(by: .seconds(5))
        #expect(await world.refusal(token) == nil)
    }

    @Test func `without any keys the request can be sent again after five seconds`() async throws {
        let world = try IdentityWorld()
        world.server.set(.unreachable)
        let token = try await world.issuer.token()
        let problem = await world.refusal(token)

        #expect(problem?.code == .overloaded && problem?.retryAfter == 5)
        #expect(await world.refusal(token)?.code == .overloaded)
        #expect(world.server.count() == 1)
        world.wall.advance(by: .seconds(5))
        world.server.set(.body(try world.issuer.keySet()))
        #expect(await world.refusal(token) == nil)
    }

    @Test func `a silent key server is given up after five seconds`() async throws {
        let world = try IdentityWorld()
        world.server.set(.silent)
        let token = try await world.issuer.token()
        async let problem = world.refusal(token)
        try await world.delay.waitForSleepers(1)
        world.delay.advance(by: .seconds(5))

        #expect(await problem?.code == .overloaded)
        #expect(world.server.reports.first?.contains("in time") == true)
    }

    @Test func `a cancelled caller does not cancel the fetch of the others`() async throws {
        let world = try IdentityWorld()
        world.server.set(.silent)
        let token = try await world.issuer.token()
        let first = Task { await world.refusal(token) }
        try await world.delay.waitForSleepers(1)
        first.cancel()
        async let second = world.refusal(token)
        world.delay.advance(by: .seconds(5))

        #expect(try await first.finished()?.code == .overloaded)
        #expect(await second?.code == .overloaded)
        #expect(world.server.count() == 1)
    }

    private static let unusable = [
        "", "<html>Sign in</html>", "{}", #"{"keys":[]}"#, #"{"keys":{}}"#, "[]",
        #"{"keys":[{"kty":"oct","kid":"key-ES256","k":"c2VjcmV0","alg":"HS256"}]}"#,
        #"{"keys":[{"kty":"EC","crv":"P-256","kid":"key-ES256","x":"AA","y":"AA"}]}"#,
        #"{"keys":[{"kty":"RSA","kid":"key-RS256","n":"AQAB","e":"AQAB","alg":"RS256"}]}"#,
        String(repeating: " ", count: 1 << 16) + #"{"keys":[]}"#,
    ]

    @Test(arguments: unusable)
    func `a response without a usable key does not replace the keys`(body: String) async throws {
        let world = try IdentityWorld()
        try await world.verify(try await world.issuer.token())
        world.server.set(.body(Array(body.utf8)))
        world.wall.advance(by: .seconds(3_600))
        let token = try await world.issuer.token(at: world.wall.now())

        #expect(await world.refusal(token) == nil)
        #expect(world.server.count() == 2 && world.server.reports.count == 1)
    }

    @Test func `keys that cannot check a signature are ignored, and the others used`() async throws
    {
        let world = try IdentityWorld()
        let others: [[String: JSONValue]] = [
            ["kty": "AKP", "kid": "a", "alg": "ML-DSA-44"], ["kty": "oct", "kid": "b", "k": "AA"],
            ["kty": "EC", "crv": "secp256k1", "kid": "c", "x": "AA", "y": "AA"], ["kid": "d"], [:],
            try world.issuer.key(.ec, id: "encryption").merging(["use": "enc"]) { $1 },
        ]
        world.server.set(.body(try world.issuer.keySet(others)))

        #expect(await world.refusal(try await world.issuer.token(.rsa)) == nil)
        let token = try await world.issuer.token(header: ["kid": "encryption"])
        #expect(await world.refusal(token)?.detail == IdentityTokenFault.key.problem.detail)
    }

    @Test(arguments: TestIssuer.Kind.allCases)
    func `a key without an algorithm has the usual one of its type`(
        kind: TestIssuer.Kind
    ) async throws {
        let world = try IdentityWorld()
        var key = try world.issuer.key(kind)
        key["alg"] = nil
        world.server.set(.body(set([key])))

        #expect(await world.refusal(try await world.issuer.token(kind)) == nil)
    }

    private static let discovery = "https://id.example.com/.well-known/openid-configuration"

    private func discovered(_ document: [String: JSONValue]) async throws -> IdentityWorld {
        let world = try IdentityWorld { $0.keys = nil }
        world.server.set(.body(TestIssuer.encode(document)), for: Self.discovery)
        return world
    }

    @Test func `the address of the keys is discovered from the issuer`() async throws {
        let world = try await discovered([
            "issuer": "https://id.example.com", "jwks_uri": .string(TestIssuer.keysURL),
        ])
        for _ in 0..<2 {
            try await world.verify(try await world.issuer.token(at: world.wall.now()))
            world.wall.advance(by: .seconds(3_600))
        }

        #expect(world.server.count(Self.discovery) == 1 && world.server.count() == 2)
    }

    private static let wrongDocuments: [[String: JSONValue]] = [
        ["issuer": "https://id.example.org", "jwks_uri": .string(TestIssuer.keysURL)],
        ["jwks_uri": .string(TestIssuer.keysURL)], ["issuer": "https://id.example.com"],
        ["issuer": "https://id.example.com", "jwks_uri": "http://id.example.com/keys"],
        ["issuer": "https://id.example.com", "jwks_uri": "file:///etc/passwd"],
    ]

    @Test(arguments: wrongDocuments.indices)
    func `a discovery document of another issuer, or without a safe address, is refused`(
        index: Int
    ) async throws {
        let world = try await discovered(Self.wrongDocuments[index])

        #expect(await world.refusal(try await world.issuer.token())?.code == .overloaded)
        #expect(world.server.count() == 0)
    }

    @Test(arguments: [
        ("https://a.example/keys", true), ("http://127.0.0.1:8080/keys", true),
        ("http://localhost/keys", true), ("http://a.example/keys", false), ("a.example", false),
        ("https://user:password@a.example/", false), ("ftp://a.example/", false), ("", false),
        ("https:///keys", false),
    ])
    func `keys are fetched with TLS, or from this machine`(url: String, isPermitted: Bool) {
        #expect(IdentityProvider.isKeyURL(url) == isPermitted)
    }
}
