import Synchronization

extension SanguineClient {
    /// Descriptions of the client's work in progress; empty if there is none.
    ///
    /// Tests use this to wait for its end. Work that waits for a clock is not included, nor are a
    /// live connection and calls that a caller awaits.
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
    /// The keys that are being fetched.
    fileprivate var fetching: [QueryKey] {
        guarded.withLock { $0.table.all.filter(\.state.isFetching).map(\.key) }
    }

    /// Whether notifications of observers are pending.
    fileprivate var isTelling: Bool { guarded.withLock { !$0.deliveries.isIdle } }

    /// Whether values are to be written to disk.
    fileprivate var isWriting: Bool {
        guarded.withLock { $0.writers }.contains(where: \.isWriting)
    }
}
