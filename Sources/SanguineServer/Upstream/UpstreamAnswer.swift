package import SanguineAuthority
import SanguineModel

/// A piece of a streamed answer.
public struct UpstreamEvent: Hashable, Sendable {
    /// The chunk as it came, byte for byte: a JSON object without the field name `data`.
    public let chunk: [UInt8]
    /// What the chunk adds to the text of the first choice; often empty.
    public let text: String
    /// What the call has used so far; `nil` in chunks that do not say, or say nonsense.
    public let usage: UpstreamUsage?
    /// What the upstream has made up to here, all choices together.
    package var output = OutputMeasure()
    /// Whether this is the beginning of an answer that is too long to be read.
    var isCutOff = false

    /// Creates a piece.
    public init(chunk: [UInt8], text: String, usage: UpstreamUsage? = nil) {
        self.chunk = chunk
        self.text = text
        self.usage = usage
    }
}

extension UpstreamEvent {
    /// The one piece of an answer that did not come in pieces, as the chunk that a stream would
    /// have.
    init?(whole answer: UpstreamAnswer) {
        guard let members = JSONParser.members(in: answer.body),
            let place = members.last(where: { $0.name == "choices" })?.value,
            let choices = JSONParser.elements(in: answer.body, at: place)
        else { return nil }
        let pieces = choices.map { Self.piece(Array(answer.body[$0])) }
        var edit = JSONEdit(answer.body)
        edit.set("object", to: Array(#""chat.completion.chunk""#.utf8))
        edit.set("choices", to: Self.array(pieces))
        self.init(chunk: edit.bytes, text: answer.text, usage: answer.usage)
        output = answer.output
    }

    /// A choice with its message as a delta: readers put calls of tools together by their places.
    private static func piece(_ choice: [UInt8]) -> [UInt8] {
        var edit = JSONEdit(choice)
        guard let message = edit.value("message").map(Array.init) else { return choice }
        var delta = JSONEdit(message)
        if let calls = delta.value("tool_calls").map(Array.init),
            let places = JSONParser.elements(in: calls, at: calls.indices)
        {
            let placed = places.enumerated().map { index, place in
                var call = JSONEdit(Array(calls[place]))
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

/// What a language model answered.
public struct UpstreamAnswer: Hashable, Sendable {
    /// The text of the first choice, whole also after a stream; empty for a call of tools and for
    /// embeddings.
    public let text: String
    /// What the call has used; `nil` if the upstream does not say, or says nonsense.
    public let usage: UpstreamUsage?
    /// The JSON as it came, byte for byte; empty if the answer was streamed.
    public let body: [UInt8]
    /// Why the answer ends: `stop`, `length`, `tool_calls`; `nil` if the upstream does not say.
    public let finishReason: String?
    /// What the body says, if it was read already; no more than that.
    private(set) var json: JSONValue?
    /// What the upstream has made, all choices together, if the body was read.
    var output = OutputMeasure()

    /// Whether both say the same.
    public static func == (lhs: UpstreamAnswer, rhs: UpstreamAnswer) -> Bool {
        lhs.text == rhs.text && lhs.usage == rhs.usage && lhs.body == rhs.body
            && lhs.finishReason == rhs.finishReason
    }

    /// Hashes what both say.
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

    /// Why a choice ends, in 64 characters at most; `nil` for the empty text, which some servers
    /// send until they know.
    static func finishReason(of choice: JSONValue) -> String? {
        guard let reason = choice["finish_reason"]?.string, !reason.isEmpty else { return nil }
        return String(reason.unicodeScalars.prefix(64))
    }

    /// Reads the body of an answer to the request, or returns `nil` if it is none.
    ///
    /// A prompt is answered with text, or with none and the reason why the answer ends: reasoning
    /// may have taken all tokens. A raw chat completion may be answered without either, as a call
    /// of tools is.
    init?(body: [UInt8], to request: UpstreamRequest) {
        // The bytes are bounded already, and what was paid for is not refused for its structure.
        let limits = JSONParser.Limits.tolerant
        guard let document = try? JSONParser.parse(body, limits: limits) else { return nil }
        // What is passed on has all that the meter has read, and nothing that it has not.
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
