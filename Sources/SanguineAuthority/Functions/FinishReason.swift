import SanguineModel

/// The reason why a language model stopped, in the upstream's words.
struct FinishReason: Hashable, Sendable {
    /// The reasons for a complete answer, in the words of OpenAI and compatible servers.
    private static let natural: Set = [
        "stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call",
    ]

    /// The upstream's word.
    let text: String

    /// Whether the answer is complete.
    ///
    /// Answers that end with `length`, `content_filter` or `error` are not complete. An unknown
    /// reason counts as incomplete, because a cached part of an answer would be returned for days.
    var isNatural: Bool { Self.natural.contains(text.lowercased()) }
}

extension [UInt8] {
    /// Whether these bytes are a JSON string of only white space.
    ///
    /// A language model without output produces such an answer; if it were cached, it would be
    /// returned for days.
    var isBlankText: Bool {
        guard first == UInt8(ascii: "\""), count <= Self.blankBytes else { return false }
        let text = try? JSONParser.parse(self, limits: .stored).value.string
        return text?.allSatisfy(\.isWhitespace) ?? false
    }

    /// The largest size in bytes of a string that is checked.
    private static let blankBytes = 1_024
}
