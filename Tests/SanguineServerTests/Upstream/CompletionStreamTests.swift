import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Completion stream", .bounded)
struct CompletionStreamTests {
    private static func chunk(_ text: String, finish: String = "null", usage: String = "") -> String
    {
        #"{"choices":[{"index":0,"delta":{"content":"\#(text)"},"finish_reason":\#(finish)}]"#
            + (usage.isEmpty ? "" : ",\"usage\":\(usage)") + "}"
    }

    private static func usage(_ prompt: String, _ completion: String) -> String {
        #"{"prompt_tokens":\#(prompt),"completion_tokens":\#(completion)}"#
    }

    private static func body(_ chunks: String...) -> String {
        chunks.map { "data: \($0)\n\n" }.joined()
    }

    /// Returns the events of a body, and the answer.
    private static func read(
        _ body: String,
        limit: Int = 10_000
    ) throws(UpstreamError) -> (events: [UpstreamEvent], answer: UpstreamAnswer) {
        var stream = CompletionStream(textBytes: limit)
        var events: [UpstreamEvent] = []
        try stream.append(Array(body.utf8))
        while let event = try stream.next() { events.append(event) }
        if let event = try stream.end() { events.append(event) }
        return (events, stream.answer)
    }

    private static func failure(_ body: String, limit: Int = 10_000) -> UpstreamError? {
        do throws(UpstreamError) {
            _ = try read(body, limit: limit)
            return nil
        } catch {
            return error
        }
    }

    @Test func `pieces form the text and keep their bytes`() throws {
        let second = #"{ "choices" : [ {"delta":{"content":" b\u0021"}} ], "x": 1.0 }"#
        let (events, answer) = try Self.read(
            Self.body(Self.chunk("a"), second, Self.chunk("", finish: "\"stop\""), "[DONE]")
        )
        #expect(events.map(\.text) == ["a", " b!", ""])
        #expect(events.map { String(decoding: $0.chunk, as: UTF8.self) }[1] == second)
        #expect(answer.text == "a b!")
        #expect(answer.finishReason == "stop")
        #expect(answer.body.isEmpty)
    }

    @Test func `only the first choice is the text`() throws {
        let other =
            #"{"choices":[{"index":1,"delta":{"content":"other"},"finish_reason":"length"}]}"#
        let (events, answer) = try Self.read(
            Self.body(Self.chunk("a"), other, Self.chunk("", finish: "\"stop\""), other, "[DONE]")
        )
        #expect(events.count == 4)
        #expect(answer.text == "a")
        #expect(answer.finishReason == "stop")
    }

    @Test func `usage in several chunks is the largest of each count`() throws {
        let (events, answer) = try Self.read(
            Self.body(
                Self.chunk("a", usage: Self.usage("7", "0")),
                Self.chunk("b", usage: Self.usage("0", "2")),
                Self.chunk("c", finish: "\"stop\"", usage: Self.usage("-1", "1")),
                "[DONE]"
            )
        )
        #expect(events[0].usage == UpstreamUsage(promptTokens: 7, completionTokens: 0))
        #expect(events[2].usage == nil)
        #expect(answer.usage == UpstreamUsage(promptTokens: 7, completionTokens: 2))
    }

    @Test(arguments: [
        "null", "{}", #""many""#, usage("-1", "1"), usage("1", "1000000001"), usage("1.5", "1"),
        usage("\"1\"", "1"),
    ])
    func `invalid usage is ignored`(usage: String) throws {
        let chunk = Self.chunk("a", finish: "\"stop\"", usage: usage)
        let (events, answer) = try Self.read(Self.body(chunk, "[DONE]"))
        #expect(events.map(\.usage) == [nil])
        #expect(answer.usage == nil)
    }

    @Test func `a stream may end after its finish reason`() throws {
        let (_, answer) = try Self.read(Self.body(Self.chunk("a", finish: "\"length\"")))
        #expect(answer.finishReason == "length")
    }

    @Test func `a stream that is done without a finish reason is incomplete`() {
        let body = Self.body(Self.chunk("a"), "[DONE]")
        #expect(Self.failure(body) == .unfinished)
    }

