package import SanguineModel

/// A stand-in for a provider's chat completions, with the differences from OpenAI's that its
/// documentation and issue trackers describe.
///
/// Each one answers with ``text`` in two pieces, or calls ``tool`` if it is given tools, and
/// reports ``promptTokens`` and ``completionTokens``.
package struct Provider: Sendable, CustomStringConvertible {
    /// A received request.
    package struct Request: Sendable {
        /// The body, byte for byte.
        package let bytes: [UInt8]
        /// The parsed body.
        package let json: JSONValue
        /// Whether the request is for a stream.
        package var isStreamed: Bool { json["stream"] == true }
        /// Whether the request has tools.
        package var hasTools: Bool { json["tools"] != nil }
        /// Whether the prompt asks for an answer that fails after its first piece.
        package var fails: Bool { String(decoding: bytes, as: UTF8.self).contains("please fail") }
    }

    /// A response.
    package struct Reply: Sendable {
        /// The status.
        package var status = 200
        /// The media type, with other fields on separate lines, or an empty string for none.
        package var type: String
        /// The body.
        package var body: [UInt8]

        package init(status: Int = 200, type: String = "application/json", _ body: String) {
            self.init(status: status, type: type, bytes: Array(body.utf8))
        }

        package init(status: Int = 200, type: String = "application/json", bytes: [UInt8]) {
            (self.status, self.type, body) = (status, type, bytes)
        }

        /// Chunks as events, followed by `[DONE]`.
        package static func events(
            _ chunks: [String],
            type: String = "text/event-stream"
        ) -> Reply {
            Reply(type: type, (chunks + ["[DONE]"]).map { "data: \($0)\n\n" }.joined())
        }
    }

    package static let text = "Hello, world."
    package static let tool = #"{"city":"Oslo"}"#
    package static let promptTokens = 7
    package static let completionTokens = 3
    package static let usage =
        #""usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}"#

    package let name: String
    /// Answers a request.
    package let answer: @Sendable (Request) -> Reply

    package init(_ name: String, answer: @escaping @Sendable (Request) -> Reply) {
        (self.name, self.answer) = (name, answer)
    }

    package var description: String { name }

    /// All providers.
    package static let all: [Provider] = [
        openAI, openAIReasoning, anthropic, gemini, xAI, mistral, openRouter, vLLM, ollama,
        llamaCpp, lmStudio,
    ]

    /// A whole answer as OpenAI writes it.
    package static func whole(
        _ request: Request,
        content: String = #""Hello, world.""#,
        call: String =
            #"""
        {"id":"c1","type":"function","function":{"name":"weather",\#
        "arguments":"{\"city\":\"Oslo\"}"}}
        """#,
        usage: String = Provider.usage
    ) -> Reply {
        let message =
            request.hasTools
            ? #"{"role":"assistant","content":null,"tool_calls":[\#(call)]}"#
            : #"{"role":"assistant","content":\#(content)}"#
        let reason = request.hasTools ? "tool_calls" : "stop"
        return Reply(
            """
            {"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{\
            "index":0,"message":\(message),"finish_reason":"\(reason)"}],\(usage)}
            """
        )
    }

    /// A chunk with one choice.
    package static func chunk(
        _ delta: String,
        finish: String = "null",
        more: String = ""
    ) -> String {
        """
        {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{\
        "index":0,"delta":\(delta),"finish_reason":\(finish)}]\(more)}
        """
    }

    /// The chunks of an answer as OpenAI writes them, without usage.
    ///
    /// They are a role, the text in two pieces or a call in three, and the reason.
    package static func chunks(_ request: Request, more: String = "") -> [String] {
        let role = chunk(#"{"role":"assistant","content":""}"#, more: more)
        guard request.hasTools else {
            return [
                role, chunk(#"{"content":"Hello"}"#, more: more),
                chunk(#"{"content":", world."}"#, more: more),
                chunk("{}", finish: #""stop""#, more: more),
            ]
        }
        func call(_ text: String) -> String { chunk(#"{"tool_calls":[\#(text)]}"#, more: more) }
        return [
            role,
            call(
                #"""
                {"index":0,"id":"c1","type":"function","function":{"name":"weather",\#
                "arguments":""}}
                """#
            ),
            call(#"{"index":0,"function":{"arguments":"{\"city\":"}}"#),
            call(#"{"index":0,"function":{"arguments":"\"Oslo\"}"}}"#),
            chunk("{}", finish: #""tool_calls""#, more: more),
        ]
    }

    /// The last chunk, which reports usage.
    package static func usageChunk(_ usage: String = Provider.usage) -> String {
        #"{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[],\#(usage)}"#
    }

    /// Whether the request asks for usage.
    package static func wantsUsage(_ request: Request) -> Bool {
        request.json["stream_options"]?["include_usage"] == true
    }
}
