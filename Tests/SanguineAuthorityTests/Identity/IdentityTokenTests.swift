import Crypto
import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The checks of identity tokens, each with a token that fails only this one.
@Suite("Identity tokens", .bounded)
struct IdentityTokenTests {
    private static let now = ManualClock.start.millisecondsSince1970 / 1_000

    private static func hash(_ text: String) -> [UInt8] {
        Array(SHA256.hash(data: Data(text.utf8)))
    }

    private static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 0xF, radix: 16) }.joined()
    }

    @Test(arguments: TestIssuer.Kind.allCases)
    func `a token of the provider identifies its person`(kind: TestIssuer.Kind) async throws {
        // Guards the tests below: each of them changes one part of this token.
        let world = try IdentityWorld()
        let verified = try await world.verify(try await world.issuer.token(kind))

        #expect(verified.provider == "example" && verified.subject == "ada-1")
        #expect(verified.email == nil)
        #expect(verified.expiresAt == ManualClock.start + .seconds(660))
        #expect(world.server.count() == 1)
    }

    private static let wrongClaims: [(String, JSONValue, IdentityTokenFault)] = [
        ("iss", "https://id.example.org", .issuer), ("iss", "https://id.example.com/", .issuer),
        ("iss", .null, .issuer), ("iss", 7, .issuer),
        ("aud", "com.example.other", .audience), ("aud", .null, .audience), ("aud", "", .audience),
        ("aud", .array([]), .audience),
        ("aud", .array(["com.example.app", "com.example.other"]), .audience),
        ("aud", .array(["com.example.app", 7]), .audience),
        ("aud", ["a": "com.example.app"], .audience),
        ("exp", .integer(now - 60), .expired), ("exp", .null, .expired), ("exp", "soon", .expired),
        ("exp", .integer(.max), .expired), ("exp", -1, .expired), ("exp", .number(1e300), .expired),
        ("iat", .integer(now + 61), .issuedLater), ("iat", .null, .issuedLater),
        ("iat", .integer(now - 86_400 - 60), .tooOld), ("iat", 0, .tooOld),
        ("nbf", .integer(now + 61), .notYetValid), ("nbf", "now", .notYetValid),
        ("nonce", "another", .nonce), ("nonce", .null, .nonce), ("nonce", "", .nonce),
        ("nonce", true, .nonce), ("sub", .null, .subject), ("sub", "", .subject),
        ("sub", .string(String(repeating: "s", count: 256)), .subject), ("sub", 7, .subject),
        ("sub", "ada 1", .subject), ("sub", "adä", .subject), ("sub", "ada\n", .subject),
    ]

    @Test(arguments: wrongClaims.indices)
    func `a token with one wrong claim is refused, and told which`(index: Int) async throws {
        let (name, value, fault) = Self.wrongClaims[index]
        let world = try IdentityWorld()
        let problem = await world.refusal(try await world.issuer.token(claims: [name: value]))

        #expect(problem?.code == .identityTokenInvalid, "\(name) \(value)")
        #expect(problem?.detail == fault.problem.detail, "\(name) \(value)")
    }

    private static let permittedClaims: [(String, JSONValue)] = [
        ("aud", .array(["com.example.app"])),
        ("aud", .array(["com.example.app", "com.example.web"])),
        ("aud", "com.example.web"), ("azp", "com.example.android"),
        ("exp", .integer(now - 59)), ("exp", .number(Double(now) + 0.5)),
        ("iat", .integer(now + 60)), ("iat", .integer(now - 86_400)),
        ("nbf", .integer(now + 60)), ("unknown", ["a": .array([1, 2])]),
        ("sub", .string(String(repeating: "s", count: 255))), ("sub", "000982.83267ae.1340|x"),
    ]

    @Test(arguments: permittedClaims.indices)
    func `permitted claims are accepted, with a minute for clocks`(index: Int) async throws {
        let (name, value) = Self.permittedClaims[index]
        let world = try IdentityWorld()
        let token = try await world.issuer.token(claims: [name: value])

        #expect(await world.refusal(token) == nil, "\(name) \(value)")
    }

    @Test func `the nonce is accepted as it is, and as its hash in each usual form`() async throws {
        let world = try IdentityWorld()
        let hash = Self.hash(TestIssuer.nonce)
        let forms = [
            TestIssuer.nonce, Self.hex(hash), Self.hex(hash).uppercased(), Base64URL.encode(hash),
            Data(hash).base64EncodedString(),
        ]
        for form in forms {
            let token = try await world.issuer.token(claims: ["nonce": .string(form)])
            #expect(await world.refusal(token) == nil, "\(form)")
        }
    }

    @Test func `a provider with hashed nonces refuses a nonce that was read from the token`()
        async throws
    {
        let world = try IdentityWorld { $0.nonce = .hashed }
        let hashed = Self.hex(Self.hash(TestIssuer.nonce))
        let token = try await world.issuer.token(claims: ["nonce": .string(hashed)])

        #expect(await world.refusal(token) == nil)
        let stolen = await world.refusal(token, nonce: hashed)
        #expect(stolen?.detail == IdentityTokenFault.nonce.problem.detail)
    }

    @Test(arguments: ["", String(repeating: "n", count: 513), "a\nb"])
    func `a nonce of a wrong form is invalid content`(nonce: String) async throws {
        let world = try IdentityWorld()
        let token = try await world.issuer.token()

        #expect(await world.refusal(token, nonce: nonce)?.code == .invalidContent)
    }

    @Test(arguments: ["none", "None", "nOnE", "HS256", "HS512", ""])
    func `an unsigned or symmetric algorithm is refused before any key is fetched`(
        name: String
    ) async throws {
        let world = try IdentityWorld()
        for sign: @Sendable ([UInt8]) -> [UInt8] in [{ _ in [] }, { _ in [1, 2, 3] }] {
            let token = try await world.issuer.token(header: ["alg": .string(name)], sign: sign)
            let problem = await world.refusal(token)
            #expect(problem?.detail == IdentityTokenFault.algorithm.problem.detail)
        }
        #expect(world.server.count() == 0)
    }

    @Test(arguments: ["RS384", "PS256", "ES384", "EdDSA", "RS256", "es256"])
    func `a key is used for its own algorithm only`(name: String) async throws {
        let world = try IdentityWorld()
        let token = try await world.issuer.token(.ec, header: ["alg": .string(name)])
        let problem = await world.refusal(token)

        #expect(problem?.detail == IdentityTokenFault.algorithm.problem.detail)
    }

    @Test func `a public key is not accepted as a symmetric key`() async throws {
        let world = try IdentityWorld()
        let secrets = try TestIssuer.publicKeyForms() + [world.issuer.keySet()]
        for secret in secrets {
            let token = try await world.issuer.token(.rsa, header: ["alg": "HS256"]) { content in
                let key = SymmetricKey(data: secret)
                return Array(HMAC<SHA256>.authenticationCode(for: content, using: key))
            }
            let problem = await world.refusal(token)
            #expect(problem?.detail == IdentityTokenFault.algorithm.problem.detail)
        }
    }

    @Test(arguments: TestIssuer.Kind.allCases)
    func `a signature of another key is refused`(kind: TestIssuer.Kind) async throws {
        let world = try IdentityWorld()
        let other = P256.Signing.PrivateKey()
        let token = try await world.issuer.token(kind) { content in
            try Array(other.signature(for: content).rawRepresentation)
        }
        let problem = await world.refusal(token)

        #expect(problem?.detail == IdentityTokenFault.signature.problem.detail)
    }

    @Test func `a key inside the token is not used`() async throws {
        let world = try IdentityWorld()
        let other = TestIssuer()
        let key = JSONValue.object(try other.key(.ec))
        let headers: [[String: JSONValue]] = [
            ["jwk": key], ["jku": "https://evil.example.com/keys"], ["x5u": "https://evil.example"],
        ]
        for header in headers {
            let problem = await world.refusal(try await other.token(.ec, header: header))
            #expect(problem?.detail == IdentityTokenFault.signature.problem.detail)
        }
        #expect(world.server.count("https://evil.example.com/keys") == 0)
    }

    @Test func `the key id must be one of the provider`() async throws {
        let world = try IdentityWorld()
        for id: JSONValue in ["other", "", 7, "../keys"] {
            let problem = await world.refusal(try await world.issuer.token(header: ["kid": id]))
            #expect(problem?.detail == IdentityTokenFault.key.problem.detail, "\(id)")
        }
    }

    @Test func `an access token or a critical extension is refused`() async throws {
        let world = try IdentityWorld()
        let access = await world.refusal(try await world.issuer.token(header: ["typ": "at+jwt"]))
        #expect(access?.detail == IdentityTokenFault.type.problem.detail)
        let critical = try await world.issuer.token(header: ["crit": .array(["b64"]), "b64": false])
        #expect(
            await world.refusal(critical)?.detail == IdentityTokenFault.malformed.problem.detail
        )
        #expect(await world.refusal(try await world.issuer.token(header: ["typ": .null])) == nil)
    }

    @Test func `a token with any byte changed is refused`() async throws {
        let world = try IdentityWorld()
        let token = try await world.issuer.token()
        var random = SplitMix64(seed: 11)
        for _ in 1...200 {
            var bytes = Array(token.utf8)
            let index = Int.random(in: bytes.indices, using: &random)
            bytes[index] = bytes[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            let changed = String(decoding: bytes, as: UTF8.self)
            #expect(await world.refusal(changed)?.code == .identityTokenInvalid, "byte \(index)")
        }
    }

    @Test func `a text that is no token is refused`() async throws {
        let world = try IdentityWorld()
        let token = try await world.issuer.token()
        let texts = [
            "", ".", "..", "a.b.c", token + ".", "." + token, token + "\n", token + "=",
            " " + token,
            String(repeating: "A", count: 1_000_000), "e30.e30.", "W10.W10.AA",
            token + String(repeating: "A", count: 1 << 14),
        ]
        for text in texts {
            let problem = await world.refusal(text)
            #expect(problem?.code == .identityTokenInvalid, "\(text.prefix(40))")
        }
        #expect(world.server.count() == 0)
    }

    @Test func `a claim that occurs twice is refused`() async throws {
        let world = try IdentityWorld()
        let header = TestIssuer.encode([
            "alg": "ES256", "kid": .string(TestIssuer.Kind.ec.keyID),
        ])
        var claims = String(decoding: TestIssuer.encode(TestIssuer.claims()), as: UTF8.self)
        claims.removeLast()
        claims += #","sub":"eve"}"#
        let content = [header, Array(claims.utf8)].map { Base64URL.encode($0) }
            .joined(separator: ".")
        let signature = try await world.issuer.signature(.ec, Array(content.utf8))
        let problem = await world.refusal(content + "." + Base64URL.encode(signature))

        #expect(problem?.detail == IdentityTokenFault.malformed.problem.detail)
    }

    private static let emails: [(JSONValue, JSONValue, String?)] = [
        ("ada@example.org", true, "ada@example.org"),
        ("ada@example.org", "true", "ada@example.org"),
        ("Ada@Example.ORG", true, "ada@example.org"), ("adä@example.org", true, "adä@example.org"),
        ("ada@example.org", false, nil), ("ada@example.org", "false", nil),
        ("ada@example.org", .null, nil), ("ada", true, nil), ("a b@example.org", true, nil),
        (.string(String(repeating: "a", count: 255) + "@example.org"), true, nil), (7, true, nil),
    ]

    @Test(arguments: emails.indices)
    func `only an e-mail address that the provider verified is shown`(index: Int) async throws {
        let (email, isVerified, expected) = Self.emails[index]
        let world = try IdentityWorld()
        let token = try await world.issuer.token(
            claims: ["email": email, "email_verified": isVerified]
        )

        #expect(try await world.verify(token).email == expected)
    }

    @Test func `both issuers of Google and that of Apple are known`() throws {
        let google = IdentityProvider.google(audiences: ["a"])
        #expect(google.issuers == ["https://accounts.google.com", "accounts.google.com"])
        #expect(IdentityProvider.known("apple", audiences: ["a"]) == .apple(audiences: ["a"]))
        #expect(IdentityProvider.known("other", audiences: ["a"]) == nil)
        for provider in [google, .apple(audiences: ["a"])] {
            #expect(IdentityProvider.isKeyURL(try #require(provider.keys)))
        }
    }

    @Test func `either issuer of a provider is accepted`() async throws {
        let world = try IdentityWorld { $0.issuers.append("id.example.com") }
        for issuer: JSONValue in ["https://id.example.com", "id.example.com"] {
            let token = try await world.issuer.token(claims: ["iss": issuer])
            #expect(await world.refusal(token) == nil)
        }
    }

    @Test func `an unknown provider is invalid content that names the known ones`() async throws {
        let world = try IdentityWorld()
        let request = IdentityRequest(provider: "apple", identityToken: "a.b.c", nonce: "n")
        let problem = await problem { () throws(Problem) in
            try await world.authority.identityTokens.verify(request)
        }

        #expect(problem?.code == .invalidContent)
        #expect(problem?.detail.contains("'example'") == true)
    }
}
