/// How much a language model has made of an answer, as far as its words show.
///
/// Measures text of every kind (content, refusals, calls of tools, the transcript of audio),
/// visible reasoning, and audio. The same words measure the same, whether they come in one piece or
/// in many, and whether the answer came to its end or was cut.
///
/// Parts are not counted: a provider may send several tokens in a part, and a proxy may send a
/// token in several. The two counts of tokens come from the words themselves:
///
/// | count | rule | what it is for |
/// |---|---|---|
/// | ``estimatedTokens`` | 4 bytes of UTF-8 are a token | where no usage is reported |
/// | ``certainTokens`` | 16 characters are a token | a report of fewer is not believed |
///
/// A token that is begun counts. For the second count, a run of one character is one character.
///
/// *Estimate.* OpenAI gives four characters of English as a token ("What are tokens and how to
/// count them"). Bytes and not characters are counted, because tokens of most other scripts have
/// fewer characters. A text whose tokens have `b` bytes on average is charged `b / 4` of its
/// tokens: half for figures and symbols (2 bytes), everything for English and code (4), up to three
/// times as much for the scripts whose words are long in UTF-8 (Devanagari, Georgian).
///
/// *Certain.* Of the 100,000 tokens of `cl100k_base` 443 are longer than 16 characters, nearly all
/// of them identifiers, and no text consists of these: a thousand texts, prose and code in a
/// hundred languages, had at most five characters for a token. The limit leaves room for larger
/// vocabularies. Longer tokens are runs of one character, such as indentation and rulers.
///
/// *Audio.* OpenAI counts a token for each 50 ms of audio that a model makes ("Managing costs",
/// Realtime API), which is 2,400 bytes of its largest format, PCM of 16 bits at 24 kHz. Compressed
/// audio has fewer bytes for a token, so the count is a lower bound for it.
package struct OutputMeasure: Hashable, Sendable {
    /// What a text is part of.
    package enum Kind: Sendable {
        /// The answer.
        case text
        /// What the model thinks before it answers.
        case reasoning
    }

    /// Bytes of text that are a token in the estimate.
    static let bytesPerToken = 4
    /// Characters that are a token for certain.
    static let charactersPerToken = 16
    /// Bytes of audio that are a token for certain.
    static let audioBytesPerToken = 2_400

    /// Bytes of text that is no reasoning.
    private(set) var textBytes = 0
    /// Bytes of reasoning.
    private(set) var reasoningBytes = 0
    /// Bytes of audio.
    private(set) var audioBytes = 0
    /// Characters of all text, a run of one character counted once.
    private var characters = 0
    private var lastCharacter: Unicode.Scalar?

    /// Nothing.
    package init() {}

    /// Whether nothing was made.
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

    /// Adds bytes of text that are not at hand.
    package mutating func add(bytes: Int) { textBytes += max(0, bytes) }

    /// Adds audio, or the next piece of it, that is written in so many characters of Base64.
    package mutating func addAudio(base64Characters count: Int) { audioBytes += count / 4 * 3 }

    /// The tokens that this probably is.
    package var estimatedTokens: Int64 {
        Self.tokens(textBytes, Self.bytesPerToken) + estimatedReasoningTokens + audioTokens
    }

    /// Of the estimated tokens, those of reasoning.
    package var estimatedReasoningTokens: Int64 {
        Self.tokens(reasoningBytes, Self.bytesPerToken)
    }

    /// The tokens that this is at least.
    package var certainTokens: Int64 {
        Int64(characters / Self.charactersPerToken) + audioTokens
    }

    private var audioTokens: Int64 { Int64(audioBytes / Self.audioBytesPerToken) }

    /// The tokens of so many bytes in the estimate.
    static func estimatedTokens(bytes: Int) -> Int64 { tokens(bytes, bytesPerToken) }

    private static func tokens(_ bytes: Int, _ perToken: Int) -> Int64 {
        Int64(bytes / perToken) + (bytes % perToken > 0 ? 1 : 0)
    }
}
