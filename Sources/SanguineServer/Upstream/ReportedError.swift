import SanguineModel

/// An error that an upstream reports with status 200: in the body, or in an event of a stream.
///
/// | shape | who sends it |
/// |---|---|
/// | `{"error": {"message", "code"}}`, with or without `choices` | OpenAI, OpenRouter, LM Studio |
/// | `{"error": "text"}` | Ollama, Hugging Face |
/// | `{"object": "error", "message", "code"}` | vLLM |
/// | `{"detail": …}` without `choices` | FastAPI |
/// | `event: error`, and `{"type": "error"}` | Anthropic, LM Studio |
/// | a choice with an `error`, or with the `finish_reason` `error` | OpenRouter |
struct ReportedError: Hashable, Sendable {
    /// The status in the error; 500 if there is none.
    let status: Int

    /// The value that contains the reason.
    private let source: JSONValue

    /// Returns the error as a refusal of the call.
    func refusal(_ filter: RefusalFilter) -> UpstreamError {
        .refused(UpstreamRefusal(status: status, source, filter))
    }

    /// Parses an event; `nil` if it reports no error.
    ///
    /// - Parameters:
    ///   - json: The event's data, or the body.
    ///   - type: The event's type. Default: `message`.
    init?(_ json: JSONValue?, type: String = "message") {
        let choice: JSONValue? =
            if case .array(let choices) = json?["choices"] { choices.first } else { nil }
        let sources: [JSONValue?]
        if let error = json?["error"], error.says {
            sources = [error, json]
        } else if json?["object"] == "error" || json?["type"] == "error" {
            sources = [json]
        } else if let error = choice?["error"], error.says {
            sources = [error]
        } else if type == "error" || choice?["finish_reason"] == "error" {
            sources = [json]
        } else if json?["choices"] == nil, json?["detail"]?.says == true {
            sources = [json]
        } else {
            return nil
        }
        source = sources.first.flatMap { $0 } ?? .null
        status = sources.lazy.compactMap { $0?.status }.first ?? 500
    }

    /// Parses a body that is not streamed; `nil` if it reports no error.
    init?(body: [UInt8]) {
        guard let json = try? JSONParser.parse(body, limits: .tolerant).value else { return nil }
        self.init(json)
    }
}

extension JSONValue {
    /// Whether it is not empty: some servers send an empty `error` in each answer.
    fileprivate var says: Bool {
        switch self {
        case .null, .bool(false), "", [:], .array([]): false
        default: true
        }
    }

    /// The status in `code`, `status` or `status_code`, as a number or a string.
    fileprivate var status: Int? {
        for name in ["code", "status", "status_code"] {
            let number = self[name]?.integer ?? self[name]?.string.flatMap { Int64($0) }
            if let number, (400...599).contains(number) { return Int(number) }
        }
        return nil
    }
}

extension UpstreamError {
    /// Whether the refusal may concern a parameter.
    var mayNameParameter: Bool {
        if case .refused(let refusal) = self { [400, 422].contains(refusal.status) } else { false }
    }
}
