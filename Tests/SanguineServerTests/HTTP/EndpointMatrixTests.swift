import AsyncHTTPClient
import Crypto
import Foundation
import NIOCore
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority
@testable import SanguineServer

/// What a request presents instead of a valid token.
private enum Credential: String, CaseIterable {
    case none, otherScheme, empty, malformed, refreshToken
    case expired, otherAudience, otherIssuer, unsigned, symmetric, swappedKey, otherKeyID
    case signedOut, unknownSession, otherAccount, mergedAway, deleted

    /// The expected refusal.
    var refusal: (status: Int, code: String) {
        switch self {
        case .expired: (401, "token_expired")
        case .signedOut, .unknownSession, .mergedAway, .deleted: (401, "session_ended")
        case .otherAccount: (403, "identity_mismatch")
        default: (401, "unauthenticated")
        }
    }
}

/// Every endpoint that needs a token, with every wrong one, and with ids of another account.
///
/// The endpoints are those that the server routes, so that a new one is included, or fails a test
/// until it is.
@Suite("Every endpoint without the right", .bounded)
struct EndpointMatrixTests {
    /// The calls that need no token.
    private static let open: Set<String> = [
        "GET /health/live", "GET /health/ready", "GET /openapi.json", "POST /v1/accounts/guest",
        "POST /v1/sessions/refresh", "GET /v1/attestation/challenge", "POST /v1/sessions",
        "POST /v1/accounts/password/reset", "POST /v1/accounts/password/reset/verify",
        "POST /v1/sessions/codes/redeem", "POST /v1/purchases/appStore/notifications",
        "GET /v1/public/blobs/{id}", "OPTIONS /v1/uploads",
    ]

    /// The call that succeeds for an id that the account does not have, so that a retry does too.
    private static let indifferent = "DELETE /v1/blobs/{id}"

    /// The call that a merged guest may repeat with its last token, because the answer may have
    /// been lost.
    private static let repeatable = "POST /v1/accounts/merge"

    /// The paths whose names are the same for all accounts.
    private static let shared: Set<String> = [
        "/v1/quotas/{name}/consume", "/v1/collections/{name}/records", "/v1/functions/{name}",
        "/v1/functions/{name}/quote",
    ]

    private func code(of reply: Reply) -> String? {
        // Paths of OpenAI's API have its form of errors.
        reply.code ?? (try? reply.json["error"]?["code"]?.string)
    }

