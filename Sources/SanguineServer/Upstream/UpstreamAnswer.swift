package import SanguineAuthority
import SanguineModel

/// A piece of a streamed answer.
public struct UpstreamEvent: Hashable, Sendable {
    /// The chunk as received, byte for byte: a JSON object without the field name `data`.
    public let chunk: [UInt8]
    /// The text that the chunk adds to the first choice; often empty.
    public let text: String
    /// The usage so far; `nil` if the chunk reports none, or an invalid one.
    public let usage: UpstreamUsage?
    /// The total output so far of all choices.
    package var output = OutputMeasure()
    /// Whether the piece is the beginning of an answer that is too long.
    var isCutOff = false

    /// Creates a piece.
    public init(chunk: [UInt8], text: String, usage: UpstreamUsage? = nil) {
        self.chunk = chunk
        self.text = text
        self.usage = usage
    }
}

extension UpstreamEvent {
    /// Creates the only piece of an answer that was not streamed, in the form of a stream's chunk.
    init?(whole answer: UpstreamAnswer) {
        guard let members = JSONParser.members(in: answer.body),
            let range = members.last(where: { $0.name == "choices" })?.value,
            let choices = JSONParser.elements(in: answer.body, at: range)
        else { return nil }
        let pieces = choices.map { Self.piece(Array(answer.body[$0])) }
        var edit = JSONEdit(answer.body)
        edit.set("object", to: Array(#""chat.completion.chunk""#.utf8))
        edit.set("choices", to: Self.array(pieces))
        self.init(chunk: edit.bytes, text: answer.text, usage: answer.usage)
        output = answer.output
    }

    /// Returns a choice with its message as a delta; tool calls get the index that readers need.
    private static func piece(_ choice: [UInt8]) -> [UInt8] {
        var edit = JSONEdit(choice)
        guard let message = edit.value("message").map(Array.init) else { return choice }
        var delta = JSONEdit(message)
        if let calls = delta.value("tool_calls").map(Array.init),
            let ranges = JSONParser.elements(in: calls, at: calls.indices)
        {
            let placed = ranges.enumerated().map { index, range in
                var call = JSONEdit(Array(calls[range]))
                call.set("index", to: Array("\(index)".utf8))
                return call.bytes
            }
            delta.set("tool_calls", to: array(placed))
        }
        edit.set("delta", to: delta.bytes, replacing: ["message"])
        return edit.bytes
    }

    private static func array(_ elements: [[UInt8]]) -> [UInt8] {
        Array("[".utf8) + elements.joined(separator: Array(",".utf8)) + Array("]".utf8)
    }
}

/// The answer of a language model.
public struct UpstreamAnswer: Hashable, Sendable {
    /// The text of the first choice, also complete after a stream; empty for a tool call and for
    /// embeddings.
    public let text: String
    /// The usage of the call; `nil` if the upstream reports none, or an invalid one.
    public let usage: UpstreamUsage?
    /// The JSON as received, byte for byte; empty if the answer was streamed.
    public let body: [UInt8]
    /// The reason why the answer ends, such as `stop`, `length` or `tool_calls`, if reported.
    public let finishReason: String?
    /// The parsed body, if it was parsed.
    private(set) var json: JSONValue?
    /// The output of all choices, if the body was parsed.
    var output = OutputMeasure()

    /// Returns whether both have the same text, usage, body and finish reason.
    public static func == (lhs: UpstreamAnswer, rhs: UpstreamAnswer) -> Bool {
        lhs.text == rhs.text && lhs.usage == rhs.usage && lhs.body == rhs.body
            && lhs.finishReason == rhs.finishReason
    }

    /// Hashes the text and the body.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(text)
        hasher.combine(body)
    }

    /// Creates an answer.
    public init(
        text: String,
        usage: UpstreamUsage?,
        body: [UInt8] = [],
        finishReason: String? = nil
    ) {
        self.text = text
        self.usage = usage
        self.body = body
        self.finishReason = finishReason
    }

    /// Returns a choice's finish reason, truncated to 64 characters; `nil` for an empty string,
    /// which some servers send until the choice ends.
    static func finishReason(of choice: JSONValue) -> String? {
        guard let reason = choice["finish_reason"]?.string, !reason.isEmpty else { return nil }
        return String(reason.unicodeScalars.prefix(64))
    }

    /// Parses the body of an answer to the request; `nil` if it is not one.
    ///
    /// The answer to a prompt contains text, or only a finish reason if reasoning used all tokens.
    /// The answer to a raw chat completion may contain neither, as a tool call does.
    init?(body: [UInt8], to request: UpstreamRequest) {
        // The size is already limited, and a paid answer is not refused because of its structure.
        let limits = JSONParser.Limits.tolerant
        guard let document = try? JSONParser.parse(body, limits: limits) else { return nil }
        // A forwarded answer must contain only members that the meter has read.
        if request.isPassedOn, document.hasHidden { return nil }
        let json = document.value
        if case .embeddings = request {
            guard case .array = json["data"] else { return nil }
            let usage = UpstreamUsage(reportsIn: json, isEmbedding: true)
            self.init(text: "", usage: usage, body: body)
            self.json = json
            return
        }
        guard case .array(let choices) = json["choices"], let choice = choices.first,
            case .object = choice["message"]
        else { return nil }
        guard ReportedError(json) == nil else { return nil }
        let text = Self.text(of: choice["message"]?["content"])
        let reason = Self.finishReason(of: choice)
        if case .prompt = request, text == nil, reason == nil { return nil }
        self.init(
            text: text ?? "",
            usage: UpstreamUsage(reportsIn: json),
            body: body,
            finishReason: reason
        )
        output.add(choicesOf: json)
        self.json = json
    }
}
