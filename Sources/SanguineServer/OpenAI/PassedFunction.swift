import Foundation
import SanguineAuthority
import SanguineModel

/// A request as a program sends it that was written for OpenAI's API, metered by the rules of a
/// function.
///
/// What it says goes to the upstream as it is, tools among it; what comes is given on as it comes.
/// Nothing is kept.
struct PassedFunction: MeteredFunction {
    /// A request, as far as it bears on what it costs.
    struct Passed: Sendable {
        var request: UpstreamRequest
        var promptBytes: Int
        var maxOutputTokens: Int
        /// What of an event the reader is given.
        var part: @Sendable (UpstreamEvent) -> String = { _ in "" }
    }

    /// The name in the ledger: that of the function whose rules it has.
    let name: String
    let rules: FunctionRules
    private let model: ModelCall
    private let read: @Sendable (JSONValue) throws(Problem) -> Passed

    /// It is in no list.
    var inputs: [String: String] { [:] }

    private init(
        _ setting: FunctionSetting,
        _ model: ModelCall,
        streams: Bool,
        read: @escaping @Sendable (JSONValue) throws(Problem) -> Passed
    ) {
        name = setting.name
        self.model = model
        self.read = read
        var rules = setting.rules
        rules.cache = .none
        rules.streams = streams
        rules.attachments = nil
        self.rules = rules
    }

    /// Chat completions.
    static func chat(_ setting: FunctionSetting, _ model: ModelCall) -> PassedFunction {
        PassedFunction(setting, model, streams: true) { value throws(Problem) in
            let chat = try ChatRequest(value, maxOutputTokens: model.maxOutputTokens)
            return Passed(
                request: .chat(chat.body, model: model.model),
                promptBytes: chat.promptBytes,
                maxOutputTokens: chat.maxOutputTokens,
                part: { chat.part(of: $0) }
            )
        }
    }

    /// Embeddings, which come in one piece.
    static func embeddings(_ setting: FunctionSetting, _ model: ModelCall) -> PassedFunction {
        PassedFunction(setting, model, streams: false) { value throws(Problem) in
            guard let texts = value["input"], texts != .null else {
                throw Problem(.invalidContent, "Set 'input' to a text or an array of texts.")
            }
            return Passed(
                request: .embeddings(value, model: model.model),
                promptBytes: texts.canonical.count,
                maxOutputTokens: 0
            )
        }
    }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        let passed = try read(input.value)
        return model.prepared(
            input.value,
            rules,
            PromptSize(bytes: passed.promptBytes),
            maxOutputTokens: passed.maxOutputTokens,
            part: passed.part,
            request: { _ in passed.request },
            output: { answer throws(Problem) in try answer.passedOn }
        )
    }
}

extension UpstreamAnswer {
    /// The upstream's body, or the text of what was streamed.
    fileprivate var passedOn: JSONValue {
        get throws(Problem) {
            if body.isEmpty { return .string(text) }
            guard let json else { throw .upstreamFailed }
            return json
        }
    }
}

/// The body of a chat completion, as far as it bears on what it costs (OpenAI API reference).
struct ChatRequest: Sendable {
    /// What goes to the upstream.
    let body: JSONValue
    /// The longest answer, in tokens.
    let maxOutputTokens: Int
    /// Bytes that bound the prompt's tokens: all of the body but the names of limits.
    let promptBytes: Int
    /// Whether the last event of a stream says what was used.
    let includesUsage: Bool

    /// Reads a body.
    ///
    /// - Parameters:
    ///   - value: The body.
    ///   - most: The longest answer that may be asked for, and that is asked for if the body does
    ///     not say.
    /// - Throws: `invalid_content`, naming the member.
    init(_ value: JSONValue, maxOutputTokens most: Int) throws(Problem) {
        guard case .object(var members) = value, case .array(let messages) = members["messages"],
            !messages.isEmpty
        else { throw Problem(.invalidContent, "Set 'messages' to an array of messages.") }
        try Self.check(members)
        var limit: Int?
        for name in ["max_completion_tokens", "max_tokens"] {
            guard let given = members[name], given != .null else { continue }
            guard let number = given.integer, (1...Int64(most)).contains(number) else {
                throw Problem(.invalidContent, "Set '\(name)' to 1 to \(most).")
            }
            limit = max(limit ?? 0, Int(number))
        }
        includesUsage = members["stream_options"]?["include_usage"] == true
        promptBytes = try Self.bytes(of: members)
        if limit == nil { members["max_tokens"] = .integer(Int64(most)) }
        maxOutputTokens = limit ?? most
        body = .object(members)
    }

    /// What upstreams bill beyond the tokens of the prompt and of one answer, with the values for
    /// which they do not: OpenAI's API reference, and that of vLLM.
    private static let unbounded: KeyValuePairs<String, [JSONValue]> = [
        "n": [1], "best_of": [1], "use_beam_search": [false], "modalities": [.array(["text"])],
        "audio": [], "prediction": [], "web_search_options": [],
        "service_tier": ["auto", "default", "flex"],
    ]

    /// - Throws: `invalid_content` for what the hold does not bound, naming the member.
    private static func check(_ members: [String: JSONValue]) throws(Problem) {
        for (name, allowed) in unbounded {
            guard let value = members[name], value != .null, !allowed.contains(value) else {
                continue
            }
            throw Problem(
                .invalidContent,
                "Leave '\(name)' out: what it may cost is not bounded by the tokens of one answer."
            )
        }
    }

    /// Bytes of what the model reads.
    ///
    /// - Throws: `invalid_content` for pictures and sounds, whose tokens no byte bounds.
    private static func bytes(of members: [String: JSONValue]) throws(Problem) -> Int {
        guard case .array(let messages) = members["messages"] else { return 0 }
        for message in messages {
            guard case .array(let parts) = message["content"] else { continue }
            for part in parts where !["text", "refusal"].contains(part["type"]?.string ?? "text") {
                throw Problem(
                    .invalidContent,
                    "Send parts of type 'text' alone; files come as 'attachments' of a function."
                )
            }
        }
        // Tools and formats are read by the model, too.
        return JSONValue.object(members).canonical.count + messages.count * 8
    }

    /// What of an event the reader is given: the upstream's own words for it.
    func part(of event: UpstreamEvent) -> String {
        if !includesUsage, event.isUsageAlone { return "" }
        return String(decoding: event.chunk, as: UTF8.self)
    }
}

extension UpstreamEvent {
    /// Whether it says what was used, and nothing else.
    fileprivate var isUsageAlone: Bool {
        guard usage != nil, text.isEmpty,
            let json = try? JSONParser.parse(chunk, limits: .stored).value
        else { return false }
        return json["choices"] == .array([])
    }
}
