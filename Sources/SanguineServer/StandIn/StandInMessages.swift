import Foundation
import SanguineModel

/// A chat completion that was asked for, read leniently as servers of this kind do.
struct StandInRequest: Sendable {
    /// Why a request is refused.
    struct Refusal: Error, Hashable {
        let message: String
        let parameter: String?
    }

    /// Messages of a request at most.
    static let messageLimit = 1_000

    let model: String
    let messages: [StandInAnswer.Message]
    let maxTokens: Int?
    let isStreamed: Bool
    let includesUsage: Bool

    init(body: Data) throws(Refusal) {
        guard let json = try? JSONParser.parse(Array(body), limits: .init(values: .max)).value,
            case .object = json
        else { throw Refusal(message: "The body must be a JSON object.", parameter: nil) }
        model = json["model"]?.string ?? "stand-in"
        messages = try Self.messages(json["messages"])
        maxTokens = try Self.maxTokens(json)
        isStreamed = json["stream"] == true
        includesUsage = json["stream_options"]?["include_usage"] == true
        guard (json["n"] ?? 1) == 1 else {
            throw Refusal(message: "Only one choice can be made: 'n' must be 1.", parameter: "n")
        }
    }

    private static func messages(
        _ json: JSONValue?
    ) throws(Refusal) -> [StandInAnswer.Message] {
        guard case .array(let items) = json, !items.isEmpty, items.count <= messageLimit else {
            let message = "'messages' must be an array of 1 to \(messageLimit) messages."
            throw Refusal(message: message, parameter: "messages")
        }
        var messages: [StandInAnswer.Message] = []
        for (index, item) in items.enumerated() {
            guard let role = item["role"]?.string, let text = text(of: item["content"]) else {
                throw Refusal(
                    message: "A message has a 'role' and a 'content' of text.",
                    parameter: "messages.\(index)"
                )
            }
            messages.append(StandInAnswer.Message(role: role, text: text))
        }
        return messages
    }

    /// A content is a string, or an array of parts of type `text`.
    private static func text(of content: JSONValue?) -> String? {
        guard case .array(let parts) = content else { return content?.string }
        var text = ""
        for part in parts {
            guard part["type"] == "text", let piece = part["text"]?.string else { return nil }
            text += piece
        }
        return text
    }

    private static func maxTokens(_ json: JSONValue) throws(Refusal) -> Int? {
        for name in ["max_completion_tokens", "max_tokens"] {
            guard let value = json[name], value != .null else { continue }
            guard let number = value.integer, (1...1_000_000).contains(number) else {
                let message = "'\(name)' must be a whole number from 1 to 1000000."
                throw Refusal(message: message, parameter: name)
            }
            return Int(number)
        }
        return nil
    }
}

extension StandInAnswer {
    private var id: String { "chatcmpl-" + String(fingerprint, radix: 16) }
    private var finishReason: JSONValue { isCut ? "length" : "stop" }

    private var usage: JSONValue {
        [
            "prompt_tokens": .integer(Int64(promptTokens)),
            "completion_tokens": .integer(Int64(completionTokens)),
            "total_tokens": .integer(Int64(promptTokens + completionTokens)),
        ]
    }

    /// The body of an answer that is not streamed.
    func completion(model: String, at time: Timestamp) -> JSONValue {
        let choice: JSONValue = [
            "index": 0,
            "message": ["role": "assistant", "content": .string(text)],
            "finish_reason": finishReason,
        ]
        return [
            "id": .string(id), "object": "chat.completion",
            "created": .integer(time.millisecondsSince1970 / 1_000),
            "model": .string(model), "choices": .array([choice]), "usage": usage,
        ]
    }

    /// The `data` of the events of a streamed answer, without the last one, `[DONE]`: one for each
    /// word.
    func chunks(model: String, at time: Timestamp, includesUsage: Bool) -> [JSONValue] {
        func chunk(_ choices: [JSONValue], usage: JSONValue? = nil) -> JSONValue {
            var members: [String: JSONValue] = [
                "id": .string(id), "object": "chat.completion.chunk",
                "created": .integer(time.millisecondsSince1970 / 1_000),
                "model": .string(model), "choices": .array(choices),
            ]
            members["usage"] = usage
            return .object(members)
        }
        func delta(_ delta: JSONValue, finishReason: JSONValue = .null) -> JSONValue {
            ["index": 0, "delta": delta, "finish_reason": finishReason]
        }
        var chunks = [chunk([delta(["role": "assistant", "content": ""])])]
        for (index, word) in text.split(separator: " ").enumerated() {
            let piece = index == 0 ? String(word) : " " + word
            chunks.append(chunk([delta(["content": .string(piece)])]))
        }
        chunks.append(chunk([delta([:], finishReason: finishReason)]))
        if includesUsage { chunks.append(chunk([], usage: usage)) }
        return chunks
    }
}
