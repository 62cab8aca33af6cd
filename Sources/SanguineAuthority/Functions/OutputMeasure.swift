/// The amount of an answer that a language model has produced, as far as its output shows.
///
/// Measures text of every kind (content, refusals, tool calls, the transcript of audio), visible
/// reasoning, and audio. The same text has the same measure, in one piece or in many, and whether
/// the answer is complete or was cut short.
///
/// Parts are not counted: a provider may send several tokens in a part, and a proxy may split a
/// token into several parts. The two counts of tokens depend only on the text:
///
/// | count | rule | purpose |
/// |---|---|---|
/// | ``estimatedTokens`` | 4 bytes of UTF-8 are a token | used if no usage is reported |
/// | ``certainTokens`` | 16 characters are a token | a lower report is not trusted |
///
/// The estimate rounds up. For the second count, a run of one character is one character.
///
/// *Estimate.* OpenAI gives four characters of English as a token ("What are tokens and how to
/// count them"). Bytes are counted, not characters, because tokens of most other scripts have fewer
/// characters. A text whose tokens have `b` bytes on average is charged for `b / 4` of its tokens:
/// half for figures and symbols (2 bytes), all for English and code (4), up to three times as many
/// for scripts with long words in UTF-8 (Devanagari, Georgian).
///
/// *Certain.* Of the 100,000 tokens of `cl100k_base`, 443 are longer than 16 characters. Nearly all
/// are identifiers, and no text consists of these: a thousand texts, prose and code in a hundred
/// languages, had at most five characters per token. The limit leaves room for larger vocabularies.
/// Longer tokens are runs of one character, such as indentation and rulers.
///
/// *Audio.* OpenAI counts a token for each 50 ms of audio that a model produces ("Managing costs",
/// Realtime API), which is 2,400 bytes of its largest format, 16-bit PCM at 24 kHz. Compressed
/// audio has fewer bytes per token, so the count is a lower bound for it.
package struct OutputMeasure: Hashable, Sendable {
    /// The kind of a text.
    package enum Kind: Sendable {
        /// The answer.
        case text
        /// The thoughts of the model before its answer.
        case reasoning
    }

    /// The number of bytes of text per token in the estimate.
    static let bytesPerToken = 4
    /// The number of characters per certain token.
    static let charactersPerToken = 16
    /// The number of bytes of audio per certain token.
    static let audioBytesPerToken = 2_400

    /// The number of bytes of text other than reasoning.
    private(set) var textBytes = 0
    /// The number of bytes of reasoning.
    private(set) var reasoningBytes = 0
    /// The number of bytes of audio.
    private(set) var audioBytes = 0
    /// The number of characters of all text, with a run of one character counted once.
    private var characters = 0
    private var lastCharacter: Unicode.Scalar?

    /// Creates an empty measure.
    package init() {}

    /// Whether there is no output.
    package var isEmpty: Bool { textBytes + reasoningBytes + audioBytes == 0 }

    /// Adds a text, or the next piece of one.
    package mutating func add(_ text: String, as kind: Kind = .text) {
        switch kind {
        case .text: textBytes += text.utf8.count
        case .reasoning: reasoningBytes += text.utf8.count
        }
        for character in text.unicodeScalars where character != lastCharacter {
            characters += 1
            lastCharacter = character
        }
    }

    /// Adds text of which only the size in bytes is known.
    package mutating func add(bytes: Int) { textBytes += max(0, bytes) }

    /// Adds audio, or the next piece of it, by its number of Base64 characters.
    package mutating func addAudio(base64Characters count: Int) { audioBytes += count / 4 * 3 }

    /// The estimated number of tokens.
    package var estimatedTokens: Int64 {
        Self.tokens(textBytes, Self.bytesPerToken) + estimatedReasoningTokens + audioTokens
    }

    /// The estimated number of reasoning tokens.
    package var estimatedReasoningTokens: Int64 {
        Self.tokens(reasoningBytes, Self.bytesPerToken)
    }

    /// The smallest possible number of tokens.
    package var certainTokens: Int64 {
        Int64(characters / Self.charactersPerToken) + audioTokens
    }

    private var audioTokens: Int64 { Int64(audioBytes / Self.audioBytesPerToken) }

    /// Returns the estimated number of tokens of a text with this number of bytes.
    static func estimatedTokens(bytes: Int) -> Int64 { tokens(bytes, bytesPerToken) }

    private static func tokens(_ bytes: Int, _ perToken: Int) -> Int64 {
        Int64(bytes / perToken) + (bytes % perToken > 0 ? 1 : 0)
    }
}
