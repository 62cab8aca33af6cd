import SanguineModel

extension Provider {
    /// Mistral refuses unknown members with 422.
    ///
    /// This includes `max_completion_tokens` (github.com/editor-code-assistant/eca/issues/231) and,
    /// here, `stream_options`. The last chunk reports usage without it.
    ///
    /// Reasoning models answer with a list of parts (github.com/agentjido/req_llm/issues/742).
    package static let mistral = Provider("Mistral") { request in
        for name in ["max_completion_tokens", "stream_options"] where request.json[name] != nil {
            return Reply(
                status: 422,
                """
                {"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body",\
                "\(name)"],"msg":"Extra inputs are not permitted","input":1}]},\
                "type":"invalid_request_error","param":null,"code":null}
                """
            )
        }
        let thinking = #"{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}"#
        let words = #"{"type":"text","text":"Hello, world."}"#
        guard request.isStreamed else {
            return whole(request, content: "[\(thinking),\(words)]")
        }
        if request.fails {
            return .events([
                chunk(#"{"content":"Hello"}"#),
                #"{"object":"error","message":"Service unavailable","code":3505}"#,
            ])
        }
        guard request.hasTools else {
            return .events([
                chunk(#"{"role":"assistant","content":[\#(thinking)]}"#),
                chunk(#"{"content":[\#(words)]}"#),
                chunk(#"{"content":""}"#, finish: #""stop""#, more: "," + usage),
            ])
        }
        return .events(
            chunks(request).dropLast() + [
                chunk("{}", finish: #""tool_calls""#, more: "," + usage)
            ]
        )
    }
}
