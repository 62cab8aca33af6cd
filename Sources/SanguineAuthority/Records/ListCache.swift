import SanguineModel
import Synchronization

/// The pages of lists that many accounts read: one read of the storage for all that ask at the same
/// time, and none until a commit changes the collection.
///
/// Mutable state: `state`, guarded by its mutex. A read runs in a task of its own, so that a reader
/// who leaves does not end it for the others.
final class ListCache: Sendable {
    private typealias Reading = Task<Result<SharedPage, Problem>, Never>

    private struct Guarded {
        var state: ListCacheState
        var readings: [ListCacheState.PendingRead: Reading] = [:]
    }

    private let guarded: Mutex<Guarded>
    private let clock: any WallClock

    init(limit: Int, clock: any WallClock) {
        guarded = Mutex(Guarded(state: ListCacheState(limit: max(0, limit))))
        self.clock = clock
    }

    /// The counts since the start.
    var counts: ListCacheState.Counts { guarded.withLock { $0.state.counts } }

    /// Records a commit, before it is acknowledged to the accounts.
    func committed(_ collections: Set<String>, by accounts: some Sequence<Identifier>) {
        guard !collections.isEmpty else { return }
        guarded.withLock { $0.state.versions.committed(collections, by: accounts) }
    }

    /// Records all commits of the collections so far as announced.
    ///
    /// Call it before readers are notified.
    func announce(_ collections: some Collection<String>) {
        guard !collections.isEmpty else { return }
        guarded.withLock { $0.state.versions.announce(collections) }
    }

    /// Records a commit with an unknown outcome.
    func anythingChanged() { guarded.withLock { $0.state.versions.anythingChanged() } }

    /// Returns a page for an account: one in memory, or the result of `read`.
    ///
    /// - Throws: The error of `read`, which is not stored.
    func page(
        _ key: SharedPageKey,
        for account: Identifier,
        read: @escaping @Sendable () async -> Result<SharedPage, Problem>
    ) async throws(Problem) -> SharedPage {
        let now = clock.now()
        let (page, reading) = guarded.withLock { guarded -> (SharedPage?, Reading?) in
            switch guarded.state.ask(key, for: account, at: now) {
            case .serve(let page): return (page, nil)
            case .join(let pending): return (nil, guarded.readings[pending])
            case .read(let pending): return (nil, start(pending, of: key, &guarded, read))
            }
        }
        if let page { return page }
        guard let reading else { preconditionFailure("A pending read has its task until it ends.") }
        return try await reading.value.get()
    }

    private func start(
        _ pending: ListCacheState.PendingRead,
        of key: SharedPageKey,
        _ guarded: inout Guarded,
        _ read: @escaping @Sendable () async -> Result<SharedPage, Problem>
    ) -> Reading {
        let reading = Reading { [self] in
            let result = await read()
            let (page, now) = (try? result.get(), clock.now())
            self.guarded.withLock { guarded in
                guarded.state.ended(pending, of: key, with: page, at: now)
                guarded.readings[pending] = nil
            }
            return result
        }
        guarded.readings[pending] = reading
        return reading
    }
}

extension Authority {
    /// The counts of the lists that many accounts read, since the start.
    package struct ListCacheCounts: Hashable, Sendable {
        /// Pages served from memory.
        package let hits: UInt64
        /// Pages served from memory that missed a commit while they were being read again.
        package let stale: UInt64
        /// Reads of the storage.
        package let misses: UInt64
        /// Pages that waited for another reader's read.
        package let shared: UInt64
        /// The size of the pages in memory, in bytes.
        package let bytes: Int
    }

    /// Records that readers are notified now of changed lists of the collections.
    ///
    /// Later reads return pages with all commits so far.
    package func announceLists(of collections: some Collection<String>) {
        lists.announce(collections)
    }

    /// The counts of the lists that many accounts read.
    package var listCacheCounts: ListCacheCounts {
        let counts = lists.counts
        return ListCacheCounts(
            hits: counts.hits,
            stale: counts.stale,
            misses: counts.misses,
            shared: counts.shared,
            bytes: counts.bytes
        )
    }
}
