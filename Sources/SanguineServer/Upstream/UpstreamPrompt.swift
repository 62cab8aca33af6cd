import Foundation
import SanguineAuthority
import SanguineModel

/// A prompt for a language model.
public struct UpstreamPrompt: Hashable, Sendable {
    /// A turn of the conversation.
    public struct Message: Hashable, Sendable {
        /// The author of a turn.
        public enum Role: String, Hashable, Sendable {
            /// The app, with its instructions.
            case system
            /// The user.
            case user
            /// The model, in an earlier turn.
            case assistant
        }

        /// A part of a turn.
        public enum Part: Hashable, Sendable {
            /// A text.
            case text(String)
            /// An image with its media type: `image/png`.
            case image(type: String, bytes: [UInt8])
            /// A file, such as a video, with its name and media type: `video/mp4`.
            case file(name: String, type: String, bytes: [UInt8])
        }

        /// The author.
        public var role: Role
        /// The parts, in order.
        public var content: [Part]

        /// Creates a turn of several parts.
        public init(_ role: Role, _ content: [Part]) {
            self.role = role
            self.content = content
        }

        /// Creates a turn of a text.
        public init(_ role: Role, _ text: String) {
            self.init(role, [.text(text)])
        }

        /// The size of the texts in UTF-8; images and files are not counted.
        public var textBytes: Int {
            content.reduce(0) { sum, part in
                guard case .text(let text) = part else { return sum }
                return sum + text.utf8.count
            }
        }
    }

    /// The conversation, oldest first.
    public var messages: [Message]
    /// The maximum length of an answer in the model's tokens, which limits the cost of a call.
    public var maxOutputTokens: Int
    /// The requested model, for all upstreams that may be asked.
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

/// A request to a language model of any upstream.
public enum UpstreamRequest: Hashable, Sendable {
    /// A chat completion for a prompt.
    case prompt(UpstreamPrompt)
    /// A JSON body for a chat completion (OpenAI API reference).
    ///
    /// It is sent byte for byte except for some members. `model` is replaced by the given model or
    /// each upstream's own; `stream` and `stream_options.include_usage` are set; and
    /// `maxOutputTokens` is sent if the body contains no limit, or not in the form that the
    /// upstream accepts.
    case chat([UInt8], maxOutputTokens: Int, model: String? = nil)
    /// A JSON body for embeddings (OpenAI API reference), never streamed.
    ///
    /// `model` is replaced by the given model or each upstream's own; the rest is not changed.
    case embeddings([UInt8], model: String? = nil)
}

extension UpstreamRequest {
    /// Whether the answer can be streamed.
    var canStream: Bool {
        if case .embeddings = self { false } else { true }
    }

    /// Whether the caller wrote the body and reads the upstream's JSON.
    var isPassedOn: Bool {
        if case .prompt = self { false } else { true }
    }

    /// The requested model instead of the upstream's own.
    var model: String? {
        switch self {
        case .prompt(let prompt): prompt.model
        case .chat(_, _, let model), .embeddings(_, let model): model
        }
    }

    /// Returns the body to send, which is always the same for the same request.
    ///
    /// - Parameters:
    ///   - model: The upstream's own model.
    ///   - streamed: Whether to stream the answer.
    ///   - parameters: The parameters that the upstream accepts.
    /// - Returns: The body in JSON.
    func body(
        model: String,
        streamed: Bool,
        parameters: UpstreamParameters = UpstreamParameters()
    ) -> [UInt8] {
        let name = JSONValue.string(self.model ?? model).canonical
        switch self {
        case .prompt(let prompt):
            var edit = JSONEdit([])
            edit.set("model", to: name)
            edit.set("messages", to: prompt.messages.written)
            edit.limit(to: prompt.maxOutputTokens, parameters.outputLimit)
            edit.stream(streamed, parameters)
            return edit.bytes
        case .chat(let body, let most, _):
            var edit = JSONEdit(body)
            edit.set("model", to: name)
            edit.limit(to: most, parameters.outputLimit)
            edit.stream(streamed, parameters)
            return edit.bytes
        case .embeddings(let body, _):
            var edit = JSONEdit(body)
            edit.set("model", to: name)
            return edit.bytes
        }
    }
}

extension JSONEdit {
    /// Sets the maximum length of the answer in the member that the upstream accepts.
    fileprivate mutating func limit(
        to tokens: Int,
        _ name: UpstreamConfiguration.OutputLimit
    ) {
        let names = ["max_tokens", "max_completion_tokens"]
        switch name {
        case .none: remove(names[0], names[1])
        case .maxTokens, .maxCompletionTokens:
            set(name.rawValue, to: Array("\(tokens)".utf8), replacing: names)
        case .auto:
            let isNamed = names.contains { name in
                value(name).map { !$0.elementsEqual("null".utf8) } ?? false
            }
            if !isNamed { set(names[0], to: Array("\(tokens)".utf8)) }
        }
    }

    /// Requests a stream that reports usage, or no stream.
    fileprivate mutating func stream(_ isStreamed: Bool, _ parameters: UpstreamParameters) {
        guard isStreamed else { return remove("stream", "stream_options") }
        set("stream", to: Array("true".utf8))
        guard parameters.hasStreamOptions else { return remove("stream_options") }
        var options = JSONEdit(value("stream_options").map(Array.init) ?? [])
        options.set("include_usage", to: Array("true".utf8))
        set("stream_options", to: options.bytes)
    }
}

extension [UpstreamPrompt.Message] {
    /// The messages in OpenAI's format, in the order of its API reference.
    fileprivate var written: [UInt8] {
        var text = JSONText(.canonical)
        text.append(self) { text, message in
            text.append(raw: #"{"role":"#)
            text.append(message.role.rawValue)
            text.append(raw: #","content":"#)
            text.append(message.jsonContent)
            text.append(raw: "}")
        }
        return text.bytes
    }
}

extension UpstreamPrompt.Message {
    /// The content in OpenAI's format.
    ///
    /// A single text is sent as a string, because some servers do not accept parts.
    fileprivate var jsonContent: JSONValue {
        if content.count == 1, case .text(let text) = content[0] { return .string(text) }
        return .array(content.map(\.json))
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

    /// Returns the bytes as a `data` URL (RFC 2397).
    private static func dataURL(_ type: String, _ bytes: [UInt8]) -> JSONValue {
        .string("data:\(type);base64,\(Data(bytes).base64EncodedString())")
    }
}
