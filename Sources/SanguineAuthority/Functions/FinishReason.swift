import SanguineModel

/// Why a language model stopped, in the upstream's own word.
struct FinishReason: Hashable, Sendable {
    /// The reasons of an answer that came to its own end, as OpenAI and servers like it write them.
    private static let natural: Set = [
        "stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call",
    ]

    /// The word.
    let text: String

    /// Whether the answer is whole.
    ///
    /// It is not for `length`, `content_filter` and `error`, and a reason that is not known counts
    /// as one of these: a part of an answer that is kept would be given for days.
    var isNatural: Bool { Self.natural.contains(text.lowercased()) }
}

extension [UInt8] {
    /// Whether these bytes are a JSON text of white space only.
    ///
    /// A language model that said nothing answers so. Such an answer, if kept, is given for days.
    var isBlankText: Bool {
        guard first == UInt8(ascii: "\""), count <= Self.blankBytes else { return false }
        let text = try? JSONParser.parse(self, limits: .stored).value.string
        return text?.allSatisfy(\.isWhitespace) ?? false
    }

    /// Bytes of the longest text that is looked at.
    private static let blankBytes = 1_024
}
