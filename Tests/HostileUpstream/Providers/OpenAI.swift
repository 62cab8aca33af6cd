import SanguineModel

extension Provider {
    /// OpenAI with a model without reasoning.
    ///
    /// `usage` is `null` in every chunk except the last, whose `choices` are empty (API reference,
    /// "The chat completion chunk object").
    package static let openAI = Provider("OpenAI") { request in
        if request.json["max_tokens"] != nil, request.json["max_completion_tokens"] != nil {
            return Reply(
                status: 400,
                """
                {"error":{"message":"Setting 'max_tokens' and 'max_completion_tokens' at the same \
                time is not supported.","type":"invalid_request_error","param":"max_tokens",\
                "code":"invalid_parameter_combination"}}
                """
            )
        }
        guard request.isStreamed else { return whole(request) }
        if request.fails {
            return .events([
                chunk(#"{"content":"Hello"}"#),
                #"""
                {"error":{"message":"The server had an error.","type":"server_error",\#
                "param":null,"code":null}}
                """#,
            ])
        }
        let more = wantsUsage(request) ? #","usage":null"# : ""
        let last = wantsUsage(request) ? [usageChunk()] : []
        return .events(
            chunks(request, more: more) + last,
            type: "text/event-stream; charset=utf-8"
        )
    }

    /// OpenAI with a reasoning model, which refuses `max_tokens` and names it in `param`.
    ///
    /// Source: github.com/ITSpecialist111/ai_automation_suggester/issues/38.
    package static let openAIReasoning = Provider("OpenAI, reasoning") { request in
        guard request.json["max_tokens"] == nil else {
            return Reply(
                status: 400,
                """
                {"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with \
                this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error",\
                "param":"max_tokens","code":"unsupported_parameter"}}
                """
            )
        }
        let usage =
            #"""
            "usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,\#
            "completion_tokens_details":{"reasoning_tokens":1}}
            """#
        guard request.isStreamed else { return whole(request, usage: usage) }
        if request.fails { return openAI.answer(request) }
        return .events(chunks(request) + (wantsUsage(request) ? [usageChunk(usage)] : []))
    }
}
