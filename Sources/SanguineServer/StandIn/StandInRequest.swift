import Foundation
import SanguineModel

/// An error for an invalid request to the stand-in.
struct StandInRefusal: Error, Hashable {
    let message: String
    let parameter: String?
}

/// A request for a chat completion, parsed leniently like by other servers of this kind.
struct StandInRequest: Sendable {
    /// The maximum number of messages in a request.
    static let messageLimit = 1_000

    let model: String
    let messages: [StandInAnswer.Message]
    let maxTokens: Int?
    let isStreamed: Bool
    let includesUsage: Bool
    /// The tool call that is the answer; `nil` if the answer is a text.
    let toolCall: StandInToolCall?

    init(body: Data) throws(StandInRefusal) {
        let json = try Self.object(body)
        model = json["model"]?.string ?? "stand-in"
        let messages = try Self.messages(json["messages"])
        self.messages = messages
        maxTokens = try Self.maxTokens(json)
        isStreamed = json["stream"] == true
        includesUsage = json["stream_options"]?["include_usage"] == true
        toolCall = StandInToolCall(
            for: messages,
            tools: json["tools"],
            choice: json["tool_choice"]
        )
        guard (json["n"] ?? 1) == 1 else {
            throw StandInRefusal(
                message: "Only one choice can be made: 'n' must be 1.",
                parameter: "n"
            )
        }
    }

    /// Parses a body, which must be an object.
    static func object(_ body: Data) throws(StandInRefusal) -> JSONValue {
        guard let json = try? JSONParser.parse(Array(body), limits: .stored).value,
            case .object = json
        else {
            throw StandInRefusal(message: "The body must be a JSON object.", parameter: nil)
        }
        return json
    }

    private static func messages(
        _ json: JSONValue?
    ) throws(StandInRefusal) -> [StandInAnswer.Message] {
        guard case .array(let items) = json, !items.isEmpty, items.count <= messageLimit else {
            let message = "'messages' must be an array of 1 to \(messageLimit) messages."
            throw StandInRefusal(message: message, parameter: "messages")
        }
        var messages: [StandInAnswer.Message] = []
        for (index, item) in items.enumerated() {
            guard let message = message(item) else {
                throw StandInRefusal(
                    message: "A message has a 'role' and a 'content' of text, images or files.",
                    parameter: "messages.\(index)"
                )
            }
            messages.append(message)
        }
        return messages
    }

    /// Parses a message: its content is a string, an array of parts, or absent if it calls tools.
    private static func message(_ json: JSONValue) -> StandInAnswer.Message? {
        guard let role = json["role"]?.string else { return nil }
        var message = StandInAnswer.Message(role: role, text: "")
        switch json["content"] ?? .null {
        case .string(let text): message.text = text
        case .null where json["tool_calls"] != nil: break
        case .array(let parts):
            for part in parts {
                if part["type"] == "text" || part["type"] == "input_text" {
                    guard let text = part["text"]?.string else { return nil }
                    message.text += text
                } else if let attachment = attachment(part) {
                    message.attachments.append(attachment)
                } else {
                    return nil
                }
            }
        default: return nil
        }
        return message
    }

    private static func attachment(_ part: JSONValue) -> StandInAnswer.Attachment? {
        let content: JSONValue?
        let kind: StandInAnswer.Attachment.Kind
        switch part["type"]?.string {
        case "image_url", "input_image":
            kind = .image
            content = part["image_url"]?["url"] ?? part["image_url"]
        case "video_url", "input_video":
            kind = .file
            content = part["video_url"]?["url"] ?? part["video_url"]
        case "file", "input_file":
            kind = .file
            let file = part["file"] ?? part
            content = file["file_data"] ?? file["file_url"] ?? file["file_id"]
        default: return nil
        }
        return content?.string.map { .init(kind: kind, bytes: bytes(of: $0)) }
    }

    /// Returns the number of bytes in a Base64 `data` URL, or the length of any other URL.
    private static func bytes(of address: String) -> Int {
        guard address.hasPrefix("data:"), let marker = address.firstRange(of: ";base64,") else {
            return address.utf8.count
        }
        let digits = address[marker.upperBound...].utf8
        return digits.count { $0 != UInt8(ascii: "=") } * 3 / 4
    }

    private static func maxTokens(_ json: JSONValue) throws(StandInRefusal) -> Int? {
        for name in ["max_completion_tokens", "max_tokens"] {
            guard let value = json[name], value != .null else { continue }
            guard let number = value.integer, (1...1_000_000).contains(number) else {
                let message = "'\(name)' must be a whole number from 1 to 1000000."
                throw StandInRefusal(message: message, parameter: name)
            }
            return Int(number)
        }
        return nil
    }
}
