import Crypto
import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The validation of access tokens, and their lifetime.
@Suite("Access tokens", .bounded)
struct AccessTokenTests {
    private let clock = ManualClock()
    private let keys = SigningKeys()
    private let identity = Identity(account: .numbered(1), session: .numbered(2))

    private func tokens(
        _ change: (inout AuthoritySettings) -> Void = { _ in },
        capacity: Int = AccessTokens.capacity,
        isLive: @escaping AccessTokens.SessionLookup = { _ in true }
    ) async -> AccessTokens {
        var settings = AuthoritySettings()
        change(&settings)
        return AccessTokens(
            keys: keys,
            settings: settings,
            clock: clock,
            capacity: capacity,
            isLive: isLive
        )
    }

    private func refused(_ token: String, _ tokens: AccessTokens) async -> ProblemCode? {
        await problem { () throws(Problem) in try await tokens.verify(token) }?.code
    }

    /// Creates a token with this header and these claims, signed by the closure.
    private func craft(
        _ header: [String: String],
        claims: [String: Any] = [:],
        sign: (Data) throws -> Data
    ) throws -> String {
        let now = Int(clock.now().millisecondsSince1970 / 1_000)
        var all: [String: Any] = [
            "iss": "sanguine", "aud": "sanguine", "sub": identity.account.description,
            "sid": identity.session.description, "iat": now, "exp": now + 900,
        ]
        all.merge(claims) { $1 }
        let content = try [header as Any, all]
            .map { Base64URL.encode(try JSONSerialization.data(withJSONObject: $0)) }
            .joined(separator: ".")
        return content + "." + Base64URL.encode(try sign(Data(content.utf8)))
    }

    private func ours(_ content: Data) throws -> Data {
        try keys.signingKey.signature(for: content)
    }

    private var header: [String: String] { ["alg": "EdDSA", "typ": "JWT", "kid": keys.keyID] }

    @Test func `a token identifies its account, both at first and when it is cached`() async throws
    {
        let tokens = await tokens()
        let token = try await tokens.issue(for: identity)

        #expect(try tokens.verifyRemembered(token) == nil)
        #expect(try await tokens.verify(token) == identity)
        #expect(try tokens.verifyRemembered(token) == identity)
        #expect(try await tokens.verify(token) == identity)
    }

    @Test func `all tokens can be expired at once, and tokens issued a second later are valid`()
        async throws
    {
        let tokens = await tokens()
        let old = try await tokens.issue(for: identity)
        _ = try await tokens.verify(old)
        tokens.expireAll()
        #expect(await refused(old, tokens) == .tokenExpired)
        clock.advance(by: .seconds(1))
        #expect(try await tokens.verify(tokens.issue(for: identity)) == identity)
    }

    @Test func `a token crafted with our key is valid`() async throws {
        // Guards the tests below: each of them changes one part of this token.
        #expect(await refused(try craft(header, sign: ours), await tokens()) == nil)
    }

    @Test(arguments: ["none", "None", "HS256", "ES256", "RS256", "eddsa", ""])
    func `another algorithm is refused, regardless of the signature`(name: String) async throws {
        var header = header
        header["alg"] = name
        let tokens = await tokens()

        #expect(await refused(try craft(header, sign: ours), tokens) == .unauthenticated)
        let bare = try craft(header) { _ in Data() }
        #expect(await refused(bare, tokens) == .unauthenticated)
        #expect(await refused(String(bare.dropLast()), tokens) == .unauthenticated)
    }

    @Test func `the public key is not accepted as a symmetric key`() async throws {
        var header = header
        header["alg"] = "HS256"
        let publicKey = keys.signingKey.publicKey.rawRepresentation
        let token = try craft(header) { content in
            let key = SymmetricKey(data: publicKey)
            return Data(HMAC<SHA256>.authenticationCode(for: content, using: key))
        }

        #expect(await refused(token, await tokens()) == .unauthenticated)
    }