    @Test func `an empty finish reason counts as missing`() throws {
        let cut = Self.body(Self.chunk("a", finish: "\"\""))
        #expect(Self.failure(cut) == .failed(mayHaveBeenSent: true))
        let (_, answer) = try Self.read(
            Self.body(Self.chunk("a", finish: "\"stop\""), Self.chunk("", finish: "\"\""))
        )
        #expect(answer.finishReason == "stop")
    }

    @Test func `a long finish reason is truncated`() throws {
        let long = String(repeating: "x", count: 1_000)
        let (_, answer) = try Self.read(Self.body(Self.chunk("a", finish: "\"\(long)\"")))
        #expect(answer.finishReason == String(long.prefix(64)))
    }

    @Test func `a last chunk without its empty line counts`() throws {
        let (events, answer) = try Self.read("data: " + Self.chunk("a", finish: "\"stop\""))
        #expect(events.count == 1)
        #expect(answer.text == "a")
    }

    @Test(arguments: [
        "", body(chunk("a")), body(chunk("a")) + "data: {\"choi", ": ping\n\n",
        body(chunk("a")) + "data: [DO",
    ])
    func `an end in the middle is a broken connection`(body: String) {
        #expect(Self.failure(body) == .failed(mayHaveBeenSent: true))
    }

    @Test(arguments: ["[1]", "hello", "{", "[DONE]", "<html>", "{\"a\":1,}"])
    func `an invalid chunk is unreadable`(data: String) {
        #expect(Self.failure(Self.body(data, Self.chunk("a"), "[DONE]")) == .unreadable)
    }

    @Test(arguments: [
        (#"{"error":{"message":"no"}}"#, 500), (#"{"error":{"code":429}}"#, 429),
        (#"{"error":{"code":"rate_limit","status":503}}"#, 503), (#"{"error":"overloaded"}"#, 500),
        (#"{"error":{"code":200}}"#, 500),
    ])
    func `an error among the chunks is a refusal`(data: String, status: Int) {
        let error = Self.failure(Self.body(Self.chunk("a"), data, "[DONE]"))
        #expect(error?.withoutWords == .refused(status: status, retryAfterSeconds: nil))
    }

    @Test func `a null error is ignored`() throws {
        let chunk = #"{"error":null,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#
        #expect(try Self.read(Self.body(chunk, "[DONE]")).answer.text == "a")
    }

    @Test func `nothing is read after the end`() throws {
        let last = Self.chunk("a", finish: "\"stop\"")
        let (events, answer) = try Self.read(Self.body(last, "[DONE]", Self.chunk("b")))
        #expect(events.count == 1)
        #expect(answer.text == "a")
    }

    @Test func `a text longer than the limit is refused`() {
        let chunks = Self.body(Self.chunk(String(repeating: "x", count: 120)))
        let body = String(repeating: chunks, count: 5)
        #expect(Self.failure(body, limit: 300) == .tooLarge(limit: 300))
    }

    @Test func `an endless body of empty chunks is refused`() throws {
        let chunk = Array(Self.body(Self.chunk("")).utf8)
        var stream = CompletionStream(textBytes: 200)
        #expect(throws: UpstreamError.tooLarge(limit: 200)) {
            for _ in 0..<1_000 {
                try stream.append(chunk)
                while try stream.next() != nil {}  // tidy: allow busy-wait: each turn takes one.
            }
        }
    }

    @Test(arguments: 1...50 as ClosedRange<UInt64>)
    func `any split of the bytes gives the same pieces`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var body = ""
        for index in 0..<20 {
            let usage = Bool.random(using: &random) ? Self.usage("\(index)", "\(index)") : ""
            body += Self.body(Self.chunk("wörd\(index) ", usage: usage))
        }
        body += Self.body(Self.chunk("", finish: "\"stop\""), "[DONE]")
        let whole = try Self.read(body)
        var stream = CompletionStream(textBytes: 10_000)
        var events: [UpstreamEvent] = []
        var rest = Array(body.utf8)[...]
        while !rest.isEmpty {
            let count = Int.random(in: 1...200, using: &random)
            try stream.append(rest.prefix(count))
            rest = rest.dropFirst(count)
            while let event = try stream.next() { events.append(event) }
        }
        #expect(events == whole.events)
        #expect(stream.answer == whole.answer)
        #expect(stream.isDone)
    }
}
