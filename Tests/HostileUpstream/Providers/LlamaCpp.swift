extension Provider {
    /// llama.cpp's server reports an error within a stream, after status 200.
    ///
    /// Source: github.com/ggml-org/llama.cpp/issues/14566. It adds its own members. A proxy in
    /// front of it forwards the error as bare JSON labelled as events
    /// (github.com/lemonade-sdk/lemonade/issues/2826).
    package static let llamaCpp = Provider("llama.cpp") { request in
        let timings = #","timings":{"prompt_n":7,"predicted_per_second":12.5}"#
        guard request.isStreamed else { return whole(request, usage: usage + timings) }
        if request.fails {
            return Reply(
                type: "text/event-stream",
                #"""
                {"error":{"code":500,"message":"context shift is disabled",\#
                "type":"server_error"}}
                """#
            )
        }
        let last =
            wantsUsage(request)
            ? #"{"choices":[],"object":"chat.completion.chunk",\#(usage)\#(timings)}"#
            : #"{"choices":null,"object":"chat.completion.chunk"\#(timings)}"#
        // Lines end with CRLF, and no space follows the colon.
        let body = (chunks(request) + [last, "[DONE]"]).map { "data:\($0)\r\n\r\n" }.joined()
        return Reply(type: "", body)
    }
}