    @Test(arguments: ["", "0000000000000000", "../../keys"])
    func `another key id is refused, even with our signature`(id: String) async throws {
        var header = header
        header["kid"] = id
        #expect(await refused(try craft(header, sign: ours), await tokens()) == .unauthenticated)
        header["kid"] = nil
        #expect(await refused(try craft(header, sign: ours), await tokens()) == .unauthenticated)
    }

    @Test(arguments: [
        ("iss", "other"), ("aud", "other"), ("sub", "ada"), ("sid", ""), ("iss", ""),
    ])
    func `other claims are refused, even with our signature`(
        claim: String,
        value: String
    ) async throws {
        let token = try craft(header, claims: [claim: value], sign: ours)

        #expect(await refused(token, await tokens()) == .unauthenticated)
    }

    @Test func `a token of an authority with another issuer or audience is refused`() async throws {
        let elsewhere = await tokens { $0.issuer = "elsewhere" }
        let audience = await tokens { $0.audience = "elsewhere" }
        let token = try await tokens().issue(for: identity)

        #expect(await refused(token, elsewhere) == .unauthenticated)
        #expect(await refused(token, audience) == .unauthenticated)
    }

    @Test func `a token is valid for fifteen minutes, cached or not`() async throws {
        let remembering = await tokens()
        let fresh = await tokens()
        let token = try await remembering.issue(for: identity)
        clock.advance(by: .seconds(899))
        #expect(await refused(token, remembering) == nil)
        clock.advance(by: .seconds(1))

        #expect(await refused(token, remembering) == .tokenExpired)
        #expect(await refused(token, fresh) == .tokenExpired)
        #expect(
            refusal { () throws(Problem) in try remembering.verifyRemembered(token) }?.code
                == .tokenExpired
        )
    }

    @Test func `a token with any part changed is refused`() async throws {
        let tokens = await tokens()
        let token = try await tokens.issue(for: identity)
        var random = SplitMix64(seed: 7)
        for _ in 1...200 {
            var bytes = Array(token.utf8)
            let index = Int.random(in: bytes.indices, using: &random)
            bytes[index] = bytes[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(
                await refused(String(decoding: bytes, as: UTF8.self), tokens) == .unauthenticated,
                "byte \(index)"
            )
        }
        for text in [
            "", ".", "..", "a.b.c", token + ".", "." + token, token + "\n", token + "A",
            String(repeating: "A", count: 1_000_000),
        ] {
            #expect(await refused(text, tokens) == .unauthenticated)
        }
        #expect(tokens.rememberedCount == 0)
    }

    @Test func `ending a session ends only its own tokens, cached or not`() async throws {
        let tokens = await tokens()
        let token = try await tokens.issue(for: identity)
        let other = try await tokens.issue(
            for: Identity(account: identity.account, session: .numbered(3))
        )
        _ = try await tokens.verify(token)
        tokens.end(identity.session)

        #expect(await refused(token, tokens) == .sessionEnded)
        #expect(await refused(other, tokens) == nil)
        clock.advance(by: .seconds(900))
        #expect(await refused(token, tokens) == .tokenExpired)
    }

    @Test func `at most the capacity of tokens is cached, and the newest are kept`() async throws {
        let tokens = await tokens(capacity: 8)
        var issued: [String] = []
        for number in UInt64(1)...30 {
            let token = try await tokens.issue(
                for: Identity(account: identity.account, session: .numbered(number))
            )
            issued.append(token)
            _ = try await tokens.verify(token)
            #expect(tokens.rememberedCount <= 8)
            #expect(try tokens.verifyRemembered(token) != nil)
        }
        #expect(try tokens.verifyRemembered(issued[0]) == nil)
        #expect(await refused(issued[0], tokens) == nil)
    }

    @Test func `expired tokens leave the cache without being used`() async throws {
        let tokens = await tokens()
        for number in UInt64(1)...1_024 {
            let identity = Identity(account: identity.account, session: .numbered(number))
            _ = try await tokens.verify(try await tokens.issue(for: identity))
        }
        #expect(tokens.rememberedCount == 1_024)
        clock.advance(by: .seconds(900))
        _ = try await tokens.verify(try await tokens.issue(for: identity))

        #expect(tokens.rememberedCount == 1)
    }
}
