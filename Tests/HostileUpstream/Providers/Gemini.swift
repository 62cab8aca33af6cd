extension Provider {
    /// Gemini's compatible endpoint.
    ///
    /// Tool calls have no `index`, are sent whole with a signature, and end a stream with `stop`
    /// (github.com/THU-MAIC/OpenMAIC/issues/1556, github.com/googleapis/python-genai/issues/2868).
    /// An error may be a bare line of JSON, which readers of events do not see
    /// (github.com/googleapis/js-genai/issues/1973).
    package static let gemini = Provider("Gemini") { request in
        let call =
            #"""
            {"extra_content":{"google":{"thought_signature":"c2ln"}},\#
            "function":{"arguments":"{\"city\":\"Oslo\"}","name":"weather"},"id":"c1",\#
            "type":"function"}
            """#
        guard request.isStreamed else { return whole(request, call: call) }
        if request.fails {
            let first = "data: \(chunk(#"{"content":"Hello"}"#))\n\n"
            return Reply(
                type: "text/event-stream",
                first + #"{"error":{"code":503,"message":"Overloaded.","status":"UNAVAILABLE"}}"#
            )
        }
        let usage = "," + Provider.usage
        guard request.hasTools else {
            return .events([
                chunk(#"{"role":"assistant","content":"Hello"}"#, more: usage),
                chunk(#"{"content":", world."}"#, finish: #""stop""#, more: usage),
            ])
        }
        return .events([
            chunk(#"{"role":"assistant","tool_calls":[\#(call)]}"#, more: usage),
            chunk(#"{"role":"assistant"}"#, finish: #""stop""#, more: usage),
        ])
    }
}
