import Foundation
import SanguineAuthority
import SanguineModel

/// A chat completion as a program sends it that was written for OpenAI's API, metered by the rules
/// of a function.
///
/// What it says goes to the upstream as it is, tools among it; what comes is given on as it comes.
struct ChatFunction: MeteredFunction {
    /// The name in the ledger: that of the function whose rules it has.
    let name: String
    let rules: FunctionRules
    let model: ModelCall

    var inputs: [String: String] { ["messages": "array"] }

    /// Creates the door's function; answers are not kept.
    init(name: String, rules: FunctionRules, model: ModelCall) {
        self.name = name
        self.model = model
        var rules = rules
        rules.cache = .none
        rules.streams = true
        rules.attachments = nil
        self.rules = rules
    }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        let chat = try ChatRequest(input.value, maxOutputTokens: model.maxOutputTokens)
        let pricing = Pricing(price: rules.price, maxOutputTokens: Int64(chat.maxOutputTokens))
        let size = PromptSize(bytes: chat.promptBytes)
        let timeout = rules.limits.timeout ?? model.timeout
        return PreparedCall(
            input: input.value,
            hold: pricing.most(size),
            guess: pricing.guess(size),
            life: timeout + .seconds(60),
            isSent: true,
            unavailable: model.unavailable,
            chargeWhenCut: { pricing.chargeWhenCut($0, size) }
        ) { context async throws(Problem) in
            let answer = try await model.answer(
                .chat(chat.body),
                within: timeout,
                context,
                isCallersOwn: true
            ) {
                chat.part(of: $0)
            }
            return PreparedCall.Outcome(
                output: try answer.output,
                charge: answer.charge(pricing, size)
            )
        }
    }
}

/// Embeddings, metered by the rules of a function.
struct EmbeddingFunction: MeteredFunction {
    let name: String
    let rules: FunctionRules
    let model: ModelCall

    var inputs: [String: String] { ["input": "string"] }

    /// Creates the door's function; answers are not kept, and come in one piece.
    init(name: String, rules: FunctionRules, model: ModelCall) {
        self.name = name
        self.model = model
        var rules = rules
        rules.cache = .none
        rules.streams = false
        rules.attachments = nil
        self.rules = rules
    }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        guard let texts = input.value["input"], texts != .null else {
            throw Problem(.invalidContent, "Set 'input' to a text or an array of texts.")
        }
        let pricing = Pricing(price: rules.price, maxOutputTokens: 0)
        let size = PromptSize(bytes: texts.canonical.count)
        let timeout = rules.limits.timeout ?? model.timeout
        return PreparedCall(
            input: input.value,
            hold: pricing.most(size),
            guess: pricing.guess(size),
            life: timeout + .seconds(60),
            isSent: true,
            unavailable: model.unavailable,
            chargeWhenCut: { pricing.chargeWhenCut($0, size) }
        ) { context async throws(Problem) in
            let answer = try await model.answer(
                .embeddings(input.value),
                within: timeout,
                context,
                isCallersOwn: true
            ) { _ in "" }
            return PreparedCall.Outcome(
                output: try answer.output,
                charge: answer.charge(pricing, size)
            )
        }
    }
}

extension ModelCall.Answered {
    /// The upstream's body, or the text of what was streamed.
    fileprivate var output: JSONValue {
        get throws(Problem) {
            if isStreamed { return .string(answer.text) }
            let limits = JSONParser.Limits(values: .max)
            guard let value = try? JSONParser.parse(answer.body, limits: limits).value else {
                throw .upstreamFailed
            }
            return value
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
        guard (members["n"] ?? 1) == 1 || members["n"] == .null else {
            throw Problem(.invalidContent, "Set 'n' to 1: one answer is made.")
        }
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
            let json = try? JSONParser.parse(chunk, limits: .init(values: .max)).value
        else { return false }
        return json["choices"] == .array([])
    }
}
