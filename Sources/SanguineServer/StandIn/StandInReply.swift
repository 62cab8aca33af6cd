import SanguineModel

/// An answer of the stand-in in OpenAI's format, complete or in chunks.
struct StandInReply: Sendable {
    let answer: StandInAnswer
    let toolCall: StandInToolCall?
    let model: String
    let time: Timestamp

    private var id: String { "chatcmpl-" + String(answer.fingerprint, radix: 16) }

    private var finishReason: JSONValue {
        if toolCall != nil { "tool_calls" } else { answer.isCut ? "length" : "stop" }
    }

    private var usage: JSONValue {
        let completion = toolCall?.tokens ?? answer.completionTokens
        return [
            "prompt_tokens": .integer(Int64(answer.promptTokens)),
            "completion_tokens": .integer(Int64(completion)),
            "total_tokens": .integer(Int64(answer.promptTokens + completion)),
        ]
    }

    /// The body of a response that is not streamed.
    var completion: JSONValue {
        var message: [String: JSONValue] = ["role": "assistant", "content": .string(answer.text)]
        if let toolCall {
            message["content"] = .null
            message["tool_calls"] = .array([
                Self.call(toolCall.arguments, id: toolCall.id, name: toolCall.name)
            ])
        }
        let choice: JSONValue = [
            "index": 0, "message": .object(message), "finish_reason": finishReason,
        ]
        return [
            "id": .string(id), "object": "chat.completion",
            "created": .integer(time.millisecondsSince1970 / 1_000),
            "model": .string(model), "choices": .array([choice]), "usage": usage,
        ]
    }

    /// Returns the `data` of the events of a streamed answer, except the last one, `[DONE]`: one
    /// per word, or per half of a tool's arguments.
    func chunks(includesUsage: Bool) -> [JSONValue] {
        var chunks = [chunk([delta(["role": "assistant", "content": ""])])]
        if let toolCall {
            let first = Self.call("", id: toolCall.id, name: toolCall.name, index: 0)
            chunks.append(chunk([delta(["tool_calls": .array([first])])]))
            let half = toolCall.arguments.count / 2
            for piece in [toolCall.arguments.prefix(half), toolCall.arguments.dropFirst(half)] {
                let next = Self.call(String(piece), index: 0)
                chunks.append(chunk([delta(["tool_calls": .array([next])])]))
            }
        } else {
            for (index, word) in answer.text.split(separator: " ").enumerated() {
                let piece = index == 0 ? String(word) : " " + word
                chunks.append(chunk([delta(["content": .string(piece)])]))
            }
        }
        chunks.append(chunk([delta([:], finishReason: finishReason)]))
        if includesUsage { chunks.append(chunk([], usage: usage)) }
        return chunks
    }

    private func chunk(_ choices: [JSONValue], usage: JSONValue? = nil) -> JSONValue {
        var members: [String: JSONValue] = [
            "id": .string(id), "object": "chat.completion.chunk",
            "created": .integer(time.millisecondsSince1970 / 1_000),
            "model": .string(model), "choices": .array(choices),
        ]
        members["usage"] = usage
        return .object(members)
    }

    private func delta(_ delta: JSONValue, finishReason: JSONValue = .null) -> JSONValue {
        ["index": 0, "delta": delta, "finish_reason": finishReason]
    }

    private static func call(
        _ arguments: String,
        id: String? = nil,
        name: String? = nil,
        index: Int64? = nil
    ) -> JSONValue {
        var function: [String: JSONValue] = ["arguments": .string(arguments)]
        function["name"] = name.map { .string($0) }
        var call: [String: JSONValue] = ["function": .object(function)]
        call["id"] = id.map { .string($0) }
        call["type"] = id == nil ? nil : "function"
        call["index"] = index.map { .integer($0) }
        return .object(call)
    }
}

extension StandInReply {
    /// Creates the answer to a request.
    init(to request: StandInRequest, at time: Timestamp) {
        self.init(
            answer: StandInAnswer(to: request.messages, maxTokens: request.maxTokens),
            toolCall: request.toolCall,
            model: request.model,
            time: time
        )
    }
}
