public import SanguineModel

/// The user's opinion of an answer.
public struct Feedback: Hashable, Codable, Sendable {
    /// The largest size of ``comment``, in bytes of UTF-8.
    public static let mostBytes = 2 << 10

    /// An id by which the receiver recognizes a copy.
    public let id: String
    /// The function whose answer it is.
    public let function: String
    public let isHelpful: Bool
    public let comment: String

    public init(on function: String, isHelpful: Bool, comment: String = "", id: String) {
        (self.function, self.isHelpful) = (function, isHelpful)
        (self.comment, self.id) = (comment, id)
    }
}

/// Delivers feedback to the team.
public struct DeliverFeedback: FunctionCall {
    public static let name = "feedback"
    public static let rules = FunctionRules(
        price: .free,
        limits: FunctionLimits(inputBytes: 4 << 10, runningPerAccount: 2)
    )
    /// Whether the feedback is stored.
    public typealias Output = Bool
    public let input: Feedback

    public init(_ feedback: Feedback) { input = feedback }
}
