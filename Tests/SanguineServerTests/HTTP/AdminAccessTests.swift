import Foundation
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Access to the admin port", .bounded)
struct AdminAccessTests {
    private static let accounts = "/admin/v1/accounts?deviceId=nobody"

    private func get(
        _ path: String,
        _ headers: [String: String],
        from server: LiveServer
    ) async throws -> Reply {
        try await server.send("GET", path, headers: headers, toAdmin: true)
    }

    /// Runs the body with a temporary folder and removes the folder afterwards.
    private func withFolder(_ body: (URL) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-admin-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder)
    }

    @Test(arguments: ["", "Bearer", "Bearer wrong", "Basic YTpi", "wrong"])
    func `administration requires the admin token`(authorization: String) async throws {
        try await LiveServer.with { server in
            let headers = ["Authorization": authorization]
            let reply = try await get(Self.accounts, headers, from: server)
            #expect(reply.status == 401)
            #expect(reply.code == "unauthenticated")
            #expect(reply["WWW-Authenticate"] == "Bearer")
            #expect(try await get("/metrics", headers, from: server).status == 200)
            #expect(try await get(Self.accounts, [:], from: server).code == "not_found")
        }
    }

    @Test func `an account's token grants no admin access`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await server.send(
                "POST",
                "/admin/v1/accounts/\(guest.account.id)/grants",
                #"{"amount":1,"reason":"mine"}"#,
                headers: [
                    "Authorization": "Bearer \(guest.session.accessToken)", "Idempotency-Key": "k",
                ],
                toAdmin: true
            )
            #expect(reply.code == "unauthenticated")
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test func `a server without an admin token refuses administration`() async throws {
        var setup = LiveServer.Setup()
        setup.isWithoutAdminToken = true
        try await LiveServer.with(setup) { server in
            let reply = try await get(Self.accounts, [:], from: server)
            #expect(reply.code == "unauthenticated")
        }
    }

    @Test func `wrong tokens are limited, and the right one is still accepted`() async throws {
        try await LiveServer.with { server in
            let wrong = ["Authorization": "Bearer wrong"]
            for _ in 0..<EdgeLimits.wrongAdminTokens {
                #expect(try await get(Self.accounts, wrong, from: server).status == 401)
            }
            let reply = try await get(Self.accounts, wrong, from: server)
            #expect(reply.code == "rate_limited")
            #expect(reply["Retry-After"] == "6")
            #expect(try await get(Self.accounts, [:], from: server).code == "not_found")
        }
    }

    @Test(arguments: [
        ("localhost", true), ("LOCALHOST:8081", true), ("127.0.0.1", true), ("127.9.9.9:1", true),
        ("[::1]:8081", true), ("metrics.internal", true), ("Metrics.Internal.:8081", true),
        ("10.1.2.3", true), ("evil.example", false), ("localhost.evil.example", false),
        ("10.1.2.4", false), ("127.0.0.1.evil.example", false), ("[::1", false), ("", false),
    ])
    func `the admin port serves only its configured host names`(
        host: String,
        isServed: Bool
    ) async throws {
        try await LiveServer.with {
            $0.settings.http.adminHosts = ["metrics.internal", "10.1.2.3"]
        } _: { server in
            for path in ["/metrics", Self.accounts] {
                let received = try await exchange(
                    server.ports.admin,
                    """
                    GET \(path) HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\
                    Authorization: Bearer \(server.setup.adminToken.reveal())\r\n\r\n
                    """
                )
                #expect(received.contains(#""code":"foreign_request""#) == !isServed)
                #expect(received.hasPrefix("HTTP/1.1 403 ") == !isServed)
            }
        }
    }

    @Test func `the admin port refuses pages of another origin`() async throws {
        try await LiveServer.with { server in
            let own = "127.0.0.1:\(server.ports.admin)"
            for origin in [
                "http://evil.example", "null", "http://127.0.0.1:\(server.ports.http)",
                "http://127.0.0.1", "",
            ] {
                let reply = try await get("/metrics", ["Origin": origin], from: server)
                #expect(reply.code == "foreign_request", "\(origin)")
            }
            let reply = try await get("/metrics", ["Origin": "http://\(own)"], from: server)
            #expect(reply.status == 200)
        }
    }

    @Test func `a browser signs in with the token and gets a cookie for twelve hours`() async throws
    {
        try await LiveServer.with { server in
            func signIn(_ token: String) async throws -> Reply {
                let body = #"{"token":"\#(token)"}"#
                return try await server.send("POST", "/admin/session", body, toAdmin: true)
            }
            #expect(try await signIn("wrong").code == "unauthenticated")
            let token = server.setup.adminToken.reveal()
            let reply = try await signIn(token)
            #expect(reply.status == 204)
            let field = try #require(reply["Set-Cookie"])
            #expect(!field.contains(token))
            for part in ["HttpOnly", "SameSite=Strict", "Path=/admin", "Max-Age=43200"] {
                #expect(field.contains(part))
            }
            let cookie = String(field.prefix { $0 != ";" })
            func read(_ cookie: String) async throws -> Int {
                try await server.sendToAdmin(Self.accounts, headers: ["Cookie": cookie]).status
            }
            #expect(try await read("a=b; \(cookie)") == 404)
            for forged in ["", "\(cookie)x", "9\(cookie)", cookie.replacing("=1", with: "=2")] {
                #expect(try await read(forged) == 401, "\(forged)")
            }
            server.setup.wall.advance(by: .seconds(EdgeLimits.adminSessionSeconds))
            #expect(try await read(cookie) == 401)
        }
    }

    @Test func `the first start writes the token so that only its owner can read it`() throws {
        try withFolder { folder in
            let token = try AdminToken.loadOrCreate(in: folder)
            let file = folder.appending(path: "admin-token")
            let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            #expect(try String(contentsOf: file, encoding: .utf8) == "\(token.reveal())\n")
            #expect(try AdminToken.loadOrCreate(in: folder).reveal() == token.reveal())
            #expect(token.reveal().utf8.count == 43)
            #expect(!"\(token)".contains(token.reveal()))
        }
    }

    @Test func `an invalid token, or one that others can read, is refused`() throws {
        try withFolder { folder in
            let file = folder.appending(path: "admin-token")
            _ = try AdminToken.loadOrCreate(in: folder)
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o640],
                ofItemAtPath: file.path
            )
            #expect(throws: OwnerFileError.readableByOthers(path: file.path, mode: 0o640)) {
                try AdminToken.loadOrCreate(in: folder)
            }
            for text in ["", "short", String(repeating: "a b", count: 20)] {
                try Data(text.utf8).write(to: file)
                try FileManager.default.setAttributes(
                    [.posixPermissions: 0o600],
                    ofItemAtPath: file.path
                )
                #expect(throws: OwnerFileError.noSecret(path: file.path)) {
                    try AdminToken.loadOrCreate(in: folder)
                }
            }
        }
    }
}
