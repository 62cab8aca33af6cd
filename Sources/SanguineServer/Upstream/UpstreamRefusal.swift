public import SanguineModel

/// The refusal of a request by an upstream.
///
/// Its messages have a limited length and do not contain the key or host of the upstream.
public struct UpstreamRefusal: Hashable, Sendable {
    /// The longest pause that is accepted: a day.
    static let longestPause = Duration.seconds(86_400)

    /// The status of the response, or that of an error within it; 500 if there is none.
    public var status: Int
    /// The pause that the upstream requests; `nil` for none.
    public var retryAfter: Duration?
    /// The reason for the caller; without parts of a prompt that the caller did not write.
    public var reason: UpstreamReason
    /// The message for the log, without any part of a prompt.
    public var loggedMessage: String?
    /// Whether the caller wrote the request, and not a function.
    public var isOfCallersRequest: Bool

    /// Creates a refusal.
    public init(
        status: Int,
        retryAfter: Duration? = nil,
        reason: UpstreamReason = UpstreamReason(),
        loggedMessage: String? = nil,
        isOfCallersRequest: Bool = false
    ) {
        self.status = status
        self.retryAfter = retryAfter
        self.reason = reason
        self.loggedMessage = loggedMessage
        self.isOfCallersRequest = isOfCallersRequest
    }

    /// The time after which the upstream expects another call, in whole seconds.
    public var retryAfterSeconds: Int? { retryAfter?.secondsRoundedUp }
}

extension UpstreamRefusal {
    /// Parses the body of a refusal.
    ///
    /// - Parameters:
    ///   - status: The status of the response; that in the body if `nil`.
    ///   - retryAfter: The pause that the head requests.
    ///   - body: The body, or the beginning of a long one.
    ///   - filter: Removes confidential text.
    init(status: Int?, retryAfter: Duration? = nil, body: [UInt8], _ filter: RefusalFilter) {
        if let json = try? JSONParser.parse(body, limits: .stored).value {
            self.init(status: status, retryAfter: retryAfter, json, filter)
            return
        }
        // An HTML page comes from a proxy, and contains no more than the status.
        let text = String(decoding: body.prefix(4_096), as: UTF8.self)
        let isPage = text.drop { $0.isWhitespace }.hasPrefix("<")
        self.init(status: status, retryAfter: retryAfter, isPage ? .null : .string(text), filter)
    }

    /// Parses an error, or an object with an error.
    ///
    /// Supports the formats of OpenAI's API, of Google's (an array of one), and of servers that
    /// send `{"error": "text"}`, `{"detail": …}` or the members at the top level, as vLLM does.
    init(
        status: Int?,
        retryAfter: Duration? = nil,
        _ json: JSONValue,
        _ filter: RefusalFilter
    ) {
        var json = json
        if case .array(let values) = json, let first = values.first { json = first }
        if let inner = json["error"], inner != .null, inner != .bool(true) { json = inner }
        let detail = json["message"] ?? json["detail"] ?? json["error"]
        var message = json.string ?? detail?.string
        if case .array(let faults) = detail { message = faults.first?["msg"]?.string }
        let code = json["code"]
        let number = Self.status(code) ?? Self.status(json["status"])
        let word = code?.string.flatMap { Int($0) == nil ? $0 : nil }
        let type = json["type"]?.string ?? json["status"]?.string
        self.init(
            status: status ?? number ?? 500,
            retryAfter: retryAfter,
            reason: UpstreamReason(
                code: filter.name(word),
                type: filter.name(type),
                param: filter.name(json["param"]?.string),
                message: filter.message(message, forLog: false)
            ),
            loggedMessage: filter.message(message, forLog: true),
            isOfCallersRequest: filter.isOfCallersRequest
        )
    }

    /// Returns the pause that the head of a response requests.
    ///
    /// `retry-after-ms`, which OpenAI's clients prefer, or `Retry-After` in seconds or as a date.
    static func pause(
        milliseconds: String?,
        seconds: String?,
        now: Timestamp
    ) -> Duration? {
        if let text = milliseconds, let number = Double(text), number >= 0 {
            return .milliseconds(Int64(min(number, 86_400_000).rounded(.up)))
        }
        guard let text = seconds else { return nil }
        if let whole = RetryAfter.seconds(text, now: now) {
            return min(.seconds(whole), longestPause)
        }
        guard let number = Double(text), number >= 0 else { return nil }
        return .milliseconds(Int64((min(number, 86_400) * 1_000).rounded(.up)))
    }

    /// Returns the number or text of an error if it is a valid status.
    private static func status(_ value: JSONValue?) -> Int? {
        guard let number = value?.integer ?? value?.string.flatMap({ Int64($0) }),
            (400...599).contains(number)
        else { return nil }
        return Int(number)
    }
}

/// Removes confidential text from an upstream's messages: the operator's key and host, and prompts.
struct RefusalFilter: Sendable {
    /// The maximum length of a code and of a message in characters.
    static let nameLength = 64
    static let messageLength = 512

