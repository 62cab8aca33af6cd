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
