import SanguineModel

/// The limits and defaults of lists that are loaded in pages.
public enum PageLimits {
    /// The number of rows of a page by default: 20.
    public static let size = WireLimits.defaultPage
    /// The maximum number of rows of a page: 100.
    public static let largestSize = WireLimits.largestPage
    /// The maximum number of pages that are held: 200.
    ///
    /// Beyond it, the end farther from the reader is dropped; it can be loaded again.
    public static let kept = 200
    /// The number of lists that are not shown but keep their position: 16, the most recently used
    /// ones.
    ///
    /// Of other lists, the cache keeps the beginning, by their policies.
    public static let listsKept = 16
    /// The number of dropped pages at a list's beginning whose cursors are kept for going back:
    /// 1,000.
    public static let cursorsKept = 1_000
    /// The maximum number of requests of one refresh: 5.
    ///
    /// Usually one is enough. More are sent only if the first page does not connect with the held
    /// rows and the reader's row would be lost. This is also the largest number of requests of one
    /// review.
    public static let refreshRequests = 5
    /// The maximum number of requests to find a position again after its cursor has expired: 40.
    public static let recoveryRequests = 40
    /// The maximum number of consecutive empty pages in one load: 50.
    ///
    /// Then the load fails with ``ListModel/nextError``, and the next load continues with the last
    /// cursor.
    public static let emptyPages = 50
    /// The number of times that a load starts over because the app changed rows in the meantime: 3.
    ///
    /// After that, its response counts.
    public static let restarts = 3
    /// The distance from the list's end at which a visible row loads the next page ahead.
    public static let prefetchDistance = 10
}
