import SanguineModel

/// How far a reader of a feed is.
struct FeedPosition: Hashable, Sendable {
    /// The number up to which the reader has everything; 0 at first.
    var number: Int64
    /// The number up to which deletions are not known any more, as the reader was told last.
    var horizon: Int64?
    /// The epoch that the reader has named; `nil` once it has read, or if it has named none.
    ///
    /// A page that begins in another epoch is a reset.
    var epoch: Epoch?
}

/// Reads an account's feed: the one way, for those who pull and those who are connected.
protocol FeedReading: Sendable {
    /// Reads what comes after a position, as a pull does.
    ///
    /// - Throws: `not_found` if the account is gone; `overloaded` or `internal_fault` if the
    ///   storage cannot be read.
    func read(
        _ account: Identifier,
        after position: FeedPosition,
        limit: Int
    ) async throws(Problem) -> FeedPart
}

/// A part of a feed.
struct FeedPart: Sendable {
    var answer: PullAnswer
    /// The horizon, as of the same moment; `nil` if all deletions are known.
    var horizon: Int64?
}
