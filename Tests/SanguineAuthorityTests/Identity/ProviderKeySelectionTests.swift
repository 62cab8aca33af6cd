import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The choice of a provider's key for a token.
@Suite("Choice of a provider's key", .bounded)
struct ProviderKeySelectionTests {
    private let other = TestIssuer()

    private func set(_ keys: [[String: JSONValue]]) -> ScriptedKeyServer.Script {
        .body(
            TestIssuer.encode([
                "keys": .array(keys.map { .object($0.filter { $0.value != .null }) })
            ])
        )
    }

    private func refusal(_ token: String, _ world: IdentityWorld) async -> String? {
        await world.refusal(token)?.detail
    }

    @Test func `all keys with the id of a token are tried`() async throws {
        let world = try IdentityWorld()
        world.server.set(set([try other.key(.ec), try world.issuer.key(.ec)]))

        #expect(await refusal(try await world.issuer.token(), world) == nil)
        #expect(await refusal(try await other.token(), world) == nil)
        let third = try await TestIssuer().token()
        #expect(await refusal(third, world) == IdentityTokenFault.signature.problem.detail)
    }

    @Test func `at most eight keys with one id are used`() async throws {
        let world = try IdentityWorld()
        let others = try (1...8).map { _ in try TestIssuer().key(.ec) }
        world.server.set(set(others + [try world.issuer.key(.ec)]))

        let token = try await world.issuer.token()
        #expect(await refusal(token, world) == IdentityTokenFault.signature.problem.detail)
    }

    @Test(arguments: [true, false])
    func `a token without a key id is checked with the only key of its algorithm`(
        hasID: Bool
    ) async throws {
        let world = try IdentityWorld()
        var key = try world.issuer.key(.ec)
        if !hasID { key["kid"] = nil }
        world.server.set(set([try world.issuer.key(.rsa), key]))

        #expect(await refusal(try await world.issuer.token(header: ["kid": .null]), world) == nil)
        let forged = try await other.token(header: ["kid": .null])
        #expect(await refusal(forged, world) == IdentityTokenFault.signature.problem.detail)
    }

    @Test func `a token without a key id is refused if several keys have its algorithm`()
        async throws
    {
        let world = try IdentityWorld()
        let second = try other.key(.ec, id: "second")
        world.server.set(set([try world.issuer.key(.ec), second]))

        let token = try await world.issuer.token(header: ["kid": .null])
        #expect(await refusal(token, world) == IdentityTokenFault.key.problem.detail)
    }

    @Test func `a key that is listed twice counts once`() async throws {
        let world = try IdentityWorld()
        let key = try world.issuer.key(.ec)
        world.server.set(set([key, key]))

        #expect(await refusal(try await world.issuer.token(header: ["kid": .null]), world) == nil)
    }

    @Test func `a token with a key id is not checked with a key without one`() async throws {
        let world = try IdentityWorld()
        var key = try world.issuer.key(.ec)
        key["kid"] = nil
        world.server.set(set([key]))

        let token = try await world.issuer.token()
        #expect(await refusal(token, world) == IdentityTokenFault.key.problem.detail)
    }

    @Test(arguments: [JSONValue.null, "key-ES256"])
    func `a key that is replaced without a new id is fetched at its first token`(
        id: JSONValue
    ) async throws {
        let world = try IdentityWorld()
        let old = try await world.issuer.token(header: ["kid": id])
        try await world.verify(old)
        world.server.set(set([try other.key(.ec)]))
        let new = try await other.token(header: ["kid": id])
        #expect(await refusal(new, world) == IdentityTokenFault.signature.problem.detail)
        #expect(world.server.count() == 1)
        world.wall.advance(by: .seconds(30))

        #expect(await refusal(new, world) == nil)
        #expect(await refusal(old, world) == IdentityTokenFault.signature.problem.detail)
        #expect(world.server.count() == 2)
    }

    @Test func `a thousand wrong signatures cause one fetch in thirty seconds`() async throws {
        let world = try IdentityWorld()
        try await world.verify(try await world.issuer.token())
        for number in 1...1_000 {
            let token = try await world.issuer.token { _ in [1] }
            #expect(await refusal(token, world) == IdentityTokenFault.signature.problem.detail)
            if number % 250 == 0 { world.wall.advance(by: .seconds(30)) }
        }

        #expect(world.server.count() == 4)
    }
}
