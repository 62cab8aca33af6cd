import SanguineModel

/// What must be read of a feed to answer a reader, one query after the other.
///
/// A reader who has missed deletions that were forgotten, knows of more than there is, or comes
/// from another epoch, begins afresh: that turns out with the first slice, and needs another.
struct FeedRead: Sendable {
    /// What is to be read next.
    private(set) var query: FeedQuery
    /// Whether the reader must forget its records first.
    private(set) var isReset = false
    /// The operations that the reader asks about.
    let operations: [Identifier]?
    /// The epoch of the storage that is read.
    let epoch: Epoch

    private let request: Authority.PullRequest
    private var isSecond = false

    /// Begins a read.
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

    /// The head when the reader began, as far as it is known; 0 unless it is on its way from the
    /// start.
    ///
    /// The reader has none of the records that were deleted before, so it misses nothing if those
    /// deletions are forgotten while it is on its way.
    func begunAt(_ head: Int64) -> Int64 {
        if query.after == 0 { return head }
        let told = min(request.horizon ?? 0, head)
        return query.after < told ? told : 0
    }

    /// Takes what the query has found.
    ///
    /// - Returns: Whether that is enough; if not, ``query`` says what to read instead.
    /// - Throws: `not_found` if the account is gone.
    mutating func take(_ slice: FeedSlice) throws(Problem) -> Bool {
        guard !isSecond else { return true }
        isSecond = true
        guard let balance = slice.loaded.balance(query.account) else { throw .noAccount }
        let horizon = slice.loaded.feed(query.account)?.horizon ?? 0
        let since = query.after
        let missed = since > 0 && since < horizon && request.horizon ?? 0 < horizon
        let isOther = request.epoch.map { $0 != epoch } ?? false
        isReset = missed || isOther || since > balance.head
        // A reader that says nothing of the horizon would be sent back to the start again and again
        // if a page ended before it.
        query.least = (isReset || since == 0) && request.horizon == nil ? horizon : 0
        guard isReset || (slice.hasMore && slice.records.last?.through ?? 0 < query.least) else {
            return true
        }
        query.after = 0
        query.liveOnly = true
        return false
    }
}
