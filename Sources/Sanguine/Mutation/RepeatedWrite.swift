import SanguineModel

/// Classifies answers to a write that an earlier sending may have done already.
///
/// The backend has then forgotten the key, or never heeded it, and says of the thing itself what
/// has become of it: what was to be deleted is gone, what was to be made is there.
extension Problem {
    /// Whether the problem says that a write which is sent again is done.
    ///
    /// | method | answer |
    /// |---|---|
    /// | `DELETE` | 404 or 410 |
    /// | `POST`, `PUT` | 409 or 422 with the code `already_exists` or `record_exists` |
    ///
    /// Not if the app has said what the problem means, see ``ErrorBody/errorClass``, and not if it
    /// came from something other than the backend, see ``TransportResponse/isForeign(to:)``.
    ///
    /// - Parameter method: The HTTP method of the write.
    /// - Returns: Whether the write is done.
    func saysDone(_ method: String) -> Bool {
        guard let known, known.errorClass == nil, known.response != nil, !known.isForeign
        else { return false }
        switch method.uppercased() {
        case "DELETE": return [404, 410].contains(status)
        case "POST", "PUT":
            return [409, 422].contains(status) && [.recordExists, "already_exists"].contains(code)
        default: return false
        }
    }

    /// Whether the backend has answered a request of the refused operation with success, and is
    /// not to be given the same under another key.
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
    /// Whether the app itself has said that the backend refuses, perhaps from a success's body.
    var isRefusalOfApp: Bool {
        switch self {
        case .problem(let problem): problem.known?.response == nil
        case .queryFailed(let failure): failure.underlying is any ClassifiedError
        default: false
        }
    }
}
