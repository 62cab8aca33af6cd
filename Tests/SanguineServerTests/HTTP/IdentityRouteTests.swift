import Crypto
import Foundation
import Logging
import NIOCore
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority
@testable import SanguineServer

/// `POST /v1/accounts/identity`, with a provider on this machine.
@Suite("Identity tokens over HTTP", .bounded)
struct IdentityRouteTests {
    private let key = P256.Signing.PrivateKey()

    private var keySet: String {
        let point = Array(key.publicKey.rawRepresentation)
        return #"""
            {"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":"\#(Base64URL.encode(point[..<32]))",\#
            "y":"\#(Base64URL.encode(point[32...]))"}]}
            """#
    }

    private func token(
        _ issuer: String,
        at now: Timestamp,
        claims: [String: JSONValue] = [:]
    ) throws -> String {
        let seconds = now.millisecondsSince1970 / 1_000
        let own: [String: JSONValue] = [
            "iss": .string(issuer), "aud": "com.example.app", "sub": "ada-1", "nonce": "n-1",
            "iat": .integer(seconds), "exp": .integer(seconds + 600),
        ]
        let content = [["alg": "ES256", "kid": "k"], own.merging(claims) { $1 }]
            .map { Base64URL.encode(ResponseEncoder.encode(JSONValue.object($0))) }
            .joined(separator: ".")
        let signature = try key.signature(for: Data(content.utf8)).rawRepresentation
        return content + "." + Base64URL.encode(signature)
    }

    private func body(_ token: String, provider: String = "example") -> String {
        #"{"provider":"\#(provider)","identityToken":"\#(token)","nonce":"n-1"}"#
    }

    /// Runs a provider, and a server that accepts its tokens.
    private func with(
        _ body: @escaping @Sendable (LiveServer, _ issuer: String) async throws -> Void
    ) async throws {
        let keySet = keySet
        try await ScriptedUpstream.with { request in
            let host =
                request.head.split(separator: "\r\n")
                .first { $0.lowercased().hasPrefix("host: ") }?.dropFirst(6) ?? ""
            guard request.head.hasPrefix("GET /.well-known/openid-configuration ") else {
                return .bytes(ScriptedUpstream.json(keySet))
            }
            let issuer = "http://\(host)"
            let document = #"{"issuer":"\#(issuer)","jwks_uri":"\#(issuer)/keys"}"#
            return .bytes(ScriptedUpstream.json(document))
        } _: { provider in
            let issuer = "http://127.0.0.1:\(provider.port)"
            try await LiveServer.with {
                $0.settings.identity = [
                    IdentitySetting(name: "example", issuer: issuer, audiences: ["com.example.app"])
                ]
            } _: { server in
                try await body(server, issuer)
            }
        }
    }

    @Test func `a guest registers with a token, whose keys are discovered and fetched`()
        async throws
    {
        try await with { server, issuer in
            let guest = try await server.guest()
            let token = try token(issuer, at: server.setup.wall.now())
            let reply = try await guest.send("POST", "/v1/accounts/identity", body(token))

            #expect(reply.status == 200 && reply.head == 3)
            #expect(reply["Cache-Control"] == "no-store")
            let signedIn = try reply.decode(SignedIn.self)
            #expect(signedIn.account.id == guest.account.id)
            #expect(signedIn.account.kind == .registered)
            #expect(try await guest.get("/v1/account").code == "session_ended")
            let next = ["Authorization": "Bearer \(signedIn.session.accessToken)"]
            let account = try await server.send("GET", "/v1/account", headers: next)
            #expect(try account.decode(Account.self) == signedIn.account)
        }
    }

    @Test func `a refused token is 401 with the failed check, and the session continues`()
        async throws
    {
        try await with { server, issuer in
            let guest = try await server.guest()
            let token = try token(
                issuer,
                at: server.setup.wall.now(),
                claims: ["aud": "com.example.other"]
            )
            let reply = try await guest.send("POST", "/v1/accounts/identity", body(token))

            #expect(reply.status == 401 && reply.code == "identity_token_invalid")
            #expect(try reply.json["detail"]?.string?.contains("'aud'") == true)
            #expect(try await guest.get("/v1/account").status == 200)
        }
    }

    @Test func `an unknown provider or a missing member is invalid content`() async throws {
        try await with { server, issuer in
            let guest = try await server.guest()
            let token = try token(issuer, at: server.setup.wall.now())
            for body in [body(token, provider: "other"), #"{"provider":"example"}"#, "{}"] {
                let reply = try await guest.send("POST", "/v1/accounts/identity", body)
                #expect(reply.status == 422 && reply.code == "invalid_content")
            }
        }
    }

    private let server = HTTPKeyServer(
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    )

    @Test func `the caching headers of a key server are read`() async throws {
        try await ScriptedUpstream.with { _ in
            let headers = "Cache-Control: public, max-age=600\r\nAge: 20\r\n"
            return .bytes(ScriptedUpstream.json("{}", headers: headers))
        } _: { provider in
            let url = "http://127.0.0.1:\(provider.port)/keys"
            let response = try await server.get(url, upTo: 100)
            #expect(response.status == 200 && response.body == Array("{}".utf8))
            #expect(response.freshness == .seconds(580))
        }
    }

    @Test func `a redirect of a key server is not followed`() async throws {
        try await ScriptedUpstream.with { request in
            let location = "Location: /elsewhere\r\n"
            return .bytes(
                request.head.hasPrefix("GET /keys ")
                    ? ScriptedUpstream.json("{}", status: "302 Found", headers: location)
                    : ScriptedUpstream.json("{}")
            )
        } _: { provider in
            let url = "http://127.0.0.1:\(provider.port)/keys"
            let response = try await server.get(url, upTo: 100)
            #expect(response.status == 302)
        }
    }

    @Test func `a response beyond the size limit is an error`() async throws {
        try await ScriptedUpstream.with { _ in
            .bytes(ScriptedUpstream.json(String(repeating: " ", count: 101)))
        } _: { provider in
            let url = "http://127.0.0.1:\(provider.port)/keys"
            await #expect(throws: NIOTooManyBytesError.self) {
                try await server.get(url, upTo: 100)
            }
        }
    }

    @Test func `a silent key server is left when the fetch is cancelled`() async throws {
        try await ScriptedUpstream.with { _ in
            .bytesThenSilence("HTTP/1.1 200 OK\r\n")
        } _: {
            provider in
            let url = "http://127.0.0.1:\(provider.port)/keys"
            let fetch = Task { try await server.get(url, upTo: 100) }
            _ = try await provider.arrivals.first("a request")
            fetch.cancel()
            await #expect(throws: CancellationError.self) { try await fetch.finished() }
        }
    }
}
