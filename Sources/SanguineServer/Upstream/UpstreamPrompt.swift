import Foundation
import SanguineAuthority
import SanguineModel

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
    /// The body of a chat completion as OpenAI's API reference has it, in JSON.
    ///
    /// Byte for byte as it is given, but for `model`, by that of each upstream or the one that is
    /// given, `stream`, `stream_options.include_usage`, and the longest answer: where the body does
    /// not name it, or in another way than the upstream takes it, `maxOutputTokens` is sent.
    case chat([UInt8], maxOutputTokens: Int, model: String? = nil)
    /// The body of an embedding request as OpenAI's API reference has it, never streamed.
    ///
    /// `model` is replaced, by that of each upstream or the one that is given; everything else is
    /// passed through.
    case embeddings([UInt8], model: String? = nil)
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

    /// The model that is asked for instead of the upstream's own.
    var model: String? {
        switch self {
        case .prompt(let prompt): prompt.model
        case .chat(_, _, let model), .embeddings(_, let model): model
        }
    }

    /// Writes the body that is sent: the same bytes for the same request.
    ///
    /// - Parameters:
    ///   - model: The upstream's own.
    ///   - streamed: Whether the answer comes in pieces.
    ///   - parameters: What the upstream takes.
    /// - Returns: The body, in JSON.
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
    /// Tells the longest answer under the name that the upstream takes.
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

    /// Asks for a stream that reports what was used, or for none.
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
    /// The messages in OpenAI's names, in the order in which its API reference has them.
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
    /// What is said, in OpenAI's names.
    ///
    /// Words alone are sent as a string, which servers understand that take no parts.
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

    /// The bytes as a `data` URL (RFC 2397).
    private static func dataURL(_ type: String, _ bytes: [UInt8]) -> JSONValue {
        .string("data:\(type);base64,\(Data(bytes).base64EncodedString())")
    }
}
