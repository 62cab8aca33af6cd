extension Provider {
    /// Anthropic's compatibility layer accepts both limits and `stream_options`, and ignores
    /// unknown members (platform.claude.com/docs/en/api/openai-sdk).
    ///
    /// An error in a stream is an event of the type `error` (github.com/farzaa/clicky/issues/132).
    package static let anthropic = Provider("Anthropic") { request in
        guard request.isStreamed else { return whole(request) }
        if request.fails {
            let error = #"{"type":"overloaded_error","message":"Overloaded"}"#
            return Reply(
                type: "text/event-stream; charset=utf-8",
                "data: \(chunk(#"{"content":"Hello"}"#))\n\nevent: error\ndata: "
                    + #"{"type":"error","error":\#(error)}"#
                    + "\n\n"
            )
        }
        return .events(chunks(request) + (wantsUsage(request) ? [usageChunk()] : []))
    }
}
