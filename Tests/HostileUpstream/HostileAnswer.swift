import SanguineModel

/// The honest answer of the hostile upstream, and its bill.
///
/// The rule, which a test can follow: a word is a token. The prompt has the words of all its
/// messages, separated by white space, and ten for every part that is not text. The answer has the
/// number of words that `words=12` in the prompt sets, otherwise three to twelve, but at most
/// `max_tokens`. The same prompt gets the same words. In a stream, each word is one chunk. Words
/// have three letters, so that a word with the space before it has four bytes, which the server
/// counts as a token if usage is not reported.
///
/// A prompt with `kind=tools`, `reasoning`, `refusal` or `audio` is answered in that form and not
/// as content. A prompt with `size=6` is answered with tokens of six bytes.
package struct HostileAnswer: Hashable, Sendable {
    /// The number of tokens of a part that is not text.
    package static let partTokens = 10

    /// The maximum number of words in an answer.
    package static let wordLimit = 100_000

    private static let vocabulary = [
        "ash", "bay", "cap", "dew", "elm", "fen", "gem", "hay", "ink", "jar", "kid", "log", "map",
        "net", "oak", "pea",
    ]

    /// The form of the words.
    package enum Kind: String, Sendable, CaseIterable {
        case text, tools, reasoning, refusal, audio
    }

    /// The Base64 characters of an audio token: 50 ms of PCM, 16 bits at 24 kHz.
    private static let audioToken = String(repeating: "AbCd", count: 800)

    /// The form of the words.
    package let kind: Kind
    private let size: Int?

    /// The words.
    package let words: [String]
    /// The number of tokens of the prompt.
    package let promptTokens: Int
    /// Whether `max_tokens` cut the answer.
    package let isCut: Bool

    /// Answers a prompt.
    ///
    /// - Parameters:
    ///   - prompt: The text of all messages, joined by line feeds.
    ///   - otherParts: The number of parts that are not text.
    ///   - maxTokens: The maximum number of tokens in the answer.
    package init(to prompt: String, otherParts: Int = 0, maxTokens: Int? = nil) {
        let hash = Self.hash(prompt)
        let asked = Self.value("words=", in: prompt).flatMap { Int($0) } ?? Int(3 + hash % 10)
        kind = Self.value("kind=", in: prompt).flatMap { Kind(rawValue: $0) } ?? .text
        size = Self.value("size=", in: prompt).flatMap { Int($0) }
        let count = min(max(0, asked), maxTokens ?? Self.wordLimit, Self.wordLimit)
        isCut = count < asked
        words = (0..<count).map { Self.word($0, hash) }
        promptTokens =
            prompt.split(whereSeparator: \.isWhitespace).count + otherParts * Self.partTokens
    }

    /// The text of the answer.
    package var text: String { words.joined(separator: " ") }

    /// The text of a word in a stream, with a space before every word but the first.
    func piece(_ index: Int) -> String {
        guard let size else { return index == 0 ? words[0] : " " + words[index] }
        return String(" \(words[index])linger".prefix(size))
    }

    /// The delta of a choice for a word in a stream.
    func delta(_ index: Int) -> JSONValue {
        let piece = JSONValue.string(piece(index))
        switch kind {
        case .text: return ["content": piece]
        case .reasoning: return ["reasoning_content": piece]
        case .refusal: return ["refusal": piece]
        case .audio: return ["audio": ["data": .string(Self.audioToken)]]
        case .tools where index == 0:
            let call: JSONValue = [
                "index": 0, "id": "call_1", "function": ["name": "f", "arguments": piece],
            ]
            return ["tool_calls": .array([call])]
        case .tools:
            let call: JSONValue = ["index": 0, "function": ["arguments": piece]]
            return ["tool_calls": .array([call])]
        }
    }

    /// The message of a whole answer.
    var message: JSONValue {
        let said =
            size == nil ? text : words.indices.map { piece($0) }.joined()
        let value = JSONValue.string(said)
        switch kind {
        case .text: return ["role": "assistant", "content": value]
        case .reasoning: return ["role": "assistant", "content": .null, "reasoning_content": value]
        case .refusal: return ["role": "assistant", "content": .null, "refusal": value]
        case .audio:
            let data = String(repeating: Self.audioToken, count: words.count)
            return ["role": "assistant", "content": .null, "audio": ["data": .string(data)]]
        case .tools:
            let call: JSONValue = ["id": "call_1", "function": ["name": "f", "arguments": value]]
            return ["role": "assistant", "content": .null, "tool_calls": .array([call])]
        }
    }

    /// The word at the index, also beyond the end.
    static func word(_ index: Int, _ hash: UInt64) -> String {
        vocabulary[Int((hash &+ UInt64(index) &* 0x9E37_79B9) >> 3 & 15)]
    }

    /// The letters, digits, `-` and `_` that follow the marker in the text.
    static func value(_ marker: String, in text: String) -> String? {
        guard let start = text.firstRange(of: marker)?.upperBound else { return nil }
        let value = text[start...].prefix { character in
            character.isASCII
                && (character.isLetter || character.isNumber || character == "-"
                    || character == "_")
        }
        return value.isEmpty ? nil : String(value)
    }

    /// FNV-1a.
    static func hash(_ text: String) -> UInt64 {
        text.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01B3 }
    }
}