    private static let gap = "…"
    /// The minimum length in bytes of a part of a prompt that is recognized in a message.
    private static let window = 8
    /// The maximum size of a prompt that is searched for in a message.
    ///
    /// The search runs on a thread that connections share; a message about a longer one is removed.
    private static let longestPrompt = 1 << 16

    /// Whether the caller wrote the request and therefore knows the prompt.
    let isOfCallersRequest: Bool
    private let key: String?
    private let host: String?
    private let request: UpstreamRequest?

    /// Creates a filter that removes nothing.
    init() { (key, host, request, isOfCallersRequest) = (nil, nil, nil, false) }

    init(_ configuration: UpstreamConfiguration, _ request: UpstreamRequest) {
        key = configuration.apiKey?.reveal()
        host = configuration.host
        isOfCallersRequest = request.isPassedOn
        self.request = request
    }

    /// Filters a code, or another short string.
    func name(_ text: String?) -> String? { clean(text, Self.nameLength) }

    /// Filters a message for the caller or for the log.
    func message(_ text: String?, forLog: Bool) -> String? {
        guard let text = clean(text, Self.messageLength) else { return nil }
        return forLog || !isOfCallersRequest ? withoutPrompt(text) : text
    }

    /// Returns one line of limited length without key and host; `nil` if nothing is left.
    private func clean(_ text: String?, _ length: Int) -> String? {
        // Long enough that no key is split at the end.
        guard let text = text?.unicodeScalars.prefix(4_096) else { return nil }
        let isPlain = { (scalar: Unicode.Scalar) in
            !scalar.properties.isWhitespace && scalar.properties.generalCategory != .control
        }
        let words = text.split { !isPlain($0) }.map { hidden(String($0)) }
        let line = words.joined(separator: " ")
        return line.isEmpty ? nil : String(line.unicodeScalars.prefix(length))
    }

    /// Returns the word, unless it contains the host, or the key or a part of it.
    private func hidden(_ word: String) -> String {
        if let host, word.lowercased().contains(host) { return Self.gap }
        // Upstreams repeat keys with asterisks in the middle: `sk-pr****tail`.
        if let key, key.count >= 4, word.contains(key.prefix(4)) { return Self.gap }
        return word
    }

    private func withoutPrompt(_ text: String) -> String {
        guard request?.promptBytes ?? 0 <= Self.longestPrompt else { return Self.gap }
        let bytes = Array(text.utf8)
        guard bytes.count >= Self.window else { return text }
        var starts: [[UInt8]: [Int]] = [:]
        for start in 0...(bytes.count - Self.window) {
            starts[Array(bytes[start..<start + Self.window]), default: []].append(start)
        }
        var isFirst = [Bool](repeating: false, count: 256)
        for start in starts.keys { isFirst[Int(start[0])] = true }
        var isPrompt = [Bool](repeating: false, count: bytes.count)
        for prompt in request?.texts ?? [] {
            var prompt = prompt
            prompt.withUTF8 { prompt in
                guard prompt.count >= Self.window else { return }
                for start in 0...(prompt.count - Self.window) where isFirst[Int(prompt[start])] {
                    let window = Array(prompt[start..<start + Self.window])
                    for first in starts[window] ?? [] {
                        for index in first..<first + Self.window { isPrompt[index] = true }
                    }
                }
            }
        }
        var left: [UInt8] = []
        for (index, byte) in bytes.enumerated() {
            if !isPrompt[index] {
                left.append(byte)
            } else if index == 0 || !isPrompt[index - 1] {
                left += Array(Self.gap.utf8)
            }
        }
        return String(decoding: left, as: UTF8.self)
    }
}

extension UpstreamRequest {
    /// The maximum size of the texts that a model reads.
    fileprivate var promptBytes: Int {
        switch self {
        case .prompt(let prompt): prompt.messages.reduce(0) { $0 + $1.textBytes }
        case .chat(let body, _, _), .embeddings(let body, _): body.count
        }
    }

    /// The texts that a model reads.
    fileprivate var texts: [String] {
        switch self {
        case .prompt(let prompt):
            return prompt.messages.flatMap { message in
                message.content.compactMap { part in
                    if case .text(let text) = part { text } else { nil }
                }
            }
        case .chat(let body, _, _), .embeddings(let body, _):
            let json = try? JSONParser.parse(body, limits: .tolerant).value
            return ["messages", "input", "tools"].flatMap { Self.texts(of: json?[$0]) }
        }
    }

    private static func texts(of value: JSONValue?) -> [String] {
        var texts: [String] = []
        var open = value.map { [$0] } ?? []
        while let value = open.popLast() {
            switch value {
            case .string(let text): texts.append(text)
            case .array(let values): open += values
            case .object(let members): open += members.values
            default: continue
            }
        }
        return texts
    }
}
