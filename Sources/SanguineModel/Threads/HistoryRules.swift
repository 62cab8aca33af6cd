/// The part of a thread that a call receives as its context.
///
/// It consists of the last messages that are complete or cut, as many as both limits allow. An
/// answer is part of it only together with its question.
public struct HistoryRules: Hashable, Codable, Sendable {
    /// The maximum size, in upstream tokens as the server estimates them for prompts.
    ///
    /// Default: 4,000.
    public var tokens: Int
    /// The maximum number of messages; 0 for none.
    ///
    /// Default: 40.
    public var messages: Int

    /// Creates rules.
    public init(tokens: Int = 4_000, messages: Int = 40) {
        self.tokens = tokens
        self.messages = messages
    }
}
