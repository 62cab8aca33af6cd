import SanguineModel

/// The limits and defaults of lists that come in pages.
public enum PageLimits {
    /// Rows of a page when a list says nothing else: 20.
    public static let size = WireLimits.defaultPage
    /// Rows of a page at most: 100.
    public static let largestSize = WireLimits.largestPage
    /// Pages of a list that are kept: 200.
    ///
    /// Past it the end that is farther from the reader is dropped; it can be loaded again.
    public static let kept = 200
    /// Lists that go on where they were although nobody shows them: 16, those used last.
    ///
    /// Of others the beginning is kept by the cache, as their policies say.
    public static let listsKept = 16
    /// Dropped pages at a list's beginning whose cursors are kept, to go back: 1,000.
    public static let cursorsKept = 1_000
    /// Requests of one refresh, at most: 5.
    ///
    /// One as a rule. More only if the first page does not say what follows it, and the reader's
    /// row would be lost. Also the requests of one second look, at most.
    public static let refreshRequests = 5
    /// Requests of the way back to a place whose cursor has expired, at most: 40.
    public static let recoveryRequests = 40
    /// Requests in sequence for the next row, where a backend answers with empty pages: 50.
    ///
    /// After them the load fails, see ``ListModel/nextError``, and the next one goes on from there.
    public static let emptyPages = 50
    /// Times that what is under way begins anew because the app has changed rows meanwhile: 3.
    ///
    /// After them it ends, and what it brings counts.
    public static let restarts = 3
    /// Rows from the end of the list: who shows one of them has the next page loaded ahead.
    public static let prefetchDistance = 10
}
