/// The reason that an upstream gave for a refusal, in OpenAI's terms.
///
/// Each member is limited in length, and contains neither the address nor the key of the upstream.
public struct UpstreamReason: Hashable, Codable, Sendable {
    /// The upstream's code, such as `context_length_exceeded`, or `nil` if it sent none.
    public var code: String?
    /// The upstream's kind of error, such as `invalid_request_error`, or `nil` if it sent none.
    public var type: String?
    /// The member of the request that caused the error, or `nil` if the upstream names none.
    public var param: String?
    /// The upstream's description of the error, or `nil` if it sent none.
    public var message: String?

    /// Creates a reason.
    public init(
        code: String? = nil,
        type: String? = nil,
        param: String? = nil,
        message: String? = nil
    ) {
        self.code = code
        self.type = type
        self.param = param
        self.message = message
    }
}
