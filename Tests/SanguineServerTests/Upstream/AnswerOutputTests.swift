import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Output of an answer", .bounded)
struct AnswerOutputTests {
    private static func json(_ text: String) throws -> JSONValue {
        try JSONParser.parse(Array(text.utf8), limits: .stored).value
    }

    private static func measure(_ choices: String) throws -> OutputMeasure {
        var measure = OutputMeasure()
        measure.add(choicesOf: try json(#"{"choices":[\#(choices)]}"#))
        return measure
    }

    /// Messages with 40 bytes of words, which are estimated as ten tokens.
    static let messages: [String] = {
        let words = String(repeating: "word ", count: 8)
        return [
            #"{"content":"\#(words)"}"#,
            #"{"content":[{"type":"text","text":"\#(words)"}]}"#,
            #"{"content":null,"refusal":"\#(words)"}"#,
            #"""
            {"tool_calls":[{"id":"call_1","function":{"name":"f",\#
            "arguments":"\#(words.dropFirst())"}}]}
            """#,
            #"{"tool_calls":[{"custom":{"name":"f","input":"\#(words.dropFirst())"}}]}"#,
            #"""
            {"tool_calls":[{"function":{"name":"f",\#
            "arguments":{"k":"\#(words.dropFirst(9))"}}}]}
            """#,
            #"{"function_call":{"name":"f","arguments":"\#(words.dropFirst())"}}"#,
            #"{"reasoning_content":"\#(words)"}"#,
            #"{"reasoning":"\#(words)"}"#,
            #"{"reasoning":"\#(words)","reasoning_content":"\#(words)"}"#,
            #"""
            {"reasoning":"\#(words)","reasoning_details":[{"type":"reasoning.text",\#
            "text":"\#(words)"}]}
            """#,
            #"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"\#(words)"}]}]}"#,
            #"{"audio":{"id":"a","transcript":"\#(words)"}}"#,
            #"{"audio":{"data":"\#(String(repeating: "A", count: 32_000))"}}"#,
        ]
    }()

    @Test(arguments: messages, ["delta", "message"])
    func `everything that a model writes is output`(message: String, member: String) throws {
        let measure = try Self.measure("{\"\(member)\":\(message)}")
        #expect(measure.estimatedTokens == 10)
    }

    @Test func `every choice is output`() throws {
        let choice = #"{"delta":{"content":"\#(String(repeating: "word ", count: 8))"}}"#
        #expect(try Self.measure("\(choice),\(choice)").estimatedTokens == 20)
    }

    @Test func `a message repeated with its delta counts once`() throws {
        let choice = #"{"delta":{"content":"abcd"},"message":{"content":"word abcd"}}"#
        #expect(try Self.measure(choice).estimatedTokens == 1)
    }

    @Test func `roles, ids and probabilities are not output`() throws {
        let choice = """
            {"delta":{"role":"assistant","tool_calls":[{"id":"call_123456"}]},
            "logprobs":{"content":[{"token":"a","top_logprobs":[{"token":"b"}]}]}}
            """
        #expect(try Self.measure(choice).isEmpty)
    }

    /// Reports, each with the parsed counts: input, output, cached, reasoning.
    static let reports: [(String, [Int64?])] = [
        (
            #"{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#,
            [10, 5, 0, nil]
        ),
        (#"{"usage":{"input_tokens":10,"output_tokens":5}}"#, [10, 5, 0, nil]),
        (
            #"""
            {"usage":{"input_tokens":10,"output_tokens":5,\#
            "input_tokens_details":{"cached_tokens":8},\#
            "output_tokens_details":{"reasoning_tokens":4}}}
            """#,
            [10, 5, 8, 4]
        ),
        (
            #"""
            {"usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":90,\#
            "cache_creation_input_tokens":7}}
            """#,
            [107, 5, 90, nil]
        ),
        (
            #"{"usage":{"prompt_tokens":100,"completion_tokens":5,"cache_read_input_tokens":90}}"#,
            [100, 5, 90, nil]
        ),
        (
            #"{"x_groq":{"id":"r","usage":{"prompt_tokens":10,"completion_tokens":5}}}"#,
            [10, 5, 0, nil]
        ),
        (
            #"""
            {"choices":[{"usage":\#
            {"prompt_tokens":10,"completion_tokens":5,"cached_tokens":6}}]}
            """#,
            [10, 5, 6, nil]
        ),
        (
            #"""
            {"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":1015,\#
            "completion_tokens_details":{"reasoning_tokens":1000}}}
            """#,
            [10, 1_005, 0, 1_000]
        ),
        (
            #"""
            {"usage":{"prompt_tokens":9,"completion_tokens":664,"total_tokens":1994,\#
            "completion_tokens_details":{"reasoning_tokens":0}}}
            """#,
            [9, 1_985, 0, 1_321]
        ),
        (
            #"""
            {"usage":{"prompt_tokens":21,"completion_tokens":0,\#
            "completion_tokens_details":{"reasoning_tokens":60}}}
            """#,
            [21, 60, 0, 60]
        ),
        (
            #"""
            {"usage":{"prompt_tokens":21,"completion_tokens":100,\#
            "completion_tokens_details":{"reasoning_tokens":60}}}
            """#,
            [21, 100, 0, 60]
        ),
        (
            #"""
            {"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":7,\#
            "prompt_cache_miss_tokens":3}}
            """#,
            [10, 5, 7, nil]
        ),
        (
            #"""
            {"usage":{"prompt_tokens":10,"completion_tokens":5,\#
            "prompt_tokens_details":{"cached_tokens":900}}}
            """#,
            [10, 5, 10, nil]
        ),
        (
            #"""
            {"usage":{"prompt_tokens":0,"input_tokens":10,"completion_tokens":5,\#
            "output_tokens":0}}
            """#,
            [10, 5, 0, nil]
        ),
        (
            #"{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":-1}}"#,
            [10, 5, 0, nil]
        ),
        (
            #"{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":3}}"#,
            [10, 5, 0, nil]
        ),
        (#"{"usage":{"prompt_tokens":10,"total_tokens":10}}"#, []),
        (#"{"usage":{"total_tokens":10}}"#, []), (#"{"usage":null}"#, []), ("{}", []),
    ]

    @Test(arguments: reports)
    func `usage is read by the names of all providers`(text: String, counts: [Int64?]) throws {
        let usage = UpstreamUsage(reportsIn: try Self.json(text))
        let read = usage.map {
            [$0.promptTokens, $0.completionTokens, $0.cachedTokens, $0.reasoningTokens]
        }
        #expect(read ?? [] == counts)
    }

    @Test func `reasoning that uses all tokens leaves an answer without text`() throws {
        let body = """
            {"choices":[{"index":0,"message":{"role":"assistant","content":null},
            "finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":60}}
            """
        let prompt = UpstreamPrompt(messages: [.init(.user, "a")], maxOutputTokens: 60)
        let answer = UpstreamAnswer(body: Array(body.utf8), to: .prompt(prompt))
        #expect(answer?.text == "" && answer?.finishReason == "length")
        #expect(answer?.usage?.completionTokens == 60)
        let silent = Array(#"{"choices":[{"message":{"content":null}}]}"#.utf8)
        #expect(UpstreamAnswer(body: silent, to: .prompt(prompt)) == nil)
    }

    @Test func `any prefix of an answer yields the words it contains`() throws {
        let body = Array(
            #"""
            {"id":"x","choices":[{"index":0,"message":{"role":"assistant",\#
            "content":"wörd \u00fcber \ud83d\ude00 end","refusal":null},\#
            "logprobs":{"content":[{"token":"a","logprob":-1.5}]}}],"usage":{}}
            """#.utf8
        )
        let request = UpstreamRequest.chat(Array("{}".utf8), maxOutputTokens: 16)
        let whole = try #require(TruncatedAnswer(body, to: request))
        var largest: Int64 = 0
        for count in 1...body.count {
            guard let beginning = TruncatedAnswer(Array(body.prefix(count)), to: request) else {
                #expect(count < 40, "\(count) bytes")
                continue
            }
            let tokens = beginning.output.estimatedTokens
            #expect(tokens + 3 >= largest, "\(count) bytes")
            largest = max(largest, tokens)
        }
        #expect(largest == whole.output.estimatedTokens && largest == 5)
        #expect(TruncatedAnswer(Array("<html>".utf8), to: request) == nil)
    }
}
