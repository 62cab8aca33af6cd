import Foundation
import SanguineAuthority
public import SanguineModel

/// What is asked of a language model.
public struct UpstreamPrompt: Hashable, Sendable {
    /// One turn of the conversation.
    public struct Message: Hashable, Sendable {
        /// Who speaks.
        public enum Role: String, Hashable, Sendable {
            /// Instructions of the app.
            case system
            /// The user.
            case user
            /// The model, in an earlier turn.
            case assistant
        }

        /// A piece of what is said or shown.
        public enum Part: Hashable, Sendable {
            /// Words.
            case text(String)
            /// A picture, with its media type: `image/png`.
            case image(type: String, bytes: [UInt8])
            /// A file, such as a video, with its name and media type: `video/mp4`.
            case file(name: String, type: String, bytes: [UInt8])
        }

        /// Who speaks.
        public var role: Role
        /// What is said and shown, in order.
        public var content: [Part]

        /// Creates a turn of several parts.
        public init(_ role: Role, _ content: [Part]) {
            self.role = role
            self.content = content
        }

        /// Creates a turn of words alone.
        public init(_ role: Role, _ text: String) {
            self.init(role, [.text(text)])
        }

        /// Bytes of the words, in UTF-8; pictures and files are not counted.
        public var textBytes: Int {
            content.reduce(0) { sum, part in
                guard case .text(let text) = part else { return sum }
                return sum + text.utf8.count
            }
        }
    }

    /// The conversation, oldest first.
    public var messages: [Message]
    /// The longest answer, in the model's tokens.
    ///
    /// It bounds what a call can cost.
    public var maxOutputTokens: Int
    /// The model that is asked, at every upstream that the call may come to.
    ///
    /// Default: `nil`, each upstream's own.
    public var model: String?

    /// Creates a prompt.
    public init(messages: [Message], maxOutputTokens: Int, model: String? = nil) {
        self.messages = messages
        self.maxOutputTokens = maxOutputTokens
        self.model = model
    }
}

/// A request of a language model, of any upstream.
public enum UpstreamRequest: Hashable, Sendable {
    /// A chat completion for a prompt.
    case prompt(UpstreamPrompt)
    /// The body of a chat completion as OpenAI's API reference has it.
    ///
    /// `model`, by that of each upstream or the one that is given, `stream` and
    /// `stream_options.include_usage` are replaced; everything else, tools
    /// among it, is passed through.
    case chat(JSONValue, model: String? = nil)
    /// The body of an embedding request as OpenAI's API reference has it, never streamed.
    ///
    /// `model` is replaced, by that of each upstream or the one that is given; everything else is
    /// passed through.
    case embeddings(JSONValue, model: String? = nil)
}

extension UpstreamRequest {
    /// Whether the answer may come in pieces.
    var canStream: Bool {
        if case .embeddings = self { false } else { true }
    }

    /// Whether the caller has written it, and reads the upstream's JSON.
    var isPassedOn: Bool {
        if case .prompt = self { false } else { true }
    }

    /// The body that is sent: the same bytes for the same request.
    func body(model: String, streamed: Bool) -> [UInt8] {
        var members: [String: JSONValue]
        switch self {
        case .prompt(let prompt):
            members = [
                "model": .string(prompt.model ?? model),
                "messages": .array(prompt.messages.map(\.json)),
                "max_tokens": .integer(Int64(prompt.maxOutputTokens)),
            ]
        case .chat(let body, let other), .embeddings(let body, let other):
            members = [:]
            if case .object(let own) = body { members = own }
            members["model"] = .string(other ?? model)
        }
        guard canStream else { return JSONValue.object(members).canonical }
        var options: [String: JSONValue] = [:]
        if case .object(let own) = members["stream_options"] { options = own }
        options["include_usage"] = true
        members["stream"] = streamed ? true : nil
        members["stream_options"] = streamed ? .object(options) : nil
        return JSONValue.object(members).canonical
    }
}

extension UpstreamPrompt.Message {
    /// The message in OpenAI's names.
    ///
    /// Words alone are sent as a string, which servers understand that take no parts.
    fileprivate var json: JSONValue {
        if content.count == 1, case .text(let text) = content[0] {
            return ["role": .string(role.rawValue), "content": .string(text)]
        }
        return ["role": .string(role.rawValue), "content": .array(content.map(\.json))]
    }
}

extension UpstreamPrompt.Message.Part {
    fileprivate var json: JSONValue {
        switch self {
        case .text(let text):
            ["type": "text", "text": .string(text)]
        case .image(let type, let bytes):
            ["type": "image_url", "image_url": ["url": Self.dataURL(type, bytes)]]
        case .file(let name, let type, let bytes):
            [
                "type": "file",
                "file": ["filename": .string(name), "file_data": Self.dataURL(type, bytes)],
            ]
        }
    }

    /// The bytes as a `data` URL (RFC 2397).
    private static func dataURL(_ type: String, _ bytes: [UInt8]) -> JSONValue {
        .string("data:\(type);base64,\(Data(bytes).base64EncodedString())")
    }
}
