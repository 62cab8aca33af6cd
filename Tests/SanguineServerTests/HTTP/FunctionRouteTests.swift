import AsyncHTTPClient
import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Functions over HTTP", .bounded)
struct FunctionRouteTests {
    private typealias Result = FunctionResult<String>

    /// Runs a server whose upstream follows the script.
    ///
    /// A call of `ask` costs one token for each output token that the upstream reports.
    private func withUpstream(
        _ script: @escaping ScriptedUpstream.Script,
        _ body: @escaping @Sendable (LiveServer, Guest, ScriptedUpstream) async throws -> Void
    ) async throws {
        try await ScriptedUpstream.with(script) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.settings.upstream.timeout = .seconds(5)
                let price = Price.usage(perMillionInput: 0, perMillionOutput: 1_000_000)
                $0.settings.functions = [
                    .echo,
                    FunctionSetting(
                        name: "ask",
                        kind: .upstream,
                        price: price,
                        maxOutputTokens: 20
                    ),
                ]
            } _: { server in
                try await body(server, try await server.guest(), upstream)
            }
        }
    }

    @Test func `the functions are listed with price and input`() async throws {
        try await LiveServer.with { server in
            let reply = try await server.guest().get("/v1/functions")
            let items = try reply.decode(Items<FunctionDescription>.self).items
            #expect(items.map(\.name) == ["echo", "ask", "daily"])
            #expect(items[0].price == .fixed(1).charged(.onStart))
            #expect(items[0].inputs == ["text": "string", "delayMs?": "integer"])
            #expect(items[1].price.kind == .usage)
            #expect(items[1].inputs == ["question": "string"])
            #expect(items.map(\.cache) == ["none", "none", "midnight"])
            #expect(items.map(\.audience) == [nil, nil, "account"])
            #expect(items.allSatisfy { $0.stream && $0.attachments == nil })
            #expect(items[2].price == .fixed(1).charged(.onStart))
            #expect(try await server.send("GET", "/v1/functions").code == "unauthenticated")
        }
    }

    @Test func `a quote returns the possible cost and holds nothing`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let echo = try await guest.post(
                "/v1/functions/echo/quote",
                #"{"input":{"text":"a"}}"#,
                key: nil
            )
            #expect(try echo.decode(Quote.self) == Quote(estimate: 1, hold: 1))
            let ask = try await guest.post(
                "/v1/functions/ask/quote",
                #"{"input":{"question":"Is it late?"}}"#,
                key: nil
            ).decode(Quote.self)
            #expect(ask.estimate >= 1)
            #expect(ask.estimate <= ask.hold)
            #expect(try await guest.balance().head == 2)
            let invalid = try await guest.post("/v1/functions/ask/quote", "{}", key: nil)
            #expect(invalid.code == "invalid_content")
            #expect(try await guest.post("/v1/functions/no/quote", "{}").code == "not_found")
        }
    }

    @Test func `echo returns the text and charges its price`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.echo("Guten Tag, Ærøskøbing", key: "k-1")
            #expect(reply["Sanguine-Call"] == "k-1")
            #expect(reply.status == 200)
            let result = try reply.decode(Result.self)
            #expect(result.output == "Guten Tag, Ærøskøbing")
            #expect((result.charged, result.tokensRemaining, result.held) == (1, 99, 0))
            #expect(!result.cached)
            #expect(reply.head == result.head)
            #expect(reply["Cache-Status"] == "sanguine; fwd=bypass")
            let balance = try await guest.balance()
            #expect((balance.available, balance.head) == (99, result.head))
            let kinds = try await guest.get("/v1/ledger").decode(ListPage<LedgerEntry>.self).items
                .map(\.kind)
            #expect(kinds == [.capture, .release, .hold, .grant])
        }
    }

    @Test func `echo waits for the requested time and holds its price until then`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            async let reply = guest.echo("late", delayMs: 60_000)
            try await server.setup.delay.waitForSleepers(1, dueIn: .seconds(60))
            let meanwhile = try await guest.balance()
            #expect((meanwhile.available, meanwhile.held) == (99, 1))
            server.setup.delay.advance(by: .seconds(60))
            let result = try await reply.decode(Result.self)
            #expect(result.tokensRemaining == 99)
            #expect(try await guest.balance().held == 0)
        }
    }

    @Test func `a call's hold outlasts the call, even if other holds are shorter`() async throws {
        try await LiveServer.with {
            $0.settings.holdsDuration = .seconds(1)
        } _: { server in
            let guest = try await server.guest()
            async let reply = guest.echo("late", delayMs: 60_000)
            try await server.setup.delay.waitForSleepers(1, dueIn: .seconds(60))
            try await server.setup.delay.waitForSleepers(1, dueIn: Housekeeping.interval)
            server.setup.wall.advance(by: .seconds(60))
            server.setup.delay.advance(by: .seconds(1))
            try await server.setup.delay.waitForSleepers(1, dueIn: Housekeeping.interval)
            #expect(try await guest.balance().held == 1)
            server.setup.delay.advance(by: .seconds(59))
            #expect(try await reply.status == 200)
        }
    }

    @Test func `the hold of an upstream call outlasts the upstream's timeout`() async throws {
        let setup = {
            var setup = LiveServer.Setup()
            setup.settings.holdsDuration = .seconds(1)
            setup.settings.upstream.timeout = .seconds(300)
            return setup
        }()
        try await ScriptedUpstream.with({ _ in .bytesThenSilence("") }) { upstream in
            var setup = setup
            setup.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
            try await LiveServer.with(setup) { server in
                let guest = try await server.guest()
                let call = Task { try await guest.ask("Is it late?") }
                var arrivals = upstream.arrivals.makeAsyncIterator()
                _ = await arrivals.next()
                let holds = try await server.setup.storage.openHolds(
                    expiringBy: Timestamp(millisecondsSince1970: .max),
                    limit: 1
                )
                let expiresAt = try #require(holds.first).expiresAt
                #expect(expiresAt == server.setup.wall.now() + .seconds(360))
                try await server.setup.delay.waitForSleepers(1, dueIn: .seconds(300))
                server.setup.delay.advance(by: .seconds(300))
                #expect(try await call.finished().code == "upstream_timeout")
            }
        }
    }

    @Test(arguments: [
        "{}", #"{"input":{}}"#, #"{"input":[]}"#, #"{"input":{"text":7}}"#,
        #"{"input":{"text":""}}"#, #"{"input":{"text":"a","delayMs":-1}}"#,
        #"{"input":{"text":"a","delayMs":60001}}"#, #"{"input":{"text":"a","delayMs":"1"}}"#,
        #"{"input":{"text":"a","delayMs":0.5}}"#,
        #"{"input":{"text":"\#(String(repeating: "t", count: 65_537))"}}"#,
    ])
    func `an input that the function does not accept is invalid content`(body: String) async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.post("/v1/functions/echo", body)
            #expect(reply.status == 422)
            #expect(reply.code == "invalid_content")
            #expect(try await guest.balance().head == 2)
        }
    }

    @Test func `a client cannot settle the hold of a call`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            async let reply = guest.echo("slow", key: "k", delayMs: 1_000)
            try await server.setup.delay.waitForSleepers(2)
            server.setup.delay.advance(by: .seconds(1))
            let operation = try await reply.decode(Result.self).operation
            let release = try await guest.post("/v1/holds/\(operation)/release")
            #expect(release.code == "not_found")
        }
    }

    @Test func `ask is charged by the usage that the upstream reports`() async throws {
        try await withUpstream { request in
            let usage = #"{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}"#
            return .bytes(ScriptedUpstream.completion("No. \(request.number)", usage: usage))
        } _: { server, guest, upstream in
            let reply = try await guest.ask("Is it late?", key: "k")
            let result = try reply.decode(Result.self)
            #expect(result.output == "No. 1")
            #expect((result.charged, result.tokensRemaining, result.held) == (7, 93, 0))
            let again = try await guest.ask("Is it late?", key: "k")
            #expect(again.body == reply.body)
            var arrivals = upstream.arrivals.makeAsyncIterator()
            let request = try #require(await arrivals.next())
            #expect(request.body.contains("Is it late?"))
            #expect(!request.head.contains(guest.session.accessToken))
            // The repeated request was not sent, so the next call is the upstream's second.
            #expect(try await guest.ask("Is it late?").decode(Result.self).output == "No. 2")
            // The estimate reflects the last usage.
            let quote = try await guest.post(
                "/v1/functions/ask/quote",
                #"{"input":{"question":"Is it late?"}}"#,
                key: nil
            ).decode(Quote.self)
            #expect(quote == Quote(estimate: 7, hold: 20))
        }
    }

    @Test(arguments: [false, true])
    func `an answer cut by the model's limit has its reason and is not cached`(
        streamed: Bool
    ) async throws {
        try await ScriptedUpstream.with({ request in
            let text = "No. \(request.number)"
            let message = #"{"role":"assistant","content":"\#(text)"}"#
            return .bytes(
                ScriptedUpstream.json(
                    #"{"choices":[{"message":\#(message),"finish_reason":"length"}]}"#
                )
            )
        }) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
            } _: { server in
                let guest = try await server.guest()
                for number in 1...2 {
                    let reply = try await guest.post(
                        "/v1/functions/daily",
                        #"{"input":{}}"#,
                        headers: streamed ? ["Accept": "text/event-stream"] : [:]
                    )
                    #expect(reply.body.contains(#""finishReason":"length""#), "\(reply.body)")
                    #expect(reply.body.contains(#""output":"No. \#(number)""#))
                }
            }
        }
    }

    @Test(arguments: [
        #"{"prompt_tokens":1,"completion_tokens":1000000}"#,
        #"{"prompt_tokens":1,"completion_tokens":21}"#,
    ])
    func `reported usage is charged up to the hold`(usage: String) async throws {
        let text = "twenty characters and more"
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.completion(text, usage: usage))
        } _: { _, guest, _ in
            let result = try await guest.ask("How much?").decode(Result.self)
            #expect((result.charged, result.tokensRemaining) == (20, 80))
        }
    }

    @Test(arguments: [
        nil, #"{"prompt_tokens":-1,"completion_tokens":-5}"#, #"{"completion_tokens":"7"}"#, "{}",
        #"{"prompt_tokens":1,"completion_tokens":999999999999}"#,
        #"{"prompt_tokens":0,"completion_tokens":0}"#,
    ])
    func `without valid usage, four bytes of the answer are charged as a token`(
        usage: String?
    ) async throws {
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.completion("twenty-eight bytes of words.", usage: usage))
        } _: { _, guest, _ in
            let result = try await guest.ask("How much?").decode(Result.self)
            #expect(result.charged == 7)
        }
    }

    @Test(arguments: ["500 Internal Server Error", "401 Unauthorized", "429 Too Many Requests"])
    func `an upstream error returns 502 and releases the hold`(status: String) async throws {
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.json(#"{"error":"sk-secret"}"#, status: status))
        } _: { _, guest, _ in
            try await expectRelease(of: guest, 502, "upstream_failed")
        }
    }

    @Test(arguments: ["", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"choices\"", "nonsense"])
    func `an upstream that hangs up returns 502 and releases the hold`(bytes: String) async throws {
        try await withUpstream { _ in
            .bytesThenHangUp(bytes)
        } _: { _, guest, _ in
            try await expectRelease(of: guest, 502, "upstream_failed")
        }
    }

    @Test func `an upstream without an answer returns 502`() async throws {
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.json("{}"))
        } _: { _, guest, _ in
            try await expectRelease(of: guest, 502, "upstream_failed")
        }
    }

    private func expectRelease(of guest: Guest, _ status: Int, _ code: String) async throws {
        let reply = try await guest.ask("Why?", key: "k")
        #expect(reply.status == status)
        #expect(reply.code == code)
        #expect(!reply.body.contains("sk-secret"))
        let balance = try await guest.balance()
        #expect((balance.available, balance.held) == (100, 0))
        #expect(reply.head == balance.head)
        // The key returns the failure, and a call with the key runs again.
        let repetition = try await guest.get("/v1/calls/k")
        #expect(repetition.status == status && repetition.code == code)
        let again = try await guest.ask("Why?", key: "k")
        #expect(again.code == code)
        #expect(again["Idempotency-Replayed"] == nil)
    }

    @Test func `a call that failed without a charge runs again under its key and is charged once`()
        async throws
    {
        try await withUpstream { request in
            let usage = #"{"prompt_tokens":1,"completion_tokens":7}"#
            return request.number == 1
                ? .bytes(ScriptedUpstream.json("{}", status: "500 Internal Server Error"))
                : .bytes(ScriptedUpstream.completion("Because.", usage: usage))
        } _: { server, guest, _ in
            #expect(try await guest.ask("Why?", key: "k").code == "upstream_failed")
            #expect(try await guest.ask("How?", key: "k").code == "idempotency_mismatch")
            #expect(try await guest.get("/v1/calls/k").code == "upstream_failed")
            let second = try await guest.ask("Why?", key: "k")
            #expect(second.status == 200 && second["Idempotency-Replayed"] == nil)
            for _ in 1...3 {
                let again = try await guest.ask("Why?", key: "k")
                #expect(again.body == second.body && again["Idempotency-Replayed"] == "true")
            }
            #expect(try await guest.get("/v1/calls/k").body == second.body)
            #expect(try await guest.balance().available == 93)
            #expect(try await server.authority.verifyLedger().differences.isEmpty)
        }
    }

    @Test func `an upstream that hangs returns 504 and releases the hold`() async throws {
        try await withUpstream { _ in
            .bytesThenSilence("")
        } _: { server, guest, upstream in
            async let reply = guest.ask("Why?")
            var arrivals = upstream.arrivals.makeAsyncIterator()
            _ = await arrivals.next()
            try await server.setup.delay.waitForSleepers(1, dueIn: .seconds(5))
            #expect(try await guest.balance().held == 20)
            server.setup.delay.advance(by: .seconds(5))
            let late = try await reply
            #expect(late.status == 504)
            #expect(late.code == "upstream_timeout")
            let balance = try await guest.balance()
            #expect((balance.available, balance.held) == (100, 0))
        }
    }

    @Test func `an unreachable upstream returns 502`() async throws {
        try await LiveServer.with {
            $0.settings.upstream.url = "http://127.0.0.1:1"
        } _: { server in
            let guest = try await server.guest()
            #expect(try await guest.ask("Why?").code == "upstream_failed")
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test func `without an upstream, ask returns 503 and stores nothing`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for _ in 0..<2 {
                let reply = try await guest.ask("Why?", key: "k")
                #expect(reply.status == 503)
                #expect(reply.code == "upstream_missing")
                #expect(reply["Retry-After"] == "60")
                #expect(reply["Idempotency-Replayed"] == nil)
            }
            #expect(try await guest.balance().head == 2)
            #expect(try await guest.echo("a", key: "k").status == 200)
        }
    }

    @Test func `a client that disconnects is charged and finds its answer under the key`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let call = Task { try await guest.echo("gone", key: "k", delayMs: 1_000) }
            try await server.setup.delay.waitForSleepers(2)
            call.cancel()  // Closes the connection.
            let error = await #expect(throws: (any Error).self) { try await call.finished() }
            #expect(!(error is WaitTimeout))
            #expect(try await guest.balance().held == 1)
            server.setup.delay.advance(by: .seconds(1))
            var reply = try await guest.echo("gone", key: "k", delayMs: 1_000)
            for _ in 0..<1_000 where reply.code == "operation_in_progress" {
                reply = try await guest.echo("gone", key: "k", delayMs: 1_000)
            }
            #expect(reply["Idempotency-Replayed"] == "true")
            #expect(try reply.decode(Result.self).charged == 1)
            let balance = try await guest.balance()
            #expect((balance.available, balance.held) == (99, 0))
        }
    }
}
