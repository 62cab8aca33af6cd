import TestSupport
import Testing

@testable import SanguineServer

@Suite("Cross-origin requests", .bounded)
struct CrossOriginTests {
    private static let origin = "https://app.example.com"

    private func preflight(_ origin: String, _ server: LiveServer) async throws -> Reply {
        try await server.send(
            "OPTIONS",
            "/v1/spend",
            headers: [
                "Origin": origin, "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
            ]
        )
    }

    @Test func `pages of other origins are not allowed by default`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            #expect(try await preflight(Self.origin, server).status == 405)
            let reply = try await guest.get("/v1/balance", headers: ["Origin": Self.origin])
            #expect(reply.status == 200)
            for (name, _) in reply.headers { #expect(!name.hasPrefix("Access-Control")) }
        }
    }

    @Test func `a configured origin may send and read everything the API defines`()
        async throws
    {
        try await LiveServer.with {
            $0.settings.http.corsOrigins = [Self.origin, "https://b.example.com"]
        } _: { server in
            let guest = try await server.guest()
            let allowed = try await preflight(Self.origin, server)
            #expect(allowed.status == 204)
            #expect(allowed["Access-Control-Allow-Origin"] == Self.origin)
            #expect(allowed["Vary"] == "Origin")
            let methods = allowed["Access-Control-Allow-Methods"]?.split(separator: ", ") ?? []
            #expect(Set(methods) == ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
            let headers = allowed["Access-Control-Allow-Headers"]?.lowercased() ?? ""
            for header in [
                "authorization", "content-type", "idempotency-key", "if-match", "x-user-id",
            ] {
                #expect(headers.contains(header))
            }

            // Both successes and refusals, so that a page can read why it was refused.
            let page = ["Origin": Self.origin]
            for reply in [
                try await guest.get("/v1/balance", headers: page),
                try await guest.post("/v1/spend", headers: page),
                try await server.send("GET", "/v1/balance", headers: page),
                try await server.send("GET", "/nothing", headers: page),
            ] {
                #expect(reply["Access-Control-Allow-Origin"] == Self.origin)
                let exposed = reply["Access-Control-Expose-Headers"] ?? ""
                for header in [
                    "Sanguine-Head", "Sanguine-Call", "Idempotency-Replayed", "Retry-After",
                    "RateLimit",
                ] {
                    #expect(exposed.contains(header))
                }
                #expect(reply.status == 200 || reply.code != nil)
            }
            #expect(try await guest.post("/v1/spend", headers: page).code == "invalid_content")
        }
    }

    @Test func `an unknown origin gets no CORS headers, and caches vary by origin`() async throws {
        try await LiveServer.with {
            $0.settings.http.corsOrigins = [Self.origin]
        } _: { server in
            let guest = try await server.guest()
            for origin in ["https://evil.example.com", "null", Self.origin + ".evil.com"] {
                let refused = try await preflight(origin, server)
                #expect(refused.status == 405)
                #expect(refused["Access-Control-Allow-Origin"] == nil)
                let reply = try await guest.get("/v1/balance", headers: ["Origin": origin])
                #expect(reply["Access-Control-Allow-Origin"] == nil)
                #expect(reply["Vary"] == "Origin")
            }
        }
    }

    @Test func `a star allows every origin`() async throws {
        try await LiveServer.with {
            $0.settings.http.corsOrigins = ["*"]
        } _: { server in
            let reply = try await preflight("https://anyone.example.com", server)
            #expect(reply["Access-Control-Allow-Origin"] == "https://anyone.example.com")
        }
    }
}
