import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("OpenAI routes", .bounded)
struct OpenAIRoutesTests {
    /// A streamed upstream response with the given data as its events.
    private static func stream(_ events: [String]) -> String {
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            + events.map { "data: \($0)\n\n" }.joined()
    }

    private static func chunk(_ text: String) -> String {
        #"{"id":"c","choices":[{"index":0,"delta":{"content":"\#(text)"}}]}"#
    }

    private static let lastChunk =
        #"{"id":"c","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}"#

    private static let usage =
        #"{"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#

    private static let hello = #"{"messages":[{"role":"user","content":"hi"}]}"#

    /// Runs a server that charges one token for each output token that the upstream reports.
    private func withUpstream(
        _ script: @escaping ScriptedUpstream.Script,
        _ body: @escaping @Sendable (Guest, ScriptedUpstream) async throws -> Void
    ) async throws {
        try await ScriptedUpstream.with(script) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.settings.functions[1].rules.price = .usage(
                    perMillionInput: 0,
                    perMillionOutput: 1_000_000
                )
                $0.settings.functions[1].maxOutputTokens = 20
            } _: { server in
                try await body(try await server.guest(), upstream)
            }
        }
    }

    private func ask(
        _ guest: Guest,
        _ body: String = hello,
        key: String? = nil
    ) async throws -> Reply {
        try await guest.post("/v1/chat/completions", body, key: key)
    }

    @Test func `the upstream gets the client's request with its own model and an output limit`()
        async throws
    {
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.completion("Yes."))
        } _: { guest, upstream in
            let body =
                #"{"model":"ask","temperature":0.5,"messages":[{"role":"user","content":"a"}]}"#
            #expect(try await ask(guest, body).status == 200)
            var arrivals = upstream.arrivals.makeAsyncIterator()
            let sent = try #require(await arrivals.next()).body
            let json = try JSONDecoder().decode(JSONValue.self, from: Data(sent.utf8))
            #expect(json["model"] == "stand-in")
            #expect(json["temperature"] == .number(0.5))
            #expect(json["max_tokens"] == 20)
        }
    }

    @Test func `the function's model is called, and an upstream's model by its name`() async throws
    {
        try await ScriptedUpstream.with({ _ in
            .bytes(ScriptedUpstream.completion("Yes."))
        }) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.settings.functions[1].model = "large"
            } _: { server in
                let guest = try await server.guest()
                var arrivals = upstream.arrivals.makeAsyncIterator()
                for (name, model) in [("ask", "large"), ("stand-in", "stand-in")] {
                    let messages = #""messages":[{"role":"user","content":"a"}]"#
                    #expect(
                        try await ask(guest, #"{"model":"\#(name)",\#(messages)}"#).status == 200
                    )
                    let sent = try #require(await arrivals.next()).body
                    let json = try JSONDecoder().decode(JSONValue.self, from: Data(sent.utf8))
                    #expect(json["model"]?.string == model)
                }
            }
        }
    }

    @Test(arguments: [nil, "k"])
    func `a free completion is stored only if it has a key`(
        key: String?
    ) async throws {
        try await ScriptedUpstream.with({ _ in
            .bytes(ScriptedUpstream.completion("Yes."))
        }) { upstream in
            let commits = WatchedState(0)
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.settings.functions[1].rules.price = .free
                $0.storage = FaultyStorage { keys in
                    let isCommit = keys.contains { if case .operation = $0 { true } else { false } }
                    if isCommit { commits.withLock { $0 += 1 } }
                    return nil
                }
            } _: { server in
                let guest = try await server.guest()
                let reply = try await ask(guest, key: key)
                #expect(reply.status == 200 && reply["Idempotency-Replayed"] == nil)
                let text = try reply.json["choices"]
                #expect(text != nil)
                #expect((commits.value > 0) == (key != nil))
                let again = try await ask(guest, key: key)
                #expect((again["Idempotency-Replayed"] == "true") == (key != nil))
                #expect(again.body == reply.body)
            }
        }
    }

    @Test func `a response names the key of its call, even if the request had none`()
        async throws
    {
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.completion("Yes."))
        } _: { guest, _ in
            #expect(try await ask(guest, key: "k")["Sanguine-Call"] == "k")
            let key = try #require(try await ask(guest)["Sanguine-Call"])
            #expect(key.hasPrefix("openai-"))
            #expect(try await guest.get("/v1/calls/\(key)").status == 200)
            let other = try await ask(guest)["Sanguine-Call"]
            #expect(other != key)
        }
    }

    @Test func `a request that the model refuses is the caller's error`() async throws {
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.json("{}", status: "400 Bad Request"))
        } _: { guest, _ in
            let reply = try await ask(guest)
            #expect(reply.status == 422)
            #expect(try reply.json["error"]?["code"]?.string == "upstream_refused")
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test func `chunks are forwarded byte for byte, and usage only on request`()
        async throws
    {
        let chunks = [Self.chunk("a"), Self.lastChunk, Self.usage, "[DONE]"]
        try await withUpstream { _ in
            .bytesThenHangUp(Self.stream(chunks))
        } _: { guest, _ in
            let messages = #""messages":[{"role":"user","content":"hi"}]"#
            let plain = try await ask(guest, #"{"stream":true,\#(messages)}"#)
            #expect(plain["Content-Type"] == "text/event-stream")
            let expected = [Self.chunk("a"), Self.lastChunk, "[DONE]"]
            #expect(plain.body == expected.map { "data: \($0)\n\n" }.joined())
            #expect(try await guest.balance().available == 98)

            let options = #""stream_options":{"include_usage":true}"#
            let asked = try await ask(guest, #"{"stream":true,\#(options),\#(messages)}"#)
            #expect(asked.body == chunks.map { "data: \($0)\n\n" }.joined())
        }
    }

    @Test func `an upstream that does not stream is forwarded as one chunk`() async throws {
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.completion("Yes."))
        } _: { guest, _ in
            let reply = try await ask(
                guest,
                #"{"stream":true,"messages":[{"role":"user","content":"hi"}]}"#
            )
            let events = reply.body.components(separatedBy: "\n\n").filter { !$0.isEmpty }
            try #require(events.count == 2 && events.last == "data: [DONE]")
            #expect(events[0].contains(#""delta":{"role":"assistant","content":"Yes.""#))
        }
    }

    @Test func `a tool call from a whole response has an index in its chunk`()
        async throws
    {
        let call = #"{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}"#
        let message = #"{"role":"assistant","content":null,"tool_calls":[\#(call)]}"#
        try await withUpstream { _ in
            .bytes(
                ScriptedUpstream.json(
                    #"{"choices":[{"message":\#(message),"finish_reason":"tool_calls"}]}"#
                )
            )
        } _: { guest, _ in
            let reply = try await ask(
                guest,
                #"{"stream":true,"messages":[{"role":"user","content":"hi"}]}"#
            )
            #expect(reply.body.contains(#""arguments":"{}"},"index":0}"#), "\(reply.body)")
        }
    }

    @Test(arguments: [false, true])
    func `an answer with a member name that is too long is refused, not stripped`(
        streamed: Bool
    ) async throws {
        let name = String(repeating: "x", count: WireLimits.memberNameBytes + 1)
        let message = #"{"role":"assistant","content":"Yes.","\#(name)":1}"#
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.json(#"{"choices":[{"message":\#(message)}]}"#))
        } _: { guest, _ in
            let reply = try await ask(
                guest,
                #"{"stream":\#(streamed),"messages":[{"role":"user","content":"hi"}]}"#
            )
            #expect(reply.body.contains(#""code":"upstream_failed""#), "\(reply.body)")
            #expect(!reply.body.contains("Yes."))
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test func `a stream that breaks ends with an error and charges for its output`() async throws {
        try await withUpstream { _ in
            .bytesThenHangUp(Self.stream([Self.chunk("one "), Self.chunk("two ")]))
        } _: { guest, _ in
            let reply = try await ask(
                guest,
                #"{"stream":true,"messages":[{"role":"user","content":"hi"}]}"#
            )
            let events = reply.body.components(separatedBy: "\n\n").filter { !$0.isEmpty }
            #expect(events.count == 3)
            let last = try #require(events.last).dropFirst("data: ".count)
            let json = try JSONDecoder().decode(JSONValue.self, from: Data(last.utf8))
            #expect(json["error"]?["code"] == "upstream_failed")
            let balance = try await guest.balance()
            #expect((balance.available, balance.held) == (98, 0))
        }
    }

    @Test func `an answer that is too long to read is charged for the text it shows`() async throws
    {
        let words = String(repeating: "word ", count: 8)
        let token = #"{"token":"word","top_logprobs":[{"token":"words","logprob":-1.25}]}"#
        let tokens = Array(repeating: token, count: 400).joined(separator: ",")
        let choice = """
            {"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"\(words)"},\
            "logprobs":{"content":[\(tokens)]}}
            """
        try await ScriptedUpstream.with({ _ in
            .bytes(ScriptedUpstream.json("{\"choices\":[\(choice)]}"))
        }) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.settings.upstream.answerBytes = 4_096
                $0.settings.functions[1].rules.price = .usage(
                    perMillionInput: 0,
                    perMillionOutput: 1_000_000
                )
                $0.settings.functions[1].maxOutputTokens = 20
            } _: { server in
                let guest = try await server.guest()
                let before = try await guest.balance().available
                let reply = try await ask(guest, key: "long")
                #expect(reply.status == 502)
                #expect(reply.body.contains("longer than 4096 bytes"), "\(reply.body)")
                let balance = try await guest.balance().available
                #expect(before - balance == 10)
                #expect(try await ask(guest, key: "long").status == 502)
                #expect(try await guest.balance().available == balance)
            }
        }
    }

    @Test func `an oversized response that is not an answer costs nothing`() async throws {
        let page = "<html>" + String(repeating: "x", count: 8_192)
        try await ScriptedUpstream.with({ _ in .bytes(ScriptedUpstream.json(page)) }) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.settings.upstream.answerBytes = 4_096
            } _: { server in
                let guest = try await server.guest()
                let before = try await guest.balance().available
                #expect(try await ask(guest).status == 502)
                #expect(try await guest.balance().available == before)
            }
        }
    }

    @Test func `a repeated key returns the same response and charges once`()
        async throws
    {
        try await withUpstream { request in
            let usage = #"{"prompt_tokens":1,"completion_tokens":3}"#
            return .bytes(ScriptedUpstream.completion("No. \(request.number)", usage: usage))
        } _: { guest, _ in
            let first = try await ask(guest, key: "k")
            let again = try await ask(guest, key: "k")
            #expect(first.body == again.body)
            #expect(again["Idempotency-Replayed"] == "true")
            #expect(try await guest.balance().available == 97)
            // A request without a key is a separate call.
            #expect(try await ask(guest).body != first.body)
            #expect(try await ask(guest).status == 200)
            #expect(try await guest.balance().available == 91)
        }
    }

    @Test(arguments: [
        #""n":2"#, #""best_of":4"#, #""use_beam_search":true"#, #""modalities":["text","audio"]"#,
        #""audio":{"voice":"ash"}"#, #""prediction":{"type":"content","content":"a"}"#,
        #""web_search_options":{}"#, #""service_tier":"priority""#,
    ])
    func `parameters that may cost more than one answer are refused by name`(
        member: String
    ) throws {
        let question = #""messages":[{"role":"user","content":"a"}]"#
        let name = try #require(member.split(separator: "\"").first)
        let body = { (text: String) in
            try WireBody.passedOn(Array("{\(question),\(text)}".utf8))
        }
        let refused = try #require(throws: Problem.self) {
            try ChatRequest(try body(member), maxOutputTokens: 20)
        }
        #expect(refused.code == .invalidContent && refused.detail.contains("'\(name)'"))
        _ = try ChatRequest(try body("\"\(name)\":null"), maxOutputTokens: 20)
    }

    @Test func `members that do not change the cost of a call are forwarded`() throws {
        let text = #"""
            {"messages":[{"role":"user","content":"a"}],"n":1,"modalities":["text"],
             "service_tier":"auto","temperature":0.5,"seed":7}
            """#
        let chat = try ChatRequest(try WireBody.passedOn(Array(text.utf8)), maxOutputTokens: 20)
        #expect(chat.maxOutputTokens == 20)
    }

    @Test(arguments: [
        (#"{"model":"no","messages":[{"role":"user","content":"a"}]}"#, 404, "model_not_found"),
        (#"{"messages":[]}"#, 422, "invalid_content"),
        (#"{"messages":[{"role":"user","content":"a"}],"n":2}"#, 422, "invalid_content"),
        (#"{"messages":[{"role":"user","content":"a"}],"max_tokens":21}"#, 422, "invalid_content"),
        (
            #"{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}"#, 422,
            "invalid_content"
        ), ("[]", 400, "malformed_body"),
    ])
    func `a refusal has OpenAI's shape and the server's code`(
        body: String,
        status: Int,
        code: String
    ) async throws {
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.completion("Yes."))
        } _: { guest, _ in
            let reply = try await ask(guest, body)
            #expect(reply.status == status)
            #expect(reply["Content-Type"] == "application/json")
            let error = try reply.json["error"]
            #expect(error?["code"]?.string == code)
            #expect(error?["message"]?.string?.isEmpty == false)
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test func `an upstream failure is an error with a status and costs nothing`()
        async throws
    {
        try await withUpstream { _ in
            .bytes(ScriptedUpstream.json("{}", status: "500 Internal Server Error"))
        } _: { guest, _ in
            let reply = try await ask(guest)
            #expect(reply.status == 502)
            #expect(try reply.json["error"]?["code"]?.string == "upstream_failed")
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test func `a guest who cannot pay or is not signed in gets OpenAI's error shape`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            try await guest.spend(downTo: 0)
            let poor = try await ask(guest)
            #expect(poor.status == 402)
            #expect(try poor.json["error"]?["code"]?.string == "insufficient_tokens")
            let stranger = try await server.send("POST", "/v1/chat/completions", Self.hello)
            #expect(stranger.status == 401)
            #expect(try stranger.json["error"]?["type"]?.string == "authentication_error")
            #expect(stranger["WWW-Authenticate"] == "Bearer")
        }
    }

    @Test func `the OpenAI routes are closed without a function`() async throws {
        try await LiveServer.with {
            $0.settings.openAI.function = ""
        } _: { server in
            let guest = try await server.guest()
            #expect(try await ask(guest).status == 404)
            let models = try await guest.get("/v1/models")
            #expect(try models.json["data"] == .array([]))
        }
    }
}
