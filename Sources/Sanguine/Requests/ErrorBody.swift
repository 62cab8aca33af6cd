/// The error that the app's own backend describes in a response body.
///
/// ```swift
/// configuration.errorBody = { response in
///     guard let body = try? JSONDecoder().decode(APIError.self, from: response.body) else {
///         return nil
///     }
///     return ErrorBody(code: body.error.code, detail: body.error.message)
/// }
/// ```
///
/// Members that are `nil` follow from the status.
public struct ErrorBody: Hashable, Sendable {
    /// The stable code for programs, which ``SanguineError/code`` returns.
    ///
    /// If it is `nil`, the code is `http_<status>`.
    public var code: String?
    /// A description of the failure, which becomes the problem's `detail`.
    public var detail: String?
    /// The kind of error in one sentence.
    public var title: String?
    /// The class of the error, which decides whether the client retries.
    ///
    /// Reads and mutations are retried for ``ErrorClass/retryable`` and ``ErrorClass/waits``;
    /// ``ErrorClass/refused`` ends a mutation regardless of the status.
    public var errorClass: ErrorClass?
    /// The number of whole seconds after which a retry makes sense.
    ///
    /// If it is `nil`, the `Retry-After` header applies.
    public var retryAfter: Int?

    /// Creates an error body; each member may be omitted.
    public init(
        code: String? = nil,
        detail: String? = nil,
        title: String? = nil,
        errorClass: ErrorClass? = nil,
        retryAfter: Int? = nil
    ) {
        self.code = code
        self.detail = detail
        self.title = title
        self.errorClass = errorClass
        self.retryAfter = retryAfter
    }
}
