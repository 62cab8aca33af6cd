/// What the hostile upstream says when it is honest, and what it bills for it.
///
/// The rule, which a test can follow: a word is a token. The prompt has the words of all its
/// messages, divided by white space, and ten for every part that is no text. The answer has as many
/// words as `words=12` in the prompt says, otherwise three to twelve, but at most `max_tokens`; the
/// same prompt gets the same ones. In a stream, each word is one chunk. Words have three letters,
/// so that one with the space before it has four bytes: what the server takes for a token of what
/// nobody has reported.
package struct HostileAnswer: Hashable, Sendable {
    /// Tokens of a part that is no text.
    package static let partTokens = 10

    /// Words of an answer at most.
    package static let wordLimit = 100_000

    private static let vocabulary = [
        "ash", "bay", "cap", "dew", "elm", "fen", "gem", "hay", "ink", "jar", "kid", "log", "map",
        "net", "oak", "pea",
    ]

    /// The words.
    package let words: [String]
    /// Tokens of the prompt.
    package let promptTokens: Int
    /// Whether `max_tokens` has cut the answer.
    package let isCut: Bool

    /// Answers a prompt.
    ///
    /// - Parameters:
    ///   - prompt: The text of all messages, joined by line feeds.
    ///   - otherParts: Parts that are no text.
    ///   - maxTokens: The longest answer.
    package init(to prompt: String, otherParts: Int = 0, maxTokens: Int? = nil) {
        let hash = Self.hash(prompt)
        let asked = Self.value("words=", in: prompt).flatMap { Int($0) } ?? Int(3 + hash % 10)
        let count = min(max(0, asked), maxTokens ?? Self.wordLimit, Self.wordLimit)
        isCut = count < asked
        words = (0..<count).map { Self.word($0, hash) }
        promptTokens =
            prompt.split(whereSeparator: \.isWhitespace).count + otherParts * Self.partTokens
    }

    /// The text of the answer.
    package var text: String { words.joined(separator: " ") }

    /// What a stream says for the word: with a space before it, but for the first.
    func piece(_ index: Int) -> String { index == 0 ? words[0] : " " + words[index] }

    /// The word of that place, also behind the end.
    static func word(_ index: Int, _ hash: UInt64) -> String {
        vocabulary[Int((hash &+ UInt64(index) &* 0x9E37_79B9) >> 3 & 15)]
    }

    /// What follows the marker in the text, as far as it is letters, digits, `-` and `_`.
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
