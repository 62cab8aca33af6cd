/// Why an operation is not done: what a record mutation throws, and what the app finds in the tray.
///
/// ```swift
/// guard habit.isActive else { throw Refusal(.invalidContent, "Resume the habit first.") }
/// ```
public struct Refusal: Error, Hashable, Codable, Sendable {
    /// The stable code to decide by.
    ///
    /// An app may use codes of its own.
    public var code: ProblemCode
    /// What to do next, in a sentence, without anything personal.
    public var detail: String

    /// Creates a refusal.
    public init(_ code: ProblemCode, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    /// The refusal as it travels.
    ///
    /// A code that only the app knows has the status 422.
    public var problem: Problem { Problem(code, detail) }
}

extension Refusal: CustomStringConvertible {
    /// What to do next, and the code.
    public var description: String { "\(detail) [\(code.rawValue)]" }
}
