/// A refusal or fault as it travels: `application/problem+json` (RFC 9457).
///
/// `detail` says what to do next and holds nothing personal. The members after it belong to single
/// codes and are `nil` elsewhere.
public struct Problem: Error, Hashable, Codable, Sendable {
    /// A URI that names the kind of problem: `urn:sanguine:problem:<code>`.
    public var type: String
    /// The kind of problem in one sentence; the same for every occurrence.
    public var title: String
    /// The HTTP status.
    public var status: Int
    /// What to do next.
    public var detail: String
    /// The stable code to decide by.
    public var code: ProblemCode

    /// With `insufficient_tokens`: what may be spent, in the balance's unit.
    public var available: Int64?
    /// With `insufficient_tokens`: what is held for operations in flight, in the balance's unit.
    public var held: Int64?
    /// With `insufficient_tokens`: what the operation needs, in the balance's unit.
    public var required: Int64?
    /// With `upstream_timeout`: what the call was charged all the same, in the balance's unit.
    ///
    /// `nil` if its hold was released.
    public var charged: Int64?
    /// With `quota_exhausted`: when the next period begins.
    public var resetsAt: Timestamp?
    /// With `quota_exhausted`: the plans that lift the quota.
    public var lifts: [String]?
    /// Whole seconds after which another try makes sense; also the `Retry-After` header.
    public var retryAfter: Int?

    /// Creates a problem.
    ///
    /// Status, title and type follow from the code.
    ///
    /// - Parameters:
    ///   - code: What went wrong.
    ///   - detail: What to do next, in a sentence or two, without anything personal.
    ///   - retryAfter: Whole seconds after which another try makes sense.
    public init(_ code: ProblemCode, _ detail: String, retryAfter: Int? = nil) {
        type = "urn:sanguine:problem:\(code.rawValue)"
        (status, title) = code.meaning
        self.detail = detail
        self.code = code
        self.retryAfter = retryAfter
    }
}

extension Problem: CustomStringConvertible {
    /// The title, what to do next, and the code.
    public var description: String { "\(title) \(detail) [\(code.rawValue)]" }
}
