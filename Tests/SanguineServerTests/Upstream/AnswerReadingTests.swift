import AsyncHTTPClient
import HostileUpstream
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Responses of an upstream in a form that was not requested.
@Suite("Reading upstream responses", .bounded)
struct AnswerReadingTests {
    private static let question = #""messages":[{"role":"user","content":"hi"}]"#

    private func ask(
        _ reply: Provider.Reply,
        _ body: String = "{\(question)}"
    ) async throws -> (Reply, Int64) {
        let answers = WatchedState<[(Reply, Int64)]>([])
        try await ProviderServer.with(Provider("one") { _ in reply }) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = upstream.url
                $0.settings.functions[1].rules.price = .usage(
                    perMillionInput: 0,
                    perMillionOutput: 1_000_000
                )
                $0.settings.functions[1].maxOutputTokens = 20
            } _: { server in
                let guest = try await server.guest()
                let reply = try await guest.post("/v1/chat/completions", body, key: nil)
                let charged = 100 - (try await guest.balance().available)
                answers.withLock { $0.append((reply, charged)) }
            }
        }
        return try #require(answers.value.first)
    }

    private static let events = [
        Provider.chunk(#"{"role":"assistant","content":"Hello"}"#),
        Provider.chunk(#"{"content":", world."}"#),
        Provider.chunk(
            #"""
            {"tool_calls":[{"id":"c1","type":"function","function":{"name":"f",\#
            "arguments":"{"}}]}
            """#
        ),
        Provider.chunk(#"{"tool_calls":[{"function":{"arguments":"}"}}]}"#),
        Provider.chunk("{}", finish: #""stop""#), Provider.usageChunk(),
    ]

    @Test(arguments: ["text/event-stream", "text/plain", "application/json", ""])
    func `a stream in response to a plain request is assembled`(type: String) async throws {
        let (reply, charged) = try await ask(.events(Self.events, type: type))
        #expect(reply.status == 200, "\(reply.body)")
        let json = try reply.json
        #expect(json["object"] == "chat.completion")
        guard case .array(let choices) = json["choices"], let choice = choices.first else {
            Issue.record("No choices: \(reply.body)")
            return
        }
        #expect(choice["message"]?["content"]?.string == Provider.text)
        #expect(choice["finish_reason"] == "stop")
        let call: JSONValue = [
            "id": "c1", "type": "function", "function": ["name": "f", "arguments": "{}"],
        ]
        #expect(choice["message"]?["tool_calls"] == .array([call]))
        #expect(charged == 3)
    }

    @Test(arguments: [
        "application/octet-stream", "text/event-stream; charset=utf-8", "application/json", "",
    ])
    func `a stream is recognized regardless of its type`(type: String) async throws {
        let body =
            "\u{FEFF}: hello\r\n\r\n"
            + (Self.events + ["[DONE]"]).map { "data:\($0)\r\n\r\n" }.joined()
        let (reply, charged) = try await ask(
            .init(type: type, body),
            #"{"stream":true,\#(Self.question)}"#
        )
        let events = (Self.events.dropLast() + ["[DONE]"]).map { "data: \($0)\n\n" }
        #expect(reply.body == events.joined())
        #expect(charged == 3)
    }

    @Test func `a chunk of several lines is an event of several lines`() async throws {
        let chunk = Provider.chunk(#"{"content":"Hello"}"#, finish: #""stop""#)
            .replacing(#","object""#, with: ",\ndata: \"object\"")
        let (reply, _) = try await ask(
            .init(type: "text/event-stream", "data: \(chunk)\n\ndata: [DONE]\n\n"),
            #"{"stream":true,\#(Self.question)}"#
        )
        #expect(reply.body == "data: \(chunk)\n\ndata: [DONE]\n\n")
    }

    @Test func `a whole answer keeps its bytes`() async throws {
        let body = #"""
            {"z":18446744073709551616,"choices":[{"message":{"role":"assistant","b":1,"a":1,
            "content":"\ud800","a":2},"finish_reason":"stop"}],
            "usage":{"prompt_tokens":1,"completion_tokens":2}}
            """#
        let (reply, charged) = try await ask(.init(body))
        #expect(reply.body == body)
        #expect(charged == 2)
    }

    @Test func `a whole answer keeps its order and numbers as a chunk`() async throws {
        let whole =
            #"""
            {"z":18446744073709551616,"choices":[{"message":{"content":"a"},"index":0,\#
            "finish_reason":"stop"}]}
            """#
        let (reply, _) = try await ask(.init(whole), #"{"stream":true,\#(Self.question)}"#)
        let chunk =
            #"""
            {"z":18446744073709551616,"choices":[{"delta":{"content":"a"},"index":0,\#
            "finish_reason":"stop"}],"object":"chat.completion.chunk"}
            """#
        #expect(reply.body == "data: \(chunk)\n\ndata: [DONE]\n\n")
    }

    @Test(arguments: [false, true])
    func `a compressed response is read even if it was not requested`(streamed: Bool) async throws {
        let plain: Provider.Reply =
            streamed
            ? .events(Self.events)
            : .init(
                #"""
                {"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],\#
                \#(Provider.usage)}
                """#
            )
        let gzip = try #require(Gzip.compress(plain.body))
        let reply = Provider.Reply(type: plain.type + "\r\nContent-Encoding: gzip", bytes: gzip)
        let (got, charged) = try await ask(reply, #"{"stream":\#(streamed),\#(Self.question)}"#)
        #expect(got.status == 200 && charged == 3, "\(got.body)")
    }

    @Test(arguments: [
        #"{"error":"text"}"#, #"{"error":{"message":"a"}}"#, #"{"detail":"a"}"#,
        #"{"object":"error","message":"a","code":503}"#, #"{"type":"error"}"#,
        #"{"choices":[{"finish_reason":"error","delta":{}}]}"#,
        #"{"choices":[{"error":{"code":502},"delta":{}}]}"#,
    ])
    func `an event that reports an error is an error`(data: String) throws {
        var stream = CompletionStream(textBytes: 1_000)
        try stream.append(Array("data: \(data)\n\n".utf8))
        let error = #expect(throws: UpstreamError.self) { try stream.next() }
        guard case .refused = error else {
            Issue.record("The error is \(String(describing: error))")
            return
        }
    }

    @Test func `an empty error next to an answer is ignored`() {
        let json: JSONValue = ["error": .null, "choices": .array([]), "detail": .null]
        #expect(ReportedError(json) == nil)
        #expect(ReportedError(["error": [:], "choices": .array([])]) == nil)
    }

    @Test(arguments: [
        #""MAX_TOKENS":5"#, #""max_tokens":5,"max_tokens":6"#, #""max_to\u212Aens":5"#,
    ])
    func `a limit that programs read differently is refused by name`(member: String) throws {
        let body = try WireBody.passedOn(Array("{\(Self.question),\(member)}".utf8))
        let problem = #expect(throws: Problem.self) {
            try ChatRequest(body, maxOutputTokens: 20)
        }
        #expect(problem?.detail.contains("'max_tokens'") == true)
    }

    @Test func `a picture hidden behind a duplicate type is found`() throws {
        let part = #"{"type":"image_url","type":"text"}"#
        let body = try WireBody.passedOn(
            Array(#"{"messages":[{"role":"user","content":[\#(part)]}]}"#.utf8)
        )
        let refusal = #expect(throws: Problem.self) { try ChatRequest(body, maxOutputTokens: 20) }
        #expect(refusal?.code == .invalidContent)
    }
}
