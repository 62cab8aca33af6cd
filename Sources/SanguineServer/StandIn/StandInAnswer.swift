/// An answer of the stand-in: always the same text for the same conversation.
///
/// Tokens are counted by a rule that is easy to calculate in tests: a text has one token per four
/// bytes of UTF-8, rounded up. Each message of the prompt adds four tokens, each image 85 and each
/// file 255, regardless of size.
struct StandInAnswer: Hashable, Sendable {
    /// One turn of the conversation.
    struct Message: Hashable, Sendable {
        var role: String
        var text: String
        var attachments: [Attachment] = []
    }

    /// An image or file in a message.
    struct Attachment: Hashable, Sendable {
        enum Kind: String, Hashable, Sendable {
            case image, file
        }

        var kind: Kind
        /// Bytes of the content, or of the URL if only a URL was sent.
        var bytes: Int

        /// The number of tokens in the prompt.
        var tokens: Int { kind == .image ? 85 : 255 }
    }

    /// The maximum number of words of the question that the answer repeats.
    static let subjectWords = 8

    /// The text, truncated after whole words to fit the limit.
    let text: String
    /// The number of tokens of the conversation.
    let promptTokens: Int
    /// The number of tokens of the text.
    let completionTokens: Int
    /// Whether the text was truncated.
    let isCut: Bool
    /// A hash of the conversation, from which the answer's id is derived.
    let fingerprint: UInt64

    /// Creates the answer to a conversation.
    ///
    /// - Parameters:
    ///   - messages: The conversation, oldest first.
    ///   - maxTokens: The maximum length of the answer in tokens; `nil` for no limit.
    init(to messages: [Message], maxTokens: Int? = nil) {
        fingerprint = Self.fingerprint(of: messages)
        let question = messages.last { $0.role == "user" } ?? messages.last
        let sentences = Self.sentences(about: question?.text ?? "", choice: fingerprint)
        let full = [sentences, Self.remark(on: question?.attachments ?? [])].compactMap(\.self)
            .joined(separator: " ")
        let cut = maxTokens.map { Self.prefix(of: full, tokens: $0) } ?? full
        text = cut
        isCut = cut != full
        promptTokens = Self.tokens(of: messages)
        completionTokens = Self.tokens(of: cut)
    }

    /// Counts the tokens of a text.
    static func tokens(of text: String) -> Int { (text.utf8.count + 3) / 4 }

    /// Counts the tokens of a conversation.
    static func tokens(of messages: [Message]) -> Int {
        messages.reduce(0) { sum, message in
            message.attachments.reduce(sum + tokens(of: message.text) + 4) { $0 + $1.tokens }
        }
    }

    /// Returns a sentence about attachments: their number and total size.
    private static func remark(on attachments: [Attachment]) -> String? {
        guard !attachments.isEmpty else { return nil }
        let bytes = attachments.reduce(0) { $0 + $1.bytes }
        return "I have looked at \(attachments.count) attached, \(bytes) bytes in all."
    }

    private static let openings = [
        "A good question.", "Gladly.", "Let us look at it together.", "That is worth a thought.",
        "Here is how I would see it.", "Of course.",
    ]

    private static let bodies = [
        "With “%”, most people do best to begin with the smallest part that works.",
        "What matters most about “%” is what you want to be true afterwards.",
        "I would read “%” as two things: what you know already, and what you can try today.",
        "“%” becomes easier once it is written down in one sentence.",
        "There is more than one answer to “%”, and the plain one is often the best.",
    ]

    private static let closings = [
        "Try it once, and look at what happens.", "You will see soon whether it holds.",
        "The rest can wait until tomorrow.", "Tell me how it went.",
        "Small steps count, too.", "It may turn out better than expected.", "",
    ]

    private static func sentences(about question: String, choice: UInt64) -> String {
        func pick(_ from: [String], _ salt: UInt64) -> String {
            from[Int((choice ^ (choice >> salt)) % UInt64(from.count))]
        }
        let subject = subject(of: question)
        let body =
            subject.isEmpty
            ? "You have not asked anything yet, and that is a fine place to begin."
            : pick(bodies, 23).split(separator: "%", omittingEmptySubsequences: false)
                .joined(separator: subject)
        return [pick(openings, 11), body, pick(closings, 37)]
            .filter { !$0.isEmpty }
            .joined(separator: " ")
    }

    /// Returns the first words of the question.
    static func subject(of question: String) -> String {
        let words = question.split { $0.isWhitespace }
        let text = words.prefix(subjectWords).joined(separator: " ").prefix(120)
        let cut = text.reversed().drop { $0.isPunctuation }.reversed()
        return String(cut) + (words.count > subjectWords ? " …" : "")
    }

    /// Returns the longest run of whole words within the limit, or characters if no word fits.
    private static func prefix(of text: String, tokens: Int) -> String {
        guard self.tokens(of: text) > tokens else { return text }
        var result = ""
        for word in text.split(separator: " ") {
            let longer = result.isEmpty ? String(word) : result + " " + word
            guard longer.utf8.count <= tokens * 4 else { break }
            result = longer
        }
        if result.isEmpty {
            for character in text {
                guard (result + String(character)).utf8.count <= tokens * 4 else { break }
                result.append(character)
            }
        }
        return result
    }

    static func fingerprint(of messages: [Message]) -> UInt64 {
        var texts: [String] = []
        for message in messages {
            texts += [message.role, message.text]
            texts += message.attachments.map { "\($0.kind.rawValue) \($0.bytes)" }
        }
        return fingerprint(of: texts)
    }

    /// FNV-1a (draft-eastlake-fnv) with a final mix, because `Hasher` differs in each process.
    static func fingerprint(of texts: [String]) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for text in texts {
            for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
            hash = (hash ^ 0xFF) &* 0x0000_0100_0000_01B3  // No byte of UTF-8: ends the text.
        }
        hash = (hash ^ (hash >> 33)) &* 0xFF51_AFD7_ED55_8CCD
        return hash ^ (hash >> 33)
    }
}
