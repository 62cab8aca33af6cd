extension Provider {
    /// LM Studio reports an error in a stream as an event of the type `error`, after status 200.
    ///
    /// Source: github.com/odysseus-dev/odysseus/pull/736. The data may be plain text. Here, LM
    /// Studio is behind a proxy that labels events `text/plain`.
    package static let lmStudio = Provider("LM Studio") { request in
        guard request.isStreamed else { return whole(request) }
        if request.fails {
            return Reply(
                type: "text/event-stream",
                "data: \(chunk(#"{"content":"Hello"}"#))\n\n"
                    + "event: error\ndata: Error rendering prompt with jinja template\n\n"
            )
        }
        let last = wantsUsage(request) ? [usageChunk()] : []
        return .events(chunks(request) + last, type: "text/plain; charset=utf-8")
    }
}
