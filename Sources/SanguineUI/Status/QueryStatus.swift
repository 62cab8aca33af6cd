public import Sanguine

/// The state of a query at one moment, to show with its content or instead of it.
public struct QueryStatus: Sendable, Hashable {
    /// The availability of the content.
    public enum Stage: Sendable, Hashable {
        /// There is content.
        case content
        /// There is no content yet, and it is loading.
        case loading
        /// There is no content because the fetch failed, see ``QueryStatus/error``.
        case failed
        /// There is no content, and it is not loading.
        case empty
    }

    /// The availability of the content.
    public var stage: Stage
    /// The error of the last fetch, or `nil` if it succeeded.
    public var error: SanguineError?
    /// The time of the content, or `nil` without content, or if the time is not known.
    public var asOf: Timestamp?
    /// Whether newer content is loading.
    public var isRefreshing: Bool

    /// Creates a status, for previews and tests.
    ///
    /// Default: no error, no time, not refreshing.
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

    /// Whether the network or the backend was unreachable in the last fetch.
    public var isOffline: Bool { error?.isOffline ?? false }

    /// Whether there is content that could not be refreshed, which a note should mention.
    ///
    /// It is `false` during a refresh, and if the fetch was cancelled.
    public var isOutdated: Bool {
        guard stage == .content, !isRefreshing, let error else { return false }
        return error.errorClass != .cancelled
    }

    /// Whether another fetch may succeed.
    ///
    /// It is `false` if the error is permanent: the content is refused or gone, or needs a sign-in
    /// or a new version of the app.
    public var canRetry: Bool {
        guard let error else { return stage == .empty }
        return error.errorClass.isWorthAnotherRead || error.errorClass == .cancelled
    }

    /// Returns the age of the content, or `nil` if it is not known.
    ///
    /// It is never negative, although clocks may be set back.
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
