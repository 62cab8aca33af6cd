import Synchronization

extension SanguineClient {
    /// What the client has on its way at this moment, in words; empty if there is nothing.
    ///
    /// For tests that wait for its end. What waits for a clock is not under way, nor is a live
    /// connection, nor a call whose caller awaits it.
    package var underWay: [String] {
        let (entries, user) = (queries.entries, users.present)
        var work = entries.fetching.map { "a fetch of \($0.text)" }
        let lists = queries.lists.isUnderWay || queries.stretches.isUnderWay
        let parts: [(Bool, String)] = [
            (lists, "a part of a list or range"),
            (user.outbox.isSending, "operations"),
            (user.functions.isSending, "a call that nobody awaits"),
            (user.mutations.settling.isFetching, "what operations have changed"),
            (user.feed.isPulling, "a pull of the feed"),
            (user.feed.isWaitingForEcho, "what operations have done, by the live feed"),
            (entries.isTelling, "news for observers"),
            (entries.isWriting, "values for the disk"),
        ]
        work += parts.filter(\.0).map(\.1)
        return work
    }
}

extension Entries {
    /// The keys of what is being fetched.
    fileprivate var fetching: [QueryKey] {
        guarded.withLock { $0.table.all.filter(\.state.isFetching).map(\.key) }
    }

    /// Whether observers are still to be told something.
    fileprivate var isTelling: Bool { guarded.withLock { !$0.deliveries.isIdle } }

    /// Whether values wait for the disk.
    fileprivate var isWriting: Bool {
        guarded.withLock { $0.writers }.contains(where: \.isWriting)
    }
}
