extension Provider {
    /// OpenRouter sends comments while it waits.
    ///
    /// Source: openrouter.ai/docs/api-reference/streaming. An error after the first piece has
    /// status 200 and arrives in a chunk whose `finish_reason` is `error`. Without streaming, it is
    /// a body (openrouter.ai/docs/api/reference/errors-and-debugging).
    package static let openRouter = Provider("OpenRouter") { request in
        let error = #""error":{"code":502,"message":"Provider returned error"}"#
        guard request.isStreamed else {
            return request.fails ? Reply("{\(error)}") : whole(request)
        }
        let wait = ": OPENROUTER PROCESSING\n\n"
        if request.fails {
            let last = chunk(#"{"content":""}"#, finish: #""error""#, more: "," + error)
            return Reply(
                type: "text/event-stream",
                wait + "data: \(chunk(#"{"content":"Hello"}"#))\n\n" + wait
                    + "data: \(last)\n\ndata: [DONE]\n\n"
            )
        }
        var body = wait + wait
        for text in chunks(request) { body += "data: \(text)\n\n" + wait }
        if wantsUsage(request) { body += "data: \(usageChunk())\n\n" }
        return Reply(type: "text/event-stream", body + "data: [DONE]\n\n")
    }
}
