public import SanguineModel

/// The state of a list at one moment.
///
/// Its parts are consistent with each other.
public struct ListSnapshot<Item: Codable & Sendable & Equatable & Identifiable>: Sendable,
    Equatable
where Item.ID: Sendable {
    /// The content that a view shows instead of, or in addition to, the rows.
    public enum Phase: Sendable, Hashable {
        /// There is no list, and none is being loaded.
        case empty
        /// There is no list yet; its first page is being loaded.
        case loading
        /// There is a list.
        case ready
        /// There is a list, and its beginning is being refreshed.
        case refreshing
        /// There is a list, and the page after it or before it is being loaded.
        case loadingMore
        /// There is no list, because the load failed; see ``ListSnapshot/error``.
        case failed
    }

    /// The rows, fresh or stale, without duplicates.
    public var items: [Item] = []
    /// Whether rows follow the last one.
    public var hasMore = false
    /// Whether rows before the first one were dropped, because the list grew past its limit.
    public var hasPrevious = false
    /// The time at which the list's beginning arrived; `nil` without a list.
    public var asOf: Timestamp?
    /// The content to show instead of, or in addition to, the rows.
    public var phase = Phase.empty
    /// The error of the last refresh; `nil` if it succeeded.
    public var error: SanguineError?
    /// The error of the last load of the next page; `nil` if it succeeded, or if the list has been
    /// released since.
    public var nextError: SanguineError?

    /// Creates the state of a list, for previews and tests.
    ///
    /// By default, there is no list, and none is being loaded.
    public init(
        items: [Item] = [],
        hasMore: Bool = false,
        hasPrevious: Bool = false,
        asOf: Timestamp? = nil,
        phase: Phase = .empty,
        error: SanguineError? = nil,
        nextError: SanguineError? = nil
    ) {
        self.items = items
        self.hasMore = hasMore
        self.hasPrevious = hasPrevious
        self.asOf = asOf
        self.phase = phase
        self.error = error
        self.nextError = nextError
    }

    /// Returns the age of the list's beginning; `nil` without a list.
    ///
    /// It is never negative, because clocks may be set back.
    public func age(at now: Timestamp) -> Duration? {
        asOf.map { max(.zero, now - $0) }
    }
}
