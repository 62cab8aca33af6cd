extension Provider {
    /// Ollama sends tool calls whole and knows only `max_tokens`.
    ///
    /// Source: github.com/ollama/ollama, `openai/openai.go`. An error after the beginning is plain
    /// text (github.com/ollama/ollama, `docs/api/errors.mdx`).
    package static let ollama = Provider("Ollama") { request in
        guard request.isStreamed else { return whole(request) }
        if request.fails {
            return Reply(
                type: "text/event-stream",
                "data: \(chunk(#"{"content":"Hello"}"#))\n\ndata: "
                    + #"{"error":"an error was encountered while running the model"}"# + "\n\n"
            )
        }
        guard request.hasTools else {
            return .events(
                [
                    chunk(#"{"role":"assistant","content":"Hello"}"#),
                    chunk(#"{"role":"assistant","content":", world."}"#),
                    chunk(#"{"role":"assistant","content":""}"#, finish: #""stop""#),
                ] + (wantsUsage(request) ? [usageChunk()] : [])
            )
        }
        let call =
            #"""
            {"id":"c1","index":0,"type":"function","function":{"name":"weather",\#
            "arguments":"{\"city\":\"Oslo\"}"}}
            """#
        return .events(
            [
                chunk(#"{"role":"assistant","content":"","tool_calls":[\#(call)]}"#),
                chunk(#"{"role":"assistant","content":""}"#, finish: #""tool_calls""#),
            ] + (wantsUsage(request) ? [usageChunk()] : [])
        )
    }
}
