extension Provider {
    /// vLLM ends a failed stream with an event that has an `error`, and `[DONE]`.
    ///
    /// Source: github.com/vllm-project/guidellm/issues/743. In whole answers, missing members are
    /// `null`.
    package static let vLLM = Provider("vLLM") { request in
        guard request.isStreamed else {
            return whole(request, usage: usage + #","prompt_logprobs":null,"error":null"#)
        }
        if request.fails {
            return .events([
                chunk(#"{"content":"Hello"}"#),
                #"{"error":{"message":"TimeoutError","type":"GatewayTimeout","code":504}}"#,
            ])
        }
        return .events(
            chunks(request).map {
                $0.replacing(#""index":0,"delta""#, with: #""index":0,"logprobs":null,"delta""#)
            }
                + (wantsUsage(request) ? [usageChunk()] : [])
        )
    }
}
