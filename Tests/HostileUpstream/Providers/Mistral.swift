import SanguineModel

extension Provider {
    /// Mistral refuses what it does not know with 422: `max_completion_tokens`
    /// (github.com/editor-code-assistant/eca/issues/231), and here `stream_options` as well; usage
    /// is in the last chunk without it.
    ///
    /// Models that reason answer with a list of parts
    /// (github.com/agentjido/req_llm/issues/742).
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
