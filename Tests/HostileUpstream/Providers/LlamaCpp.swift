extension Provider {
    /// llama.cpp's server reports an error of a stream in it, after status 200.
    ///
    /// Source: github.com/ggml-org/llama.cpp/issues/14566. It adds members of its own. A proxy in
    /// front of it passes the error on as bare JSON, called events
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
        // Lines end as HTTP's do, and there is no space behind the colon.
        let body = (chunks(request) + [last, "[DONE]"]).map { "data:\($0)\r\n\r\n" }.joined()
        return Reply(type: "", body)
    }
}
