import Synchronization

extension SanguineClient {
    /// Descriptions of the client's work in progress; empty if there is none.
    ///
    /// Tests use this to wait for its end. Work that waits for a clock is not included, nor are a
    /// live connection and calls that a caller awaits.
    package var underWay: [String] {
        let (entries, user) = (queries.entries, users.current)
        var work = entries.fetching.map { "a fetch of \($0.text)" }
        let lists = queries.lists.isUnderWay || queries.ranges.isUnderWay
        let parts: [(Bool, String)] = [
            (lists, "a part of a list or range"),
            (user.outbox.isSending, "operations"),
            (user.functions.isSending, "a call without a waiting caller"),
            (user.mutations.settling.isFetching, "a refetch of what operations changed"),
            (user.feed.isPulling, "a pull of the feed"),
            (user.feed.isWaitingForEcho, "operations whose changes the live feed has not sent"),
            (entries.isTelling, "notifications of observers"),
            (entries.isWriting, "writes to disk"),
        ]
        work += parts.filter(\.0).map(\.1)
        return work
    }
}
