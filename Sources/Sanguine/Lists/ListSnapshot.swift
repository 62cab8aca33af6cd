public import SanguineModel

/// What is known of a list at one moment: one snapshot, so that its parts agree with each other.
public struct ListSnapshot<Item: Codable & Sendable & Equatable & Identifiable>: Sendable,
    Equatable
where Item.ID: Sendable {
    /// What a view shows in place of, or beside, the rows.
    public enum Phase: Sendable, Hashable {
        /// There is no list, and none is on its way.
        case empty
        /// There is no list yet; its first page is on its way.
        case loading
        /// There is a list.
        case ready
        /// There is a list, and its beginning is asked for again.
        case refreshing
        /// There is a list, and the page after it, or before it, is on its way.
        case loadingMore
        /// There is no list; the load failed, see ``ListSnapshot/error``.
        case failed
    }

    /// The rows, fresh or not; none stands twice.
    public var items: [Item] = []
    /// Whether rows follow the last one.
    public var hasMore = false
    /// Whether rows before the first one were dropped, because the list grew past its limit.
    public var hasPrevious = false
    /// When the list's beginning arrived; `nil` without a list.
    public var asOf: Timestamp?
    /// What to show in place of, or beside, the rows.
    public var phase = Phase.empty
    /// Why the last refresh failed; `nil` after one that succeeded.
    public var error: SanguineError?
    /// Why the last load of the next page failed; `nil` after one that succeeded, and when nobody
    /// has used the list since.
    public var nextError: SanguineError?

    /// Creates the state of a list, for previews and tests.
    ///
    /// Default: no list, and none on its way.
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

    /// How old the list's beginning is, or `nil` without a list.
    ///
    /// Never negative: clocks are set back at times.
    public func age(at now: Timestamp) -> Duration? {
        asOf.map { max(.zero, now - $0) }
    }
}
