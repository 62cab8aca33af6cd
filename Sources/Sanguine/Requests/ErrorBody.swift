/// What a backend of the app's own says in the body of an error.
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
/// What is `nil` follows from the status.
public struct ErrorBody: Hashable, Sendable {
    /// The stable code to decide by, as ``SanguineError/code`` then gives it.
    ///
    /// `nil`: `http_<status>`.
    public var code: String?
    /// What went wrong, as `detail` of the problem.
    public var detail: String?
    /// The kind of error in one sentence.
    public var title: String?
    /// What the error means for whoever asked, and so whether it is tried again.
    ///
    /// ``ErrorClass/retryable`` and ``ErrorClass/waits`` are, reads and mutations alike;
    /// ``ErrorClass/refused`` ends a mutation, whatever the status.
    public var errorClass: ErrorClass?
    /// Whole seconds after which another try makes sense.
    ///
    /// `nil`: what the `Retry-After` header says.
    public var retryAfter: Int?

    /// Creates what is said of an error; each member may be left out.
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
