public import SanguineModel

/// The client's knowledge about a problem, in addition to the problem's members.
///
/// It is kept in memory only; on disk, a refused operation has just the members.
struct ProblemContext: Sendable {
    /// The response that contained it, with the beginning of its body.
    var response: TransportResponse?
    /// The class that the app has assigned to it.
    var errorClass: ErrorClass?
    /// Whether it came from something other than the backend, such as a proxy, and the app has
    /// assigned no class.
    var isForeign = false
    /// The app's own error that caused the problem.
    var underlying: (any Error)?
    /// Whether a part of the refused operation was applied; this is also stored on disk.
    var isPartlyDone = false
}

extension Problem {
    var known: ProblemContext? {
        get { context.value as? ProblemContext }
        set { context.value = newValue }
    }

    /// The problem as the end of a call, which must not be retried.
    var ofEndedCall: Problem {
        var problem = self
        var known = known ?? ProblemContext()
        known.errorClass = .refused
        problem.known = known
        return problem
    }

    /// Whether the backend has answered a request of the refused operation with success, so that a
    /// retry must keep its key.
    var isPartlyDone: Bool {
        get { known?.isPartlyDone ?? false }
        set {
            var context = known ?? ProblemContext()
            context.isPartlyDone = newValue
            known = context
        }
    }
}

extension Problem {
    /// The response that contained it; see ``SanguineError/response``.
    public var response: TransportResponse? { known?.response }
}

extension SanguineError {
    /// The response in which a backend refused, reported a fault, or sent something that cannot be
    /// decoded: its status, its header fields, and the first 4 KiB of its body
    /// (``ClientLimits/errorBodyBytes``).
    ///
    /// `nil` if there was no response, and after a restart. It may contain personal data: log it
    /// with care. It is ignored when errors are compared.
    public var response: TransportResponse? {
        switch self {
        case .problem(let problem): problem.response
        case .decoding(let failure): failure.response
        case .timedOut(let last): last.response
        default: nil
        }
    }

    /// The error that one of the app's closures has thrown; `nil` if none did.
    ///
    /// It is ignored when errors are compared.
    public var underlying: (any Error)? {
        switch self {
        case .queryFailed(let failure): failure.underlying
        case .problem(let problem): problem.known?.underlying
        case .timedOut(let last): last.underlying
        default: nil
        }
    }
}

/// Classifies responses to a write that an earlier attempt may have applied.
///
/// The backend has forgotten the key, or never supported it, and reports the state of the resource:
/// the deleted one does not exist, the created one does.
extension Problem {
    /// Whether the problem shows that a repeated write was applied.
    ///
    /// | method | response |
    /// |---|---|
    /// | `DELETE` | 404 or 410 |
    /// | `POST`, `PUT` | 409 or 422 with the code `already_exists` or `record_exists` |
    ///
    /// Always `false` if the app has classified the problem, see ``ErrorBody/errorClass``, or if it
    /// came from something other than the backend, see ``TransportResponse/isForeign(to:)``.
    ///
    /// - Parameter method: The HTTP method of the write.
    /// - Returns: Whether the write was applied.
    func showsApplied(_ method: String) -> Bool {
        guard let known, known.errorClass == nil, known.response != nil, !known.isForeign
        else { return false }
        switch method.uppercased() {
        case "DELETE": return [404, 410].contains(status)
        case "POST", "PUT":
            return [409, 422].contains(status) && [.recordExists, "already_exists"].contains(code)
        default: return false
        }
    }
}

extension SanguineError {
    /// Whether the app itself has reported the refusal, perhaps from the body of a successful
    /// response.
    var isRefusalOfApp: Bool {
        switch self {
        case .problem(let problem): problem.known?.response == nil
        case .queryFailed(let failure): failure.underlying is any ClassifiedError
        default: false
        }
    }
}
