import Foundation
import SanguineAuthority
import SanguineModel

/// A request as a program sends it that was written for OpenAI's API, metered by the rules of a
/// function.
///
/// Its bytes go to the upstream as they are, tools among them; what comes is given on as it comes.
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
    private let read: @Sendable () throws(Problem) -> Passed

    /// It is in no list.
    var inputs: [String: String] { [:] }

    private init(
        _ setting: FunctionSetting,
        _ model: ModelCall,
        streams: Bool,
        read: @escaping @Sendable () throws(Problem) -> Passed
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
    static func chat(
        _ body: PassedBody,
        _ setting: FunctionSetting,
        _ model: ModelCall
    ) -> PassedFunction {
        PassedFunction(setting, model, streams: true) { () throws(Problem) in
            let chat = try ChatRequest(body, maxOutputTokens: model.maxOutputTokens)
            return Passed(
                request: .chat(
                    body.bytes,
                    maxOutputTokens: chat.maxOutputTokens,
                    model: model.model
                ),
                promptBytes: chat.promptBytes,
                maxOutputTokens: chat.maxOutputTokens,
                part: { chat.part(of: $0) }
            )
        }
    }

    /// Embeddings, which come in one piece.
    static func embeddings(
        _ body: PassedBody,
        _ setting: FunctionSetting,
        _ model: ModelCall
    ) -> PassedFunction {
        PassedFunction(setting, model, streams: false) { () throws(Problem) in
            try body.checkNames(["model", "input"])
            guard let texts = body.value["input"], texts != .null else {
                throw Problem(.invalidContent, "Set 'input' to a text or an array of texts.")
            }
            return Passed(
                request: .embeddings(body.bytes, model: model.model),
                promptBytes: body.size(of: texts),
                maxOutputTokens: 0
            )
        }
    }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        let passed = try read()
        return model.prepared(
            input.value,
            rules,
            PromptSize(bytes: passed.promptBytes),
            maxOutputTokens: passed.maxOutputTokens,
            part: passed.part,
            request: { _ in passed.request },
            output: { answer in answer.passedOn },
            written: { answer in answer.body.isEmpty ? nil : answer.body }
        )
    }
}

extension UpstreamAnswer {
    /// What the upstream's body says, or the text of what was streamed.
    fileprivate var passedOn: JSONValue { json ?? .string(text) }
}

extension PassedBody {
    /// Checks the names of the members that the meter reads.
    ///
    /// Programs differ in which of two members of the same name they take, and some do not tell
    /// small letters from large ones. What the meter reads must be what the upstream reads.
    ///
    /// - Throws: `invalid_content`, naming the member.
    fileprivate func checkNames(_ metered: some Collection<String>) throws(Problem) {
        var seen: Set<String> = []
        for member in JSONParser.members(in: bytes) ?? [] {
            // In small letters whichever way a program gets there: `K` and `ſ` have two.
            let name = member.name.uppercased().lowercased()
            guard metered.contains(name) else { continue }
            guard member.name.hasBytes(of: name), seen.insert(name).inserted else {
                throw Problem(
                    .invalidContent,
                    "Send the member '\(name)' once, and in small letters."
                )
            }
        }
    }

    /// Bytes that bound the tokens of a value of it: as it is written, if its bytes say more.
    fileprivate func size(of value: JSONValue) -> Int {
        let size = value.canonical.count
        return isApproximate ? max(size, bytes.count) : size
    }
}

/// The body of a chat completion, as far as it bears on what it costs (OpenAI API reference).
struct ChatRequest: Sendable {
    /// The longest answer, in tokens.
    let maxOutputTokens: Int
    /// Bytes that bound the prompt's tokens: all of the body but the names of limits.
    let promptBytes: Int
    /// Whether the last event of a stream says what was used.
    let includesUsage: Bool

    /// Reads a body.
    ///
    /// - Parameters:
    ///   - body: The body.
    ///   - most: The longest answer that may be asked for, and that is asked for if the body does
    ///     not say.
    /// - Throws: `invalid_content`, naming the member.
    init(_ body: PassedBody, maxOutputTokens most: Int) throws(Problem) {
        guard case .object(let members) = body.value,
            case .array(let messages) = members["messages"],
            !messages.isEmpty
        else { throw Problem(.invalidContent, "Set 'messages' to an array of messages.") }
        try body.checkNames(Self.metered)
        try Self.check(members)
        var limit: Int?
        for name in Self.limits {
            guard let given = members[name], given != .null else { continue }
            guard let number = given.integer, (1...Int64(most)).contains(number) else {
                throw Problem(.invalidContent, "Set '\(name)' to 1 to \(most).")
            }
            limit = max(limit ?? 0, Int(number))
        }
        includesUsage = members["stream_options"]?["include_usage"] == true
        try Self.checkParts(of: body)
        // Tools and formats are read by the model, too.
        promptBytes = body.size(of: body.value) + messages.count * 8
        maxOutputTokens = limit ?? most
    }

    private static let limits = ["max_completion_tokens", "max_tokens"]

    /// The members that bear on what is asked for and what it costs.
    private static let metered: Set<String> =
        Set(["model", "messages", "stream", "stream_options"] + limits + unbounded.map(\.key))

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

    /// Looks at each part of each message, also where a member is there twice.
    ///
    /// - Throws: `invalid_content` for pictures and sounds, whose tokens no byte bounds.
    private static func checkParts(of body: PassedBody) throws(Problem) {
        let bytes = body.bytes
        func values(_ name: String, _ place: Range<Int>) -> [Range<Int>] {
            (JSONParser.members(in: bytes, at: place) ?? [])
                .filter { $0.name.uppercased().lowercased() == name }.map(\.value)
        }
        let messages = values("messages", bytes.indices)
        let parts = messages.flatMap { JSONParser.elements(in: bytes, at: $0) ?? [] }
            .flatMap { values("content", $0) }
            .flatMap { JSONParser.elements(in: bytes, at: $0) ?? [] }
        for type in parts.flatMap({ values("type", $0) }) {
            let value = try? JSONParser.parse(Array(bytes[type]), limits: .tolerant).value
            guard ["text", "refusal"].contains(value?.string ?? "") else {
                throw Problem(
                    .invalidContent,
                    "Send parts of type 'text' alone; files come as 'attachments' of a function."
                )
            }
        }
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
            let json = try? JSONParser.parse(chunk, limits: .tolerant).value
        else { return false }
        return [.array([]), .null].contains(json["choices"] ?? .null)
    }
}
