/// The reason that an upstream gave when it refused what a caller sent, in OpenAI's names.
///
/// Each member is bounded, and holds neither the address nor the key of the upstream.
public struct UpstreamReason: Hashable, Codable, Sendable {
    /// The upstream's code, such as `context_length_exceeded`; `nil` if it sent none.
    public var code: String?
    /// The upstream's kind of error, such as `invalid_request_error`; `nil` if it sent none.
    public var type: String?
    /// The member of the request that is at fault; `nil` if the upstream names none.
    public var param: String?
    /// The upstream's sentence about it; `nil` if it sent none.
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
