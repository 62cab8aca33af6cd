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
