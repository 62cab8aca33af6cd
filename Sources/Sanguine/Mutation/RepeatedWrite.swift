import SanguineModel

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
