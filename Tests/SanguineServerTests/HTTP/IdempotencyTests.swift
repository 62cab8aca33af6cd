import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Idempotency over HTTP", .bounded)
struct IdempotencyTests {
    private static let spend = #"{"amount":1,"reason":"a"}"#

    @Test func `a repeated request with its key returns the same bytes`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for (path, body) in [
                ("/v1/spend", Self.spend), ("/v1/holds", #"{"amount":1}"#),
                ("/v1/quotas/readings/consume", "{}"),
                ("/v1/functions/echo", #"{"input":{"text":"a"}}"#),
            ] {
                let first = try await guest.post(path, body, key: path)
                #expect(first["Idempotency-Replayed"] == nil)
                server.setup.wall.advance(by: .seconds(1))
                let second = try await guest.post(path, body, key: path)
                #expect(second["Idempotency-Replayed"] == "true", "\(path)")
                #expect(second.body == first.body)
                #expect(second.status == first.status)
                #expect(second.head == first.head)
                #expect(first.head != nil)
            }
            #expect(try await guest.balance().available == 97)
        }
    }

    @Test(arguments: [
        #""thread":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa""#, #""attachments":["ab"]"#,
    ])
    func `unsupported members are refused and do not match another call's key`(
        member: String
    ) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let plain = #"{"input":{"text":"a"}}"#
            let more = #"{"input":{"text":"a"},\#(member)}"#
            #expect(try await guest.post("/v1/functions/echo", plain, key: "k").status == 200)
            let other = try await guest.post("/v1/functions/echo", more, key: "k")
            #expect(other.code == "idempotency_mismatch")
            for (path, key) in [("/v1/functions/echo", "l"), ("/v1/functions/echo/quote", "m")] {
                let refused = try await guest.post(path, more, key: key)
                #expect(refused.status == 422)
                #expect(refused.code == "invalid_content")
                let name = try #require(member.split(separator: "\"").first)
                let detail = try #require(try refused.json["detail"]?.string)
                #expect(detail.contains("Leave '\(name)' out"))
            }
            #expect(try await guest.post("/v1/functions/echo", plain, key: "l").status == 200)
            #expect(try await guest.balance().available == 98)
        }
    }

    @Test func `settling a hold returns the same response on every repetition`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for (path, body) in [("capture", #"{"amount":2}"#), ("release", "{}")] {
                let hold = try await guest.post("/v1/holds", #"{"amount":5}"#)
                    .decode(HoldAnswer.self).hold
                let first = try await guest.post("/v1/holds/\(hold.id)/\(path)", body, key: path)
                let second = try await guest.post("/v1/holds/\(hold.id)/\(path)", body, key: path)
                #expect(first.status == 200)
                #expect(second["Idempotency-Replayed"] == "true")
                #expect(second.body == first.body)
            }
            #expect(try await guest.balance().available == 98)
        }
    }

    @Test func `requests match by content, not by formatting`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for (path, one, other) in [
                ("/v1/spend", Self.spend, #" { "reason" : "\u0061", "new": 1, "amount" : 1 } "#),
                ("/v1/quotas/readings/consume", #"{"amount":1}"#, ""),
                (
                    "/v1/functions/echo", #"{"input":{"text":"a","delayMs":0}}"#,
                    #"{"input":{"delayMs":0,"text":"a"},"later":true}"#
                ),
            ] {
                let first = try await guest.post(path, one, key: path)
                let second = try await guest.post(path, other.isEmpty ? nil : other, key: path)
                #expect(second["Idempotency-Replayed"] == "true", "\(path): \(second.body)")
                #expect(second.body == first.body)
            }
        }
    }

    @Test func `another request under a used key is a mismatch, valid or not`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            #expect(try await guest.post("/v1/spend", Self.spend, key: "k").status == 200)
            for (path, body) in [
                ("/v1/spend", #"{"amount":2,"reason":"a"}"#),
                ("/v1/spend", #"{"amount":1,"reason":"b"}"#),
                ("/v1/spend", #"{"amount":1000,"reason":"a"}"#), ("/v1/spend", "{}"),
                ("/v1/holds", #"{"amount":1}"#), ("/v1/quotas/readings/consume", "{}"),
                ("/v1/functions/echo", #"{"input":{"text":"a"}}"#),
            ] {
                let reply = try await guest.post(path, body, key: "k")
                #expect(reply.status == 422)
                #expect(reply.code == "idempotency_mismatch", "\(path) \(body)")
            }
            #expect(try await guest.balance().available == 99)
        }
    }

    @Test func `keys are scoped to an account`() async throws {
        try await LiveServer.with { server in
            for _ in 0..<2 {
                let guest = try await server.guest()
                let reply = try await guest.post("/v1/spend", Self.spend, key: "k")
                #expect(reply.status == 200)
                #expect(reply["Idempotency-Replayed"] == nil)
                #expect(try await guest.balance().available == 99)
            }
        }
    }

    @Test(arguments: [
        "/v1/spend", "/v1/holds", "/v1/holds/x/capture", "/v1/holds/x/release",
        "/v1/quotas/readings/consume", "/v1/functions/echo",
    ])
    func `a change without a key is refused`(path: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.post(path, key: nil)
            #expect(reply.status == 400)
            #expect(reply.code == "idempotency_key_missing")
        }
    }

    @Test func `a key may have 1 to 128 visible characters`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for key in ["!", "~", String(repeating: "k", count: 128), #"a"b\c,d"#] {
                #expect(try await guest.post("/v1/spend", Self.spend, key: key).status == 200)
                let again = try await guest.post("/v1/spend", Self.spend, key: key)
                #expect(again["Idempotency-Replayed"] == "true")
            }
        }
    }

    @Test func `a running request is reported as in progress, with a time to retry`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            async let running = guest.echo("slow", key: "k", delayMs: 1_000)
            try await server.setup.delay.waitForSleepers(2)
            let meanwhile = try await guest.echo("slow", key: "k", delayMs: 1_000)
            #expect(meanwhile.status == 409)
            #expect(meanwhile.code == "operation_in_progress")
            #expect(meanwhile["Retry-After"] == "1")
            let other = try await guest.echo("other", key: "k")
            #expect(other.code == "idempotency_mismatch")
            server.setup.delay.advance(by: .seconds(1))
            let first = try await running
            let replay = try await guest.echo("slow", key: "k", delayMs: 1_000)
            #expect(replay.body == first.body)
            #expect(replay["Idempotency-Replayed"] == "true")
        }
    }

    @Test func `refusals that changed nothing are not stored`() async throws {
        let setup = LiveServer.Setup(requestsPerMinute: 20)
        let device = "a-device-that-comes-back"
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest(device: device)
            // 402, then 503: later, the same keys perform their requests.
            #expect(try await guest.spend(101, key: "dear").code == "insufficient_tokens")
            try await grant(50, to: guest)
            #expect(try await guest.spend(101, key: "dear").status == 200)
            let missing = try await guest.ask("why", key: "lost")
            #expect(missing.code == "upstream_missing")
            #expect(missing["Retry-After"] == "60")
            let spent = try await guest.post("/v1/spend", #"{"amount":0,"reason":"x"}"#, key: "bad")
            #expect(spent.code == "invalid_content")
            #expect(try await guest.spend(1, key: "bad").status == 200)
            // 429
            var reply = try await guest.get("/v1/balance")
            while reply.status == 200 { reply = try await guest.get("/v1/balance") }
            #expect(try await guest.spend(1, key: "fast").code == "rate_limited")
            server.setup.delay.advance(by: .seconds(60))
            let later = try await guest.spend(1, key: "fast")
            #expect(later.status == 200)
            #expect(later["Idempotency-Replayed"] == nil)
        }
        // After a restart with an upstream, the key of the 503 is usable as if it were new.
        try await ScriptedUpstream.with { _ in
            .bytes(ScriptedUpstream.completion("because"))
        } _: {
            upstream in
            var setup = setup
            setup.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
            try await LiveServer.with(setup) { server in
                let guest = try await server.guest(device: device)
                #expect(try await guest.ask("why", key: "lost").status == 200)
            }
        }
    }

    @Test func `an expired response is not replayed and not charged again`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            #expect(try await guest.spend(1, key: "k").status == 200)
            let delay = server.setup.delay
            try await delay.waitForSleepers(1)
            server.setup.wall.advance(by: .seconds(48 * 3_600 + 1))
            delay.advance(by: .seconds(48 * 3_600 + 1))
            // The sweep runs with every 600th look at the holds.
            for _ in 0..<Housekeeping.looksPerSweep {
                try await delay.waitForSleepers(1)
                delay.advance(by: Housekeeping.interval)
            }
            try await delay.waitForSleepers(1)
            let later = try await server.guest(device: guest.device)
            let reply = try await later.spend(1, key: "k")
            #expect(reply.status == 422)
            #expect(reply.code == "idempotency_expired")
            #expect(try await later.balance().available == 99)
        }
    }

    private func grant(_ amount: Int, to guest: Guest) async throws {
        let reply = try await guest.server.send(
            "POST",
            "/admin/v1/accounts/\(guest.account.id)/grants",
            #"{"amount":\#(amount),"reason":"sorry"}"#,
            headers: ["Idempotency-Key": "grant"],
            toAdmin: true
        )
        #expect(reply.status == 200)
    }
}
