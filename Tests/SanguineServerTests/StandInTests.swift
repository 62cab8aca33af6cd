import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Stand-in", .bounded)
struct StandInTests {
    private func answer(_ question: String, maxTokens: Int? = nil) -> StandInAnswer {
        StandInAnswer(to: [.init(role: "user", text: question)], maxTokens: maxTokens)
    }

    @Test func `the same conversation gets the same answer in every process`() {
        let known = answer("How do I learn to juggle?")
        #expect(known == answer("How do I learn to juggle?"))
        #expect(known.fingerprint == 13_647_128_349_826_820_613)
        #expect(known.text.contains("How do I learn to juggle"))
    }

    @Test func `different questions get different answers that quote them`() {
        let questions = (1...50).map { "What about number \($0)?" }
        let answers = questions.map { answer($0).text }
        #expect(Set(answers).count == 50)
        for (question, text) in zip(questions, answers) {
            #expect(text.contains(question.dropLast()))
        }
    }

    @Test func `tokens are counted by the documented rule`() {
        let answer = StandInAnswer(
            to: [.init(role: "system", text: "12345"), .init(role: "user", text: "1234")]
        )
        #expect(answer.promptTokens == (2 + 4) + (1 + 4))
        #expect(answer.completionTokens == (answer.text.utf8.count + 3) / 4)
        #expect(StandInAnswer.tokens(of: "") == 0)
    }

    @Test(arguments: 1...40)
    func `an answer is never longer than requested`(limit: Int) {
        let cut = answer("How do I learn to juggle?", maxTokens: limit)
        #expect(cut.completionTokens <= limit)
        #expect(!cut.text.isEmpty)
        #expect(answer("How do I learn to juggle?").text.hasPrefix(cut.text))
        #expect(cut.isCut == (cut.text != answer("How do I learn to juggle?").text))
    }

