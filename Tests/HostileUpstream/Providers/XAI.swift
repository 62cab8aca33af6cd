extension Provider {
    /// xAI reports cumulative usage in each chunk.
    ///
    /// Source: github.com/zeitlings/ayai-gpt-nexus/issues/23. It reports it again in a chunk
    /// without choices (github.com/BerriAI/litellm/issues/17136). Tool calls have no `index`
    /// (github.com/chenyme/grok2api/issues/239).
    package static let xAI = Provider("xAI") { request in
        guard request.isStreamed else { return whole(request) }
        func used(_ count: Int) -> String {
            #","usage":{"prompt_tokens":7,"completion_tokens":\#(count),"#
                + #""total_tokens":\#(7 + count)}"#
        }
        if request.fails {
            return .events([
                chunk(#"{"content":"Hello"}"#, more: used(1)), #"{"error":"Overloaded"}"#,
            ])
        }
        guard request.hasTools else {
            return .events([
                chunk(#"{"role":"assistant","content":"Hello"}"#, more: used(1)),
                chunk(#"{"content":", world."}"#, more: used(3)),
                chunk("{}", finish: #""stop""#, more: used(3)), usageChunk(),
            ])
        }
        let call =
            #"""
            {"id":"c1","type":"function","function":{"name":"weather",\#
            "arguments":"{\"city\":\"Oslo\"}"}}
            """#
        return .events([
            chunk(#"{"role":"assistant","tool_calls":[\#(call)]}"#, more: used(3)),
            chunk("{}", finish: #""tool_calls""#, more: used(3)), usageChunk(),
        ])
    }
}
