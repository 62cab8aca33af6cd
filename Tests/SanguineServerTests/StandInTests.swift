import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import SanguineModel
import SanguineTesting
import ServiceLifecycle
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

    @Test func `other questions get other answers, and each refers to its question`() {
        let questions = (1...50).map { "What about number \($0)?" }
        let answers = questions.map { answer($0).text }
        #expect(Set(answers).count == 50)
        for (question, text) in zip(questions, answers) {
            #expect(text.contains(question.dropLast()))
        }
    }

    @Test func `tokens are counted by the stated rule`() {
        let answer = StandInAnswer(
            to: [.init(role: "system", text: "12345"), .init(role: "user", text: "1234")]
        )
        #expect(answer.promptTokens == (2 + 4) + (1 + 4))
        #expect(answer.completionTokens == (answer.text.utf8.count + 3) / 4)
        #expect(StandInAnswer.tokens(of: "") == 0)
    }

    @Test(arguments: 1...40)
    func `an answer is never longer than asked`(limit: Int) {
        let cut = answer("How do I learn to juggle?", maxTokens: limit)
        #expect(cut.completionTokens <= limit)
        #expect(!cut.text.isEmpty)
        #expect(answer("How do I learn to juggle?").text.hasPrefix(cut.text))
        #expect(cut.isCut == (cut.text != answer("How do I learn to juggle?").text))
    }

    @Test func `the words of a stream make up the answer`() throws {
        let answer = answer("How do I learn to juggle?")
        let time = Timestamp(millisecondsSince1970: 1_000)
        let chunks = answer.chunks(model: "m", at: time, includesUsage: true)
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

    /// Runs the body against a stand-in on a free port, then shuts it down.
    private func withStandIn(
        latency: Duration = .zero,
        clock: any Clock<Duration> = ContinuousClock(),
        _ body: (_ url: String, _ http: HTTPClient) async throws -> Void
    ) async throws {
        let ports = AsyncStream.makeStream(of: Int.self)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let standIn = StandInServer(port: 0, latency: latency, clock: clock, logger: logger) {
            ports.continuation.yield($0)
        }
        let services = ServiceGroup(services: [standIn], logger: logger)
        let running = Task { try await services.run() }
        let port = try await ports.stream.first("a port")
        let http = HTTPClient(eventLoopGroupProvider: .singleton)
        do {
            try await body("http://127.0.0.1:\(port)", http)
        } catch {
            Issue.record(error)
        }
        try await http.shutdown()
        await services.triggerGracefulShutdown()
        try await running.finished()
    }

    private func post(
        _ body: String,
        to url: String,
        _ http: HTTPClient
    ) async throws -> (status: UInt, text: String) {
        var request = HTTPClientRequest(url: url + "/v1/chat/completions")
        request.method = .POST
        request.body = .bytes(ByteBuffer(string: body))
        let response = try await http.execute(request, timeout: .seconds(30))
        let text = String(buffer: try await response.body.collect(upTo: 1 << 20))
        return (response.status.code, text)
    }

    @Test func `the upstream client understands it`() async throws {
        try await withStandIn { url, http in
            let client = UpstreamClient(
                configuration: try UpstreamConfiguration(url: url, model: "stand-in"),
                httpClient: http
            )
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

    @Test func `an answer waits for the latency`() async throws {
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

    @Test func `its model is listed`() async throws {
        try await withStandIn { url, http in
            let request = HTTPClientRequest(url: url + "/v1/models")
            let response = try await http.execute(request, timeout: .seconds(30))
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
    func `a bad request is refused in OpenAI's shape`(body: String) async throws {
        try await withStandIn { url, http in
            let (status, text) = try await post(body, to: url, http)
            #expect(status == 400)
            let json = try JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))
            #expect(json["error"]?["type"] == "invalid_request_error")
            #expect(json["error"]?["message"]?.string?.isEmpty == false)
        }
    }

    @Test func `a content of parts is read as their text`() throws {
        let body = #"""
            {"messages":[{"role":"user","content":[
                {"type":"text","text":"a"},{"type":"text","text":"b"}
            ]}]}
            """#
        let request = try StandInRequest(body: Data(body.utf8))
        #expect(request.messages == [.init(role: "user", text: "ab")])
    }
}