    @Test func `the words of a stream form the answer`() throws {
        let answer = answer("How do I learn to juggle?")
        let time = Timestamp(millisecondsSince1970: 1_000)
        let reply = StandInReply(answer: answer, toolCall: nil, model: "m", time: time)
        let chunks = reply.chunks(includesUsage: true)
        var text = ""
        for chunk in chunks {
            guard case .array(let choices) = chunk["choices"] else { continue }
            text += choices.first?["delta"]?["content"]?.string ?? ""
        }
        #expect(text == answer.text)
        #expect(
            chunks.last?["usage"]?["completion_tokens"]?.integer == Int64(answer.completionTokens)
        )
    }

    /// Runs the body with a stand-in on a free port, then shuts it down.
    private func withStandIn(
        latency: Duration = .zero,
        wordInterval: Duration = .zero,
        clock: any Clock<Duration> = ContinuousClock(),
        _ body: @escaping @Sendable (_ url: String, _ http: HTTPClient) async throws -> Void
    ) async throws {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let standIn = StandInServer(
            port: 0,
            latency: latency,
            wordInterval: wordInterval,
            clock: clock,
            logger: logger
        )
        let http = HTTPClient(eventLoopGroupProvider: .singleton)
        do {
            try await standIn.serve { url in try await body(url, http) }
        } catch {
            Issue.record(error)
        }
        try await http.shutdown()
    }

    private func post(
        _ body: String,
        to url: String,
        path: String = "/v1/chat/completions",
        _ http: HTTPClient
    ) async throws -> (status: UInt, text: String) {
        var request = HTTPClientRequest(url: url + path)
        request.method = .POST
        request.body = .bytes(ByteBuffer(string: body))
        let response = try await http.execute(request, timeout: .patient(30))
        let text = String(buffer: try await response.body.collect(upTo: 1 << 20))
        return (response.status.code, text)
    }

    @Test func `the upstream client understands the stand-in`() async throws {
        try await withStandIn { url, _ in
            let configuration = try UpstreamConfiguration(url: url, model: "stand-in")
            try await UpstreamClient.with(configuration) { client in
                let prompt = UpstreamPrompt(
                    messages: [.init(.user, "How do I learn to juggle?")],
                    maxOutputTokens: 512
                )
                let answer = try await client.complete(prompt)
                let expected = self.answer("How do I learn to juggle?", maxTokens: 512)
                #expect(answer.text == expected.text)
                #expect(answer.usage?.promptTokens == Int64(expected.promptTokens))
                #expect(answer.usage?.completionTokens == Int64(expected.completionTokens))
            }
        }
    }

    @Test func `an answer is delayed by the latency`() async throws {
        let clock = ManualClock()
        try await withStandIn(latency: .seconds(3), clock: clock) { url, http in
            let body = #"{"messages":[{"role":"user","content":"Hello"}]}"#
            async let answer = post(body, to: url, http)
            try await clock.waitForSleepers(1)
            clock.advance(by: .seconds(3))
            let status = try await answer.status
            #expect(status == 200)
        }
    }

    @Test func `a streamed answer ends with DONE`() async throws {
        try await withStandIn { url, http in
            let body = #"{"stream":true,"messages":[{"role":"user","content":"Hello"}]}"#
            let (status, text) = try await post(body, to: url, http)
            #expect(status == 200)
            let events = text.components(separatedBy: "\n\n").filter { !$0.isEmpty }
            #expect(events.allSatisfy { $0.hasPrefix("data: ") })
            #expect(events.last == "data: [DONE]")
            #expect(events.count > 3)
        }
    }

    @Test func `the stand-in lists its model`() async throws {
        try await withStandIn { url, http in
            let request = HTTPClientRequest(url: url + "/v1/models")
            let response = try await http.execute(request, timeout: .patient(30))
            let body = String(buffer: try await response.body.collect(upTo: 1 << 20))
            let json = try JSONDecoder().decode(JSONValue.self, from: Data(body.utf8))
            #expect(json["object"] == "list")
            guard case .array(let models) = json["data"] else { throw CancellationError() }
            #expect(models.map { $0["id"] } == ["stand-in"])
        }
    }

    @Test(arguments: [
        "", "[]", "{}", #"{"messages":[]}"#, #"{"messages":[{"role":"user"}]}"#,
        #"{"messages":[{"role":"user","content":"a"}],"max_tokens":0}"#,
        #"{"messages":[{"role":"user","content":"a"}],"n":2}"#,
    ])
    func `an invalid request is refused in OpenAI's shape`(body: String) async throws {
        try await withStandIn { url, http in
            let (status, text) = try await post(body, to: url, http)
            #expect(status == 400)
            let json = try JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))
            #expect(json["error"]?["type"] == "invalid_request_error")
            #expect(json["error"]?["message"]?.string?.isEmpty == false)
        }
    }

    @Test func `text parts are read as one text`() throws {
        let body = #"""
            {"messages":[{"role":"user","content":[
                {"type":"text","text":"a"},{"type":"text","text":"b"}
            ]}]}
            """#
        let request = try StandInRequest(body: Data(body.utf8))
        #expect(request.messages == [.init(role: "user", text: "ab")])
    }

    @Test func `the words of a stream arrive one by one, at the set interval`() async throws {
        let clock = ManualClock()
        try await withStandIn(wordInterval: .seconds(1), clock: clock) { url, _ in
            let configuration = try UpstreamConfiguration(url: url, model: "stand-in")
            try await UpstreamClient.with(configuration) { client in
                let pool = Upstreams([NamedUpstream("stand-in", client)])
                let words = WatchedState("")
                let prompt = UpstreamPrompt(messages: [.init(.user, "Hi")], maxOutputTokens: 20)
                let call = Task {
                    try await pool.answer(.prompt(prompt), within: .seconds(20), streamed: true) {
                        event in
                        words.withLock { $0 += event.text }
                    }
                }
                let text = self.answer("Hi", maxTokens: 20).text
                let pieces = text.split(separator: " ")
                for count in 1...3 {
                    let said = pieces.prefix(count).joined(separator: " ")
                    try await words.wait(for: "\(count) words") { $0 == said }
                    try await clock.waitForSleepers(1)
                    clock.advance(by: .seconds(1))
                }
                let answer = try await clock.advancing(by: .seconds(1)) {
                    try await call.finished()
                }
                #expect(answer.text == text)
                #expect(answer.usage?.completionTokens == Int64(StandInAnswer.tokens(of: text)))
            }
        }
    }

    @Test func `images and files have a fixed price`() throws {
        func request(_ image: String) throws -> StandInRequest {
            let body = #"""
                {"messages":[{"role":"user","content":[
                    {"type":"text","text":"What is this?"},
                    {"type":"image_url","image_url":{"url":"\#(image)"}},
                    {"type":"file","file":{"file_data":"data:video/mp4;base64,AAAA"}}
                ]}]}
                """#
            return try StandInRequest(body: Data(body.utf8))
        }
        let small = StandInAnswer(to: try request("data:image/png;base64,AQI=").messages)
        let large = StandInAnswer(to: try request("data:image/png;base64,AQIDBA==").messages)
        #expect(small.promptTokens == 4 + 4 + 85 + 255)
        #expect(large.promptTokens == small.promptTokens)
        #expect(small.text.hasSuffix("I have looked at 2 attached, 5 bytes in all."))
        #expect(large.text.hasSuffix("I have looked at 2 attached, 7 bytes in all."))
        #expect(small.fingerprint != large.fingerprint)
    }

    private static let tools = #"""
        "tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
            "properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}}]
        """#

    @Test(arguments: [
        (#"{"messages":[{"role":"user","content":"get_weather in Rome"}],\#(tools)}"#, true),
        (#"{"messages":[{"role":"user","content":"Is it warm?"}],\#(tools)}"#, false),
        (#"{"messages":[{"role":"user","content":"get_weather in Rome"}]}"#, false),
        (
            #"{"messages":[{"role":"user","content":"Hi"}],"tool_choice":"required",\#(tools)}"#,
            true
        ),
        (
            #"""
            {"messages":[{"role":"user","content":"get_weather"}],"tool_choice":"none",\#(tools)}
            """#, false
        ),
        (
            #"""
            {"messages":[{"role":"user","content":"get_weather"},
                {"role":"assistant","content":null,"tool_calls":[]},
                {"role":"tool","content":"Sunny."}],\#(tools)}
            """#, false
        ),
    ])
    func `a message that names a tool calls it`(body: String, calls: Bool) throws {
        let request = try StandInRequest(body: Data(body.utf8))
        #expect((request.toolCall != nil) == calls)
        #expect((request.toolCall?.name == "get_weather") == calls)
    }

    @Test func `a tool call is the same with and without streaming`() async throws {
        try await withStandIn { url, http in
            let message = #""messages":[{"role":"user","content":"get_weather in Rome"}]"#
            let (_, whole) = try await post("{\(message),\(Self.tools)}", to: url, http)
            let json = try JSONDecoder().decode(JSONValue.self, from: Data(whole.utf8))
            guard case .array(let choices) = json["choices"], let choice = choices.first,
                case .array(let calls) = choice["message"]?["tool_calls"]
            else { throw CancellationError() }
            #expect(choice["finish_reason"] == "tool_calls")
            #expect(choice["message"]?["content"] == .null)
            let arguments = try #require(calls.first?["function"]?["arguments"]?.string)
            #expect(arguments.hasPrefix(#"{"city":"get_weather in Rome","days":"#))

            let streamed = "{\(message),\(Self.tools),\"stream\":true}"
            let (_, text) = try await post(streamed, to: url, http)
            var pieces = ""
            var names: [String] = []
            for event in text.components(separatedBy: "\n\n") where event.hasPrefix("data: {") {
                let chunk = try JSONDecoder()
                    .decode(JSONValue.self, from: Data(event.dropFirst(6).utf8))
                guard case .array(let choices) = chunk["choices"],
                    case .array(let calls) = choices.first?["delta"]?["tool_calls"]
                else { continue }
                pieces += calls.first?["function"]?["arguments"]?.string ?? ""
                names += [calls.first?["function"]?["name"]?.string].compactMap(\.self)
            }
            #expect(pieces == arguments)
            #expect(names == ["get_weather"])
        }
    }

    @Test func `a pool of upstreams understands the stand-in's embeddings`() async throws {
        try await withStandIn { url, _ in
            let configuration = try UpstreamConfiguration(url: url, model: "stand-in")
            try await UpstreamClient.with(configuration) { client in
                let pool = Upstreams([NamedUpstream("stand-in", client)])
                let answer = try await pool.answer(
                    .embeddings(Array(#"{"input":["a cat","12345678"],"model":"theirs"}"#.utf8)),
                    within: .seconds(20),
                    streamed: true
                )
                #expect(answer.usage == UpstreamUsage(promptTokens: 2 + 2, completionTokens: 0))
                let json = try JSONDecoder().decode(JSONValue.self, from: Data(answer.body))
                #expect(json["model"] == "stand-in")
                guard case .array(let items) = json["data"],
                    case .array(let vector) = items[0]["embedding"]
                else { throw CancellationError() }
                #expect(items.count == 2)
                #expect(vector.count == StandInEmbeddings.defaultDimensions)
            }
        }
    }

    @Test func `texts with common words are nearer than others`() {
        func nearness(_ one: String, _ other: String) -> Float {
            let vectors = [one, other].map { StandInEmbeddings.vector(of: $0, dimensions: 64) }
            return zip(vectors[0], vectors[1]).reduce(0) { $0 + $1.0 * $1.1 }
        }
        #expect(abs(nearness("the red house", "the red house") - 1) < 0.001)
        #expect(nearness("the red house", "a red house") > nearness("the red house", "my old cat"))
    }

    @Test func `embeddings in Base64 have the same numbers`() throws {
        let plain = try StandInEmbeddings(body: Data(#"{"input":"a"}"#.utf8)).answer
        let coded = try StandInEmbeddings(
            body: Data(#"{"input":"a","encoding_format":"base64"}"#.utf8)
        ).answer
        guard case .array(let items) = plain["data"], case .array(let other) = coded["data"],
            case .array(let numbers) = items[0]["embedding"],
            let text = other[0]["embedding"]?.string, let data = Data(base64Encoded: text)
        else { throw CancellationError() }
        #expect(data.count == 4 * numbers.count)
        let first = data.prefix(4).enumerated().reduce(UInt32(0)) {
            $0 | UInt32($1.element) << (8 * $1.offset)
        }
        #expect(numbers[0] == .number(Double(Float(bitPattern: first))))
    }

    @Test(arguments: [
        #"{}"#, #"{"input":""}"#, #"{"input":[]}"#, #"{"input":[1,2]}"#,
        #"{"input":"a","dimensions":0}"#,
    ])
    func `invalid requests for embeddings are refused`(body: String) async throws {
        try await withStandIn { url, http in
            let (status, text) = try await post(body, to: url, path: "/v1/embeddings", http)
            #expect(status == 400)
            #expect(text.contains("invalid_request_error"))
        }
    }
}
