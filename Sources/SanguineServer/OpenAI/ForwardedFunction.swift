import Foundation
import SanguineAuthority
import SanguineModel

/// A request from a program that uses OpenAI's API, charged by the rules of a function.
///
/// Its bytes, including tools, are sent to the upstream unchanged, and the events are forwarded as
/// they arrive. Nothing is cached.
struct ForwardedFunction: MeteredFunction {
    /// The parts of a request that determine its cost.
    struct Passed: Sendable {
        var request: UpstreamRequest
        var promptBytes: Int
        var maxOutputTokens: Int
        /// Returns the part of an event that is sent to the reader.
        var part: @Sendable (UpstreamEvent) -> String = { _ in "" }
    }

    /// The name in the ledger, which is that of the function whose rules apply.
    let name: String
    let rules: FunctionRules
    private let model: ModelCall
    private let read: @Sendable () throws(Problem) -> Passed

    /// Empty, because the function is not listed.
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

    /// Creates a function for chat completions.
    static func chat(
        _ body: ForwardedBody,
        _ setting: FunctionSetting,
        _ model: ModelCall
    ) -> ForwardedFunction {
        ForwardedFunction(setting, model, streams: true) { () throws(Problem) in
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

    /// Creates a function for embeddings, which are not streamed.
    static func embeddings(
        _ body: ForwardedBody,
        _ setting: FunctionSetting,
        _ model: ModelCall
    ) -> ForwardedFunction {
        ForwardedFunction(setting, model, streams: false) { () throws(Problem) in
            try body.checkNames(["model", "input"])
            guard let texts = body.value["input"], texts != .null else {
                throw Problem(.invalidContent, "Set 'input' to a string or an array of strings.")
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
    /// The body of the upstream's answer, or the text of a streamed one.
    fileprivate var passedOn: JSONValue { json ?? .string(text) }
}

extension ForwardedBody {
    /// Checks the names of the members that determine the cost.
    ///
    /// Programs differ in which of two members with the same name they use, and some ignore case.
    /// The server must read the same member as the upstream.
    ///
    /// - Throws: `invalid_content`, with the name of the member.
    fileprivate func checkNames(_ metered: some Collection<String>) throws(Problem) {
        var seen: Set<String> = []
        for member in JSONParser.members(in: bytes) ?? [] {
            // Programs convert either way, and `ſ` becomes `s` only by way of `S`.
            let name = member.name.uppercased().lowercased()
            guard metered.contains(name) else { continue }
            guard member.name.hasBytes(of: name), seen.insert(name).inserted else {
                throw Problem(
                    .invalidContent,
                    "Send the member '\(name)' once, and in lower case."
                )
            }
        }
    }

    /// Returns the bytes that limit the tokens of a value in it: all if they say more than the
    /// value.
    fileprivate func size(of value: JSONValue) -> Int {
        let size = value.canonical.count
        return isApproximate ? max(size, bytes.count) : size
    }
}

/// The members of a chat completion's body that determine its cost (OpenAI API reference).
struct ChatRequest: Sendable {
    /// The maximum length of the answer in tokens.
    let maxOutputTokens: Int
    /// The bytes that limit the tokens of the prompt: those of the body, and 8 for each message.
    let promptBytes: Int
    /// Whether the last event of a stream reports the usage.
    let includesUsage: Bool

    /// Reads a body.
    ///
    /// - Parameters:
    ///   - body: The body.
    ///   - most: The maximum length of the answer in tokens, which also applies if the body
    ///     contains no limit.
    /// - Throws: `invalid_content`, with the name of the member.
    init(_ body: ForwardedBody, maxOutputTokens most: Int) throws(Problem) {
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
                throw Problem(.invalidContent, "Set '\(name)' to a whole number from 1 to \(most).")
            }
            limit = max(limit ?? 0, Int(number))
        }
        includesUsage = members["stream_options"]?["include_usage"] == true
        try Self.checkParts(of: body)
        // The model also reads tools and formats.
        promptBytes = body.size(of: body.value) + messages.count * 8
        maxOutputTokens = limit ?? most
    }

    private static let limits = ["max_completion_tokens", "max_tokens"]

    /// The members that affect the request and its cost.
    private static let metered: Set<String> =
        Set(["model", "messages", "stream", "stream_options"] + limits + unbounded.map(\.key))

    /// Members that upstreams may charge in addition to the tokens of the prompt and one answer,
    /// with the values that are free (API references of OpenAI and vLLM).
    private static let unbounded: KeyValuePairs<String, [JSONValue]> = [
        "n": [1], "best_of": [1], "use_beam_search": [false], "modalities": [.array(["text"])],
        "audio": [], "prediction": [], "web_search_options": [],
        "service_tier": ["auto", "default", "flex"],
    ]

    /// - Throws: `invalid_content` for a member whose cost the hold does not cover.
    private static func check(_ members: [String: JSONValue]) throws(Problem) {
        for (name, allowed) in unbounded {
            guard let value = members[name], value != .null, !allowed.contains(value) else {
                continue
            }
            throw Problem(
                .invalidContent,
                "Leave '\(name)' out: its cost is not limited by the tokens of one answer."
            )
        }
    }

    /// Checks each part of each message, including duplicate members.
    ///
    /// - Throws: `invalid_content` for images and audio, whose tokens their bytes do not limit.
    private static func checkParts(of body: ForwardedBody) throws(Problem) {
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
                    "Send only parts of type 'text'. Files are sent as 'attachments' of a function."
                )
            }
        }
    }

    /// Returns the part of an event that is sent to the reader: the upstream's bytes.
    func part(of event: UpstreamEvent) -> String {
        if !includesUsage, event.isUsageAlone { return "" }
        return String(decoding: event.chunk, as: UTF8.self)
    }
}

extension UpstreamEvent {
    /// Whether it only reports the usage.
    fileprivate var isUsageAlone: Bool {
        guard usage != nil, text.isEmpty,
            let json = try? JSONParser.parse(chunk, limits: .tolerant).value
        else { return false }
        return [.array([]), .null].contains(json["choices"] ?? .null)
    }
}
