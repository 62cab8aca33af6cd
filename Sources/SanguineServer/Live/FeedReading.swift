import SanguineModel

/// The position of a reader in a feed.
struct FeedPosition: Hashable, Sendable {
    /// The number of the last change that the reader has; initially 0.
    var number: Int64
    /// The horizon last sent to the reader: deletions up to this number are no longer known.
    var horizon: Int64?
    /// The epoch that the reader specified; `nil` if it specified none, or once it has read.
    ///
    /// A page of another epoch starts with a reset.
    var epoch: Epoch?
    /// The revision of the switches that the reader has; `nil` if it specified none and has not
    /// read yet.
    var config: Int64?
}

/// Reads an account's feed, for pulls and for live connections alike.
protocol FeedReading: Sendable {
    /// Reads the changes after a position, like a pull.
    ///
    /// - Throws: `not_found` if the account no longer exists; `overloaded` or `internal_fault` if
    ///   the storage cannot be read.
    func read(
        _ account: Identifier,
        after position: FeedPosition,
        limit: Int
    ) async throws(Problem) -> FeedPart

    /// Prepares for readers that are notified now of changed lists of the collections.
    ///
    /// They request the lists at once, and must get all changes so far.
    func announceLists(of collections: [String])
}

/// A part of a feed.
struct FeedPart: Sendable {
    var answer: PullAnswer
    /// The horizon at the same time; `nil` if all deletions are known.
    var horizon: Int64?
    /// The revision of the switches that the reader has afterwards.
    var config: Int64?
}
