public import Sanguine

/// What is to be shown of a query at one moment, beside its content.
public struct QueryStatus: Sendable, Hashable {
    /// What stands in the content's place.
    public enum Stage: Sendable, Hashable {
        /// The content itself.
        case content
        /// There is none yet, and it is on its way.
        case loading
        /// There is none, because the fetch has failed: see ``QueryStatus/error``.
        case failed
        /// There is none, and none is on its way.
        case empty
    }

    /// What stands in the content's place.
    public var stage: Stage
    /// Why the last fetch failed; `nil` after one that succeeded.
    public var error: SanguineError?
    /// When the content came; `nil` without content, or if that is not known.
    public var asOf: Timestamp?
    /// Whether newer content is on its way.
    public var isRefreshing: Bool

    /// Creates a status, for previews and tests.
    ///
    /// Default: no error, no moment, nothing on its way.
    public init(
        _ stage: Stage,
        error: SanguineError? = nil,
        asOf: Timestamp? = nil,
        isRefreshing: Bool = false
    ) {
        self.stage = stage
        self.error = error
        self.asOf = asOf
        self.isRefreshing = isRefreshing
    }

    /// Whether there was no way to the network or the backend when the last fetch was made.
    public var isOffline: Bool { error?.isOffline ?? false }

    /// Whether there is content, and it could not be renewed: what a note should say.
    ///
    /// Not while it is being renewed, and not if nobody wanted the answer any more.
    public var isOutdated: Bool {
        guard stage == .content, !isRefreshing, let error else { return false }
        return error.errorClass != .cancelled
    }

    /// Whether the user may ask again with some hope.
    ///
    /// Not if the answer stays no: it was refused, is gone, needs a sign-in or a new version.
    public var canRetry: Bool {
        guard let error else { return stage == .empty }
        return error.errorClass.isWorthAnotherRead || error.errorClass == .cancelled
    }

    /// How old the content is, or `nil` if that is not known.
    ///
    /// Never negative: clocks are set back at times.
    public func age(at now: Timestamp) -> Duration? {
        asOf.map { max(.zero, now - $0) }
    }
}

extension SanguineError {
    fileprivate var isOffline: Bool {
        switch self {
        case .transport(.offline): true
        case .timedOut(let last): last.isOffline
        default: false
        }
    }
}