    /// Sends a request that is complete except for its token.
    private func send(
        _ operation: ServedOperation,
        _ server: LiveServer,
        _ headers: [String: String],
        values: [String: String] = [:]
    ) async throws -> Reply {
        var all = headers
        let hasBody = !["GET", "DELETE"].contains(operation.method)
        if hasBody { all["Idempotency-Key"] = "matrix-\(UUID().uuidString)" }
        if operation.path.hasPrefix("/v1/uploads/") {
            all["Tus-Resumable"] = "1.0.0"
            all["Upload-Offset"] = "0"
            all["X-HTTP-Method-Override"] = "PATCH"
            if hasBody { all["Content-Type"] = "application/offset+octet-stream" }
        }
        return try await server.send(
            operation.method,
            operation.path(values),
            hasBody ? (operation.path.hasSuffix("/capture") ? #"{"amount":1}"# : "{}") : nil,
            headers: all
        )
    }

    private func headers(
        _ credential: Credential,
        _ server: LiveServer,
        victim: Guest
    ) async throws -> [String: String] {
        let forger = TokenForger(server: server, victim: victim)
        let token: String
        switch credential {
        case .none: return [:]
        case .otherScheme: return ["Authorization": "Basic YWRhOnNlY3JldA=="]
        case .empty: token = ""
        case .malformed: token = "a.b"
        case .refreshToken: token = victim.session.refreshToken
        case .expired: token = try forger.token(claims: ["exp": .integer(forger.now - 1)])
        case .otherAudience: token = try forger.token(claims: ["aud": "elsewhere"])
        case .otherIssuer: token = try forger.token(claims: ["iss": "elsewhere"])
        case .unsigned: token = try forger.token(header: ["alg": "none"]) { _ in [] }
        case .symmetric: token = try forger.symmetricToken()
        case .swappedKey:
            let other = Curve25519.Signing.PrivateKey()
            token = try forger.token { Array(try other.signature(for: $0)) }
        case .otherKeyID: token = try forger.token(header: ["kid": "0000000000000000"])
        case .signedOut:
            let device = try await server.guest(device: victim.device)
            _ = try await device.send("DELETE", "/v1/sessions/current")
            token = device.session.accessToken
        case .unknownSession:
            token = try forger.token(claims: ["sid": .string(ServedOperation.unknown)])
        case .mergedAway: token = try await mergedAway(server).session.accessToken
        case .deleted:
            let gone = try await server.guest()
            #expect(try await gone.send("DELETE", "/v1/account", "{}").status == 200)
            token = gone.session.accessToken
        case .otherAccount:
            let other = try await server.guest()
            return [
                "Authorization": "Bearer \(other.session.accessToken)",
                "X-User-Id": "\(victim.account.id)",
            ]
        }
        return ["Authorization": "Bearer \(token)"]
    }

    /// Merges a new guest into a registered account.
    private func mergedAway(_ server: LiveServer) async throws -> Guest {
        let authority = server.authority
        let (guest, owner) = (try await server.guest(), try await server.guest())
        let own = try await authority.tokens.verify(owner.session.accessToken)
        let email = "ada@example.org"
        _ = try await authority.register(.email(email), email: email, own)
        let identity = try await authority.tokens.verify(guest.session.accessToken)
        _ = try await authority.merge(identity, into: own.account)
        return guest
    }

    @Test func `a forged token that has nothing wrong is accepted`() async throws {
        // Guards the matrix: each of its tokens differs from this one in one part.
        try await LiveServer.with { server in
            let victim = try await server.guest()
            let token = try TokenForger(server: server, victim: victim).token()
            let headers = ["Authorization": "Bearer \(token)"]
            #expect(try await server.send("GET", "/v1/account", headers: headers).status == 200)
        }
    }

    @Test func `every call needs a token, except for those that are named here`() async throws {
        let document = try ServedOperation.document()
        let operations = try await ServedOperation.all()
        let open = try operations.filter { try !$0.needsToken(document) }
        #expect(Set(open.map(\.description)) == Self.open)
        #expect(operations.count > Self.open.count + 25)
    }

    @Test(arguments: Credential.allCases)
    private func `every call that needs a token refuses a wrong one`(
        credential: Credential
    ) async throws {
        let document = try ServedOperation.document()
        let operations = try await ServedOperation.all()
            .filter { try $0.needsToken(document) }
        #expect(operations.count > 25)
        try await LiveServer.with { server in
            let victim = try await server.guest()
            let headers = try await headers(credential, server, victim: victim)
            let expected = credential.refusal
            for operation in operations
            where credential != .mergedAway || operation.description != Self.repeatable {
                let reply = try await send(operation, server, headers)
                let name = "\(credential) \(operation)"
                #expect(reply.status == expected.status, "\(name)")
                #expect(code(of: reply) == expected.code, "\(name)")
                if expected.status == 401, reply.code != nil {
                    #expect(reply["WWW-Authenticate"]?.hasPrefix("Bearer") == true, "\(name)")
                }
            }
            // Nothing was changed by any of them.
            #expect(try await victim.balance().available == 100)
            #expect(try await victim.get("/v1/account").decode(Account.self) == victim.account)
        }
    }

    @Test(arguments: ["", "Bearer wrong", "user"])
    func `every call of the admin port refuses a wrong token`(text: String) async throws {
        let operations = try await ServedOperation.all(isAdmin: true)
            .filter { $0.path.hasPrefix("/admin/") && $0.path != "/admin/session" }
        #expect(operations.count >= 4)
        try await LiveServer.with { server in
            let user = try await server.guest()
            let token = text == "user" ? "Bearer \(user.session.accessToken)" : text
            for operation in operations {
                let reply = try await server.send(
                    operation.method,
                    operation.path(["id": "\(user.account.id)"]),
                    operation.method == "GET" ? nil : "{}",
                    headers: ["Authorization": token, "Idempotency-Key": "matrix"],
                    toAdmin: true
                )
                #expect(reply.status == 401 && reply.code == "unauthenticated", "\(operation)")
                // Wrong tokens are limited by address.
                server.setup.delay.advance(by: .seconds(60))
            }
        }
    }

    /// The values of the path's parameters that name data of another account; `nil` if there are
    /// none for the path.
    private func values(
        of operation: ServedOperation,
        _ owner: Guest
    ) async throws
        -> [String: String]?
    {
        switch operation.path {
        case "/v1/holds/{id}/capture", "/v1/holds/{id}/release":
            let reply = try await owner.post("/v1/holds", #"{"amount":1}"#)
            return ["id": "\(try reply.decode(HoldAnswer.self).hold.id)"]
        case "/v1/sessions/{id}":
            let token = owner.session.accessToken
            return ["id": "\(try await owner.server.authority.tokens.verify(token).session)"]
        case "/v1/account/logins/{id}":
            return ["id": try await login(on: owner.server)]
        case "/v1/collections/{name}/records/{id}":
            return ["name": "notes", "id": try await note(of: owner)]
        case "/v1/calls/{key}":
            let key = "call-\(UUID().uuidString)"
            #expect(try await owner.echo("hello", key: key).status == 200)
            return ["key": key]
        case "/v1/blobs/{id}", "/v1/blobs/{id}/link", "/v1/public/blobs/{id}":
            let path = "http://127.0.0.1:\(owner.server.ports.http)/v1/blobs"
            var request = HTTPClientRequest(url: path)
            request.method = .POST
            request.headers.add(
                name: "Authorization",
                value: "Bearer \(owner.session.accessToken)"
            )
            request.body = .bytes(ByteBuffer(bytes: SampleFile.jpeg.bytes()))
            let reply = try await owner.server.send(request)
            return ["id": try #require(try reply.json["id"]?.string)]
        case "/v1/uploads/{id}":
            let reply = try await owner.send(
                "POST",
                "/v1/uploads",
                headers: ["Tus-Resumable": "1.0.0", "Upload-Length": "9"]
            )
            let path = try #require(reply["Location"])
            return ["id": String(path.dropFirst("/v1/uploads/".count))]
        default: return nil
        }
    }

    /// Returns the id of a login of a new registered account.
    private func login(on server: LiveServer) async throws -> String {
        let authority = server.authority
        let guest = try await server.guest()
        let identity = try await authority.tokens.verify(guest.session.accessToken)
        let name = Login.Name.identity(provider: "example", subject: "ana")
        _ = try await authority.register(name, email: nil, identity)
        return try #require(try await authority.logins(of: identity.account).items.first?.id)
    }

    private func note(of owner: Guest) async throws -> String {
        let id = UUID().uuidString.lowercased()
        let operation = Identifier(at: SystemWallClock().now())
        let body = """
            {"device":"a-device-of-16-and-more","operations":[{"id":"\(operation)","sequence":1,\
            "lane":"l","mutator":"record.create","arguments":{"collection":"notes","id":"\(id)",\
            "fields":{"text":"mine"}}}]}
            """
        let reply = try await owner.post("/v1/sync/push", body, key: nil)
        #expect(try reply.decode(PushAnswer.self).results.first?.status == .applied)
        return id
    }

    @Test func `every path with an id of another account gives 404`() async throws {
        let operations = try await ServedOperation.all()
            .filter { !$0.parameters.isEmpty && !Self.shared.contains($0.path) }
            .filter { $0.description != Self.indifferent }
        #expect(operations.count > 5)
        try await LiveServer.with { server in
            let owner = try await server.guest()
            let stranger = try await server.guest()
            for operation in operations {
                guard let values = try await values(of: operation, owner) else {
                    Issue.record("Add an id of another account for \(operation).")
                    continue
                }
                let token = ["Authorization": "Bearer \(stranger.session.accessToken)"]
                let refused = try await send(operation, server, token, values: values)
                #expect(refused.status == 404, "\(operation)")
                #expect(code(of: refused) == "not_found", "\(operation)")
                // The same response as for an id that does not exist.
                let missing = try await send(
                    operation,
                    server,
                    token,
                    values: values.merging(["id": ServedOperation.unknown, "key": "unknown"]) { $1 }
                )
                #expect(missing.status == 404, "\(operation)")
                #expect(code(of: missing) == "not_found", "\(operation)")
            }
            #expect(try await owner.balance().held == 2)
        }
    }
}

/// Makes access tokens with the keys of a server, of which one part is wrong.
private struct TokenForger {
    let server: LiveServer
    let victim: Guest

    var now: Int64 { server.setup.wall.now().millisecondsSince1970 / 1_000 }

    func token(
        header: [String: JSONValue] = [:],
        claims: [String: JSONValue] = [:],
        sign: ((Data) throws -> [UInt8])? = nil
    ) throws -> String {
        let keys = server.setup.keys
        let parts = victim.session.accessToken.split(separator: ".")
        let own = try #require(Base64URL.decode(parts[1]))
        let session = try JSONDecoder().decode(JSONValue.self, from: Data(own))["sid"]
        let first: [String: JSONValue] = [
            "alg": "EdDSA", "typ": "JWT", "kid": .string(keys.keyID),
        ]
        let second: [String: JSONValue] = [
            "iss": "sanguine", "aud": "sanguine", "sub": .string(victim.account.id.description),
            "sid": session ?? .null, "iat": .integer(now), "exp": .integer(now + 900),
        ]
        let content = [first.merging(header) { $1 }, second.merging(claims) { $1 }]
            .map { Base64URL.encode(ResponseEncoder.encode(JSONValue.object($0))) }
            .joined(separator: ".")
        let bytes = Data(content.utf8)
        let signature =
            try sign?(bytes) ?? Array(keys.signingKey.signature(for: bytes))
        return content + "." + Base64URL.encode(signature)
    }

    /// A token that takes the public key as the secret of HMAC.
    func symmetricToken() throws -> String {
        let secret = server.setup.keys.signingKey.publicKey.rawRepresentation
        return try token(header: ["alg": "HS256"]) { content in
            let key = SymmetricKey(data: secret)
            return Array(HMAC<SHA256>.authenticationCode(for: content, using: key))
        }
    }
}
