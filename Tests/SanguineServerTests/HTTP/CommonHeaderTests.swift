import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Common headers", .bounded)
struct CommonHeaderTests {
    private static let reads = [
        "/v1/account", "/v1/balance", "/v1/balance?operations=a", "/v1/quotas", "/v1/ledger",
        "/v1/ledger?fields=amount", "/v1/functions",
    ]

    @Test(arguments: reads)
    func `a read has a tag and returns 304 while nothing changes`(path: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.get(path)
            #expect(reply["Content-Type"] == "application/json")
            let tag = try #require(reply["ETag"])
            #expect(tag.wholeMatch(of: #/"[!#-~]+"/#) != nil)
            for known in [tag, "W/\(tag)", #""other", \#(tag)"#, #""a" ,W/"b",\#(tag) "#, "*"] {
                let unchanged = try await guest.get(path, headers: ["If-None-Match": known])
                #expect(unchanged.status == 304, "\(known)")
                #expect(unchanged.body.isEmpty)
                #expect(unchanged["ETag"] == tag)
                #expect(unchanged["Cache-Control"] == reply["Cache-Control"])
            }
            for stale in [#""other""#, "W/\"other\", \"x\"", String(tag.dropLast()), ""] {
                let whole = try await guest.get(path, headers: ["If-None-Match": stale])
                #expect(whole.status == 200, "\(stale)")
                #expect(whole.body == reply.body)
            }
        }
    }

    @Test func `a change renews the tag of the reads it affects`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for (path, method, change, body) in [
                ("/v1/balance", "POST", "/v1/spend", #"{"amount":1,"reason":"a"}"#),
                ("/v1/ledger", "POST", "/v1/spend", #"{"amount":1,"reason":"b"}"#),
                ("/v1/quotas", "POST", "/v1/quotas/readings/consume", "{}"),
                ("/v1/account", "PATCH", "/v1/account", #"{"language":"tr"}"#),
            ] {
                let tag = try #require(try await guest.get(path)["ETag"])
                let key = ["Idempotency-Key": change + body]
                #expect(try await guest.send(method, change, body, headers: key).status == 200)
                let after = try await guest.get(path, headers: ["If-None-Match": tag])
                #expect(after.status == 200)
                #expect(after["ETag"] != tag)
            }
        }
    }

    @Test func `one account's tag never matches another account's, even at the same head`()
        async throws
    {
        try await LiveServer.with { server in
            let rich = try await server.guest()
            let poor = try await server.guest()
            _ = try await rich.spend(1)
            _ = try await poor.spend(99)
            let tag = try #require(try await rich.get("/v1/balance")["ETag"])
            let reply = try await poor.get("/v1/balance", headers: ["If-None-Match": tag])
            #expect(reply.status == 200)
            #expect(try reply.json["available"] == 1)
        }
    }

    @Test func `personal data is private, and responses to changes are not stored`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for path in Self.reads where path != "/v1/functions" {
                let control = try #require(try await guest.get(path)["Cache-Control"])
                #expect(control.contains("private"), "\(path)")
            }
            #expect(try await guest.spend(1)["Cache-Control"] == "no-store")
            #expect(try await guest.spend(1_000)["Cache-Control"] == "no-store")
            #expect(try await server.send("GET", "/v1/balance")["Cache-Control"] == "no-store")
        }
    }

    @Test func `HEAD responds as GET does, without the body`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for path in Self.reads + ["/health/live", "/health/ready", "/openapi.json"] {
                let get = try await guest.get(path)
                let head = try await guest.send("HEAD", path)
                #expect(head.status == get.status, "\(path)")
                #expect(head.body.isEmpty)
                for header in ["ETag", "Content-Type", "Content-Length", "Cache-Control"] {
                    #expect(head[header] == get[header], "\(path) \(header)")
                }
            }
            #expect(try await server.send("HEAD", "/v1/balance").status == 401)
        }
    }

    @Test func `every response has an id, which is also in the log`() async throws {
        let sink = MemorySink()
        try await LiveServer.with {
            $0.log = LogQueue(sink: sink)
            $0.settings.http.corsOrigins = ["*"]
        } _: { server in
            let guest = try await server.guest()
            let preflight = [
                "Origin": "https://app.example.com", "Access-Control-Request-Method": "POST",
            ]
            let replies = [
                try await guest.get("/v1/balance"), try await guest.send("HEAD", "/v1/balance"),
                try await guest.spend(1), try await guest.spend(1_000),
                try await server.send("GET", "/v1/balance"), try await guest.get("/nothing"),
                try await guest.send("DELETE", "/v1/balance"),
                try await server.send("GET", "/health/live"),
                try await server.send("OPTIONS", "/v1/spend", headers: preflight),
            ]
            let ids = replies.map { $0["X-Request-Id"] ?? "" }
            #expect(ids.allSatisfy { $0.count >= 17 })
            #expect(Set(ids).count == replies.count)
            try await eventually("the log has the ids") {
                // The preflight is not logged.
                ids.dropLast().allSatisfy { id in sink.lines.contains { $0.contains(id) } }
            }
        }
    }

    @Test func `requests beyond the limit are refused with the time to wait`() async throws {
        try await LiveServer.with(.init(requestsPerMinute: 3)) { server in
            let guest = try await server.guest()
            for rest in [2, 1, 0] {
                let reply = try await guest.get("/v1/balance")
                #expect(reply.status == 200)
                #expect(reply["RateLimit-Policy"] == #""default";q=3;w=60"#)
                #expect(reply["RateLimit"] == #""default";r=\#(rest);t=\#((3 - rest) * 20)"#)
            }
            let refused = try await guest.spend(1)
            #expect(refused.status == 429)
            #expect(refused.code == "rate_limited")
            #expect(refused["Retry-After"] == "20")
            #expect(try refused.json["retryAfter"] == 20)
            #expect(refused["RateLimit"] == #""default";r=0;t=60"#)
            let other = try await server.guest()
            #expect(try await other.get("/v1/balance").status == 200)
            server.setup.delay.advance(by: .seconds(20))
            #expect(try await guest.get("/v1/balance").status == 200)
            #expect(try await guest.get("/v1/balance").status == 429)
        }
    }

    @Test func `calls without a token are limited by address`() async throws {
        try await LiveServer.with {
            $0.settings.limits.addressRequestsPerMinute = 2
        } _: { server in
            let guest = try await server.guest()
            let refresh = #"{"refreshToken":"x"}"#
            let second = try await server.send("POST", "/v1/sessions/refresh", refresh)
            #expect(second.code == "refresh_invalid")
            #expect(second["RateLimit-Policy"] == #""address";q=2;w=60"#)
            let third = try await server.send("POST", "/v1/accounts/guest", "{}")
            #expect(third.status == 429)  // Before the content is examined.
            #expect(third["Retry-After"] == "30")
            #expect(try await guest.get("/v1/balance").status == 200)
        }
    }

    @Test func `a problem has every standard member`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.spend(1_000)
            #expect(reply["Content-Type"] == "application/problem+json")
            let problem = try reply.json
            #expect(problem["type"] == "urn:sanguine:problem:insufficient_tokens")
            #expect(problem["title"] == "The balance is too low.")
            #expect(problem["status"] == 402)
            #expect(problem["code"] == "insufficient_tokens")
            #expect(problem["detail"]?.string?.isEmpty == false)
            #expect(problem["retryAfter"] == nil)
        }
    }

    @Test func `times are RFC 3339 in UTC, and ids are lowercase`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let hold = try await guest.post("/v1/holds", #"{"amount":1}"#).body
            let call = try await guest.echo("a").body
            let bodies =
                [hold, call] + (try await Self.reads.asyncMap { try await guest.get($0).body })
            let time = #/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/#
            let id = #/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/#
            for (member, form) in [
                ("asOf", true), ("createdAt", true), ("expiresAt", true), ("resetsAt", true),
                ("at", true), ("id", false), ("operation", false),
            ] {
                let pattern = try Regex(
                    "\"\(member)\":\"([^\"]*)\"",
                    as: (Substring, Substring).self
                )
                let values = bodies.flatMap { $0.matches(of: pattern).map { String($0.1) } }
                #expect(!values.isEmpty, "\(member)")
                for value in values {
                    let isRight =
                        form ? value.wholeMatch(of: time) != nil : value.wholeMatch(of: id) != nil
                    #expect(isRight, "\(member) \(value)")
                }
            }
        }
    }
}

extension Sequence {
    fileprivate func asyncMap<Value>(
        _ body: (Element) async throws -> Value
    ) async throws -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await body(element)) }
        return values
    }
}
