public import SanguineModel

/// The words with which an upstream refused a request.
///
/// They are bounded, and hold neither the key nor the host of the upstream.
public struct UpstreamRefusal: Hashable, Sendable {
    /// The longest pause that is believed: a day.
    static let longestPause = Duration.seconds(86_400)

    /// The status of the answer, or the one that an error within an answer names; 500 if it names
    /// none.
    public var status: Int
    /// The pause that the upstream asks for; `nil` if it asks for none.
    public var retryAfter: Duration?
    /// The reason as the caller may read it; a prompt that the caller did not write is cut out.
    public var reason: UpstreamReason
    /// The message as the log may have it: anything of a prompt is cut out.
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

    /// Whole seconds after which another call makes sense, as the upstream says.
    public var retryAfterSeconds: Int? { retryAfter?.secondsRoundedUp }
}

extension UpstreamRefusal {
    /// Reads the body of a refusal.
    ///
    /// - Parameters:
    ///   - status: The status of the answer; that of the body if `nil`.
    ///   - retryAfter: The pause that the head asks for.
    ///   - body: The body, or the beginning of a long one.
    ///   - filter: What must not be told.
    init(status: Int?, retryAfter: Duration? = nil, body: [UInt8], _ filter: RefusalFilter) {
        if let json = try? JSONParser.parse(body, limits: .stored).value {
            self.init(status: status, retryAfter: retryAfter, json, filter)
            return
        }
        // A page of HTML is of a proxy, and says no more than the status.
        let text = String(decoding: body.prefix(4_096), as: UTF8.self)
        let isPage = text.drop { $0.isWhitespace }.hasPrefix("<")
        self.init(status: status, retryAfter: retryAfter, isPage ? .null : .string(text), filter)
    }

    /// Reads an error, or an object that has one.
    ///
    /// The forms are those of OpenAI's API, of Google's (an array of one), and of servers that say
    /// `{"error": "text"}`, `{"detail": …}` or have the members at the top, as vLLM does.
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

    /// The pause that an answer's head asks for: `retry-after-ms`, which OpenAI's clients look for
    /// first, otherwise `Retry-After` in seconds or as a date.
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

    /// A number that an error names as its status, also as a text.
    private static func status(_ value: JSONValue?) -> Int? {
        guard let number = value?.integer ?? value?.string.flatMap({ Int64($0) }),
            (400...599).contains(number)
        else { return nil }
        return Int(number)
    }
}

/// Cuts out of an upstream's words what must not be told: the operator's key and host, and prompts.
struct RefusalFilter: Sendable {
    /// Characters of a code and of a message at most.
    static let nameLength = 64
    static let messageLength = 512

    private static let gap = "…"
    /// Bytes of a prompt that are recognized in a message.
    private static let window = 8
    /// Bytes of the longest prompt that is looked for in a message.
    ///
    /// That is done on a thread that connections share. A message about a longer one is left out.
    private static let longestPrompt = 1 << 16

    /// Whether the caller wrote the request, and so knows the prompt.
    let isOfCallersRequest: Bool
    private let key: String?
    private let host: String?
    private let request: UpstreamRequest?

    /// Creates a filter that hides nothing.
    init() { (key, host, request, isOfCallersRequest) = (nil, nil, nil, false) }

    init(_ configuration: UpstreamConfiguration, _ request: UpstreamRequest) {
        key = configuration.apiKey?.reveal()
        host = configuration.host
        isOfCallersRequest = request.isPassedOn
        self.request = request
    }

    /// A code, or another short word.
    func name(_ text: String?) -> String? { clean(text, Self.nameLength) }

    /// A message, for the caller or for the log.
    func message(_ text: String?, forLog: Bool) -> String? {
        guard let text = clean(text, Self.messageLength) else { return nil }
        return forLog || !isOfCallersRequest ? withoutPrompt(text) : text
    }

    /// One line of at most so many characters without key and host; `nil` if nothing is left.
    private func clean(_ text: String?, _ length: Int) -> String? {
        // Long enough that a key does not stand across the end.
        guard let text = text?.unicodeScalars.prefix(4_096) else { return nil }
        let isPlain = { (scalar: Unicode.Scalar) in
            !scalar.properties.isWhitespace && scalar.properties.generalCategory != .control
        }
        let words = text.split { !isPlain($0) }.map { hidden(String($0)) }
        let line = words.joined(separator: " ")
        return line.isEmpty ? nil : String(line.unicodeScalars.prefix(length))
    }

    /// The word, unless it is a key or a part of one, or names the host.
    private func hidden(_ word: String) -> String {
        if let host, word.lowercased().contains(host) { return Self.gap }
        // Upstreams repeat keys with stars in the middle: `sk-pr****tail`.
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
                    for place in starts[window] ?? [] {
                        for index in place..<place + Self.window { isPrompt[index] = true }
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
    /// Bytes of the texts that a model reads, at most.
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
