import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Requests without a valid token, and how they count against their address.
@Suite("Limits per address and account", .bounded)
struct VisitorTests {
    private static let forged = ["Authorization": "Bearer eyJhbGciOiJFZERTQSJ9.e30.AAAA"]

    @Test(arguments: [
        ("GET", "/v1/balance"), ("POST", "/v1/spend"), ("GET", "/v1/live"), ("GET", "/v1/nothing"),
        ("PURGE", "/v1/balance"), ("GET", "/openapi.json"),
        ("GET", "/v1/collections/notes/records?limit=0"),
    ])
    func `a request without a valid token counts against its address regardless of its path`(
        method: String,
        path: String
    ) async throws {
        try await LiveServer.with {
            $0.settings.limits.addressRequestsPerMinute = 3
        } _: { server in
            let guest = try await server.guest()  // One of the three.
            for _ in 0..<2 {
                let reply = try await server.send(method, path, headers: Self.forged)
                #expect(reply.status != 429)
            }
            let refused = try await server.send(method, path, headers: Self.forged)
            #expect(refused.code == "rate_limited")
            #expect(refused["Retry-After"] != nil)
            #expect(try await server.send("GET", "/openapi.json").status == 429)
            #expect(try await guest.get("/v1/balance").status == 200)
        }
    }

    @Test func `invalid tokens use up the processor time of their own address only`()
        async throws
    {
        try await LiveServer.with {
            $0.settings.limits.addressProcessorTime = .milliseconds(10)
        } _: { server in
            let guest = try await server.guest()
            _ = try await guest.balance()  // The token is known to the server after this.
            var statuses: Set<Int> = []
            var reply = try await server.send("GET", "/v1/balance", headers: Self.forged)
            for _ in 0..<100 where reply.status == 401 {
                statuses.insert(reply.status)
                reply = try await server.send("GET", "/v1/balance", headers: Self.forged)
            }
            #expect(statuses == [401])
            #expect(reply.code == "rate_limited")
            #expect(reply["RateLimit-Policy"]?.contains("address-processor") == true)
            #expect(try await guest.get("/v1/balance").status == 200)

            server.setup.delay.advance(by: .seconds(10))
            let later = try await server.send("GET", "/v1/balance", headers: Self.forged)
            #expect(later.status == 401)
        }
    }

    @Test func `a body without a valid token is not read`() async throws {
        try await LiveServer.with { server in
            let head = """
                POST /v1/spend HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x.y.z\r\n\
                Idempotency-Key: k\r\nContent-Type: application/json\r\n\
                Content-Length: 1000000\r\n\r\n
                """
            // The response comes and the connection ends although the body never arrives.
            let received = try await exchange(server.ports.http, head)
            #expect(received.hasPrefix("HTTP/1.1 401 "))
            #expect(received.lowercased().contains("connection: close"))
        }
    }

    @Test func `an account may use a share of the memory for bodies`() async throws {
        try await LiveServer.with {
            $0.settings.limits.receivedBytes = 1 << 20
        } _: { server in
            let (guest, other) = (try await server.guest(), try await server.guest())
            let share = (1 << 20) / EdgeLimits.accountShare
            func body(_ bytes: Int) -> String {
                #"{"amount":1,"reason":"a","pad":""# + String(repeating: "x", count: bytes) + #""}"#
            }
            #expect(try await guest.post("/v1/spend", body(share / 2)).status == 200)
            let refused = try await guest.post("/v1/spend", body(share + 1))
            #expect(refused.code == "overloaded")
            #expect(refused["Retry-After"] != nil)
            // The refused request has returned its share.
            #expect(try await guest.post("/v1/spend", body(share / 2)).status == 200)
            #expect(try await other.post("/v1/spend", body(share / 2)).status == 200)
        }
    }

    @Test func `an account may run a quarter of the calls without blocking others`() async throws {
        try await LiveServer.with {
            $0.settings.limits.functionCalls = 8
            $0.settings.limits.queuedCalls = 0
        } _: { server in
            let (guest, other) = (try await server.guest(), try await server.guest())
            let waiting = #"{"input":{"text":"a","delayMs":60000}}"#
            let quick = #"{"input":{"text":"a"}}"#
            let calls = (0..<2).map { number in
                Task { try await guest.post("/v1/functions/echo", waiting, key: "w\(number)") }
            }
            try await server.setup.delay.waitForSleepers(2, dueIn: .seconds(60))
            let refused = try await guest.post("/v1/functions/echo", quick, key: "q")
            #expect(refused.code == "overloaded")
            #expect(try await other.post("/v1/functions/echo", quick).status == 200)
            #expect(try await guest.balance().held == 2)

            // Only once, because another advance could reach the deadline of a slow call.
            server.setup.delay.advance(by: .seconds(60))
            for call in calls {
                let reply = try await call.finished()
                #expect(reply.status == 200)
            }
            #expect(try await guest.post("/v1/functions/echo", quick, key: "q").status == 200)
        }
    }

    @Test func `a value to search for is limited before it is parsed`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let path = "/v1/collections/posts/records?where.createdAt="
            let long = String(repeating: "1", count: WireLimits.conditionBytes + 1)
            #expect(try await guest.get(path + long).code == "malformed_request")
            for number in ["1e-9223372036854775808", "1e9223372036854775807", "%5B", "1e999"] {
                #expect(try await guest.get(path + number).status == 200, "\(number)")
            }
        }
    }
}
