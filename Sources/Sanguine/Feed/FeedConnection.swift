import SanguineModel

/// What a live connection delivers at once: changes that belong together.
struct FeedGroup: Sendable {
    /// The number after which it begins.
    let since: Int64
    /// The number that it leads to.
    let next: Int64
    let changes: [RecordChange]
    /// Whether the reader must begin anew.
    let isReset: Bool
}

/// Follows the feed live, in place of polling.
protocol FeedConnection: Sendable {
    /// Follows the feed from a number on until the task is cancelled or the connection ends.
    ///
    /// - Parameters:
    ///   - position: The number that the reader has reached.
    ///   - epoch: For whom.
    ///   - receive: Is called with each group, in their order, and with an empty one as soon as the
    ///     connection stands.
    /// - Throws: ``SanguineError`` if there is no connection, or it broke.
    func follow(
        after position: Int64,
        for epoch: SessionEpoch,
        _ receive: @Sendable (FeedGroup) -> Void
    ) async throws(SanguineError)
}
