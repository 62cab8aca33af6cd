import SanguineModel

/// The queries that answer a reader of the feed, one after another.
///
/// A reader starts over if it missed forgotten deletions, has a number beyond the head, or comes
/// from another epoch. The first slice shows whether it must, and then a second query is needed.
struct FeedRead: Sendable {
    /// The next query.
    private(set) var query: FeedQuery
    /// Whether the reader must delete its records first.
    private(set) var isReset = false
    /// The operations whose results the reader asks for.
    let operations: [Identifier]?
    /// The epoch of the storage.
    let epoch: Epoch
    /// The revision of the switches that the reader has; `nil` if it does not read them.
    var config: Int64? { request.config }

    private let request: Authority.PullRequest
    private var isSecond = false

    /// Creates the read.
    ///
    /// - Throws: `malformed_request` for too many operations.
    init(
        _ account: Identifier,
        _ request: Authority.PullRequest,
        epoch: Epoch,
        keys: [Key],
        bytes: Int
    ) throws(Problem) {
        guard request.operations?.count ?? 0 <= WireLimits.operationsAsked else {
            throw Problem(
                .malformedRequest,
                "Ask about at most \(WireLimits.operationsAsked) operations."
            )
        }
        self.request = request
        self.epoch = epoch
        operations = request.operations
        let since = max(0, request.since)
        query = FeedQuery(
            of: account,
            after: since,
            limit: min(max(1, request.limit ?? WireLimits.defaultPull), WireLimits.largestPull),
            bytes: bytes,
            liveOnly: since == 0,
            keys: keys
        )
    }

    /// Returns the head at which the reader's first full read began, if known; 0 for a reader that
    /// has finished its first read.
    ///
    /// In its first read, a reader has no records that were deleted before the read began, so it
    /// misses nothing if those deletions are forgotten in the meantime.
    func begunAt(_ head: Int64) -> Int64 {
        if query.after == 0 { return head }
        let known = min(request.horizon ?? 0, head)
        return query.after < known ? known : 0
    }

    /// Examines the result of the query.
    ///
    /// - Returns: Whether the slice is sufficient; otherwise ``query`` is the next query.
    /// - Throws: `not_found` if the account is gone.
    mutating func examine(_ slice: FeedSlice) throws(Problem) -> Bool {
        guard !isSecond else { return true }
        isSecond = true
        guard let balance = slice.loaded.balance(query.account) else { throw .noAccount }
        let horizon = slice.loaded.feed(query.account)?.horizon ?? 0
        let since = query.after
        let missed = since > 0 && since < horizon && request.horizon ?? 0 < horizon
        let isOther = request.epoch.map { $0 != epoch } ?? false
        isReset = missed || isOther || since > balance.head
        // A reader that sends no horizon would be reset repeatedly if a page ended before the
        // horizon.
        query.least = (isReset || since == 0) && request.horizon == nil ? horizon : 0
        guard isReset || (slice.hasMore && slice.records.last?.through ?? 0 < query.least) else {
            return true
        }
        query.after = 0
        query.liveOnly = true
        return false
    }
}
