public import SanguineModel

/// What the client knows of a problem besides its members.
///
/// It is in memory only: what a refused operation keeps on disk are the members.
struct ProblemContext: Sendable {
    /// The answer in which it came, with the beginning of its body.
    var response: TransportResponse?
    /// What the app says that it means.
    var errorClass: ErrorClass?
    /// Whether it came from something other than the backend, such as a proxy, and the app has not
    /// said what it means.
    var isForeign = false
    /// The app's own error because of which there is a problem.
    var underlying: (any Error)?
    /// Whether a part of the refused operation is done; that is kept on disk, too.
    var isPartlyDone = false
}

extension Problem {
    var known: ProblemContext? {
        get { context.value as? ProblemContext }
        set { context.value = newValue }
    }
}

extension Problem {
    /// The answer in which it came; as ``SanguineError/response``.
    public var response: TransportResponse? { known?.response }
}

extension SanguineError {
    /// The answer in which a backend refused, said that it has a fault, or sent what cannot be
    /// decoded: its status, its header fields, and the first 4 KiB of its body
    /// (``ClientLimits/errorBodyBytes``).
    ///
    /// `nil` if there was none, and after a restart. It may hold what is personal: log it with
    /// care. It is no part of what makes two errors equal.
    public var response: TransportResponse? {
        switch self {
        case .problem(let problem): problem.response
        case .decoding(let failure): failure.response
        case .timedOut(let last): last.response
        default: nil
        }
    }

    /// The error that a closure of the app's own has thrown; `nil` if none did.
    ///
    /// It is no part of what makes two errors equal.
    public var underlying: (any Error)? {
        switch self {
        case .queryFailed(let failure): failure.underlying
        case .problem(let problem): problem.known?.underlying
        case .timedOut(let last): last.underlying
        default: nil
        }
    }
}
