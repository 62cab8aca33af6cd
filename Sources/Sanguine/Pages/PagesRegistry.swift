import SanguineModel
import Synchronization

/// What the client tells the keepers of its lists.
protocol AnyPagesKeeper: AnyObject, Sendable {
    /// Another user is there, or none.
    func change(to user: Partition)
    /// Makes what operations have done a part of the rows.
    func fold()
    /// The effects on the rows are others.
    func effectsChanged()
    /// The client is closed.
    func close()
}

/// The keepers of the lists that somebody uses, one for each list.
///
/// Those used last are kept alive, so that a list that no view shows goes on where it was. When
/// another goes, the cache has what can be stored of it.
///
/// Mutable state: `guarded`, by its mutex, which is held over no call of a keeper, and not while
/// one goes.
final class PagesRegistry: Sendable {
    private struct Weak: Sendable {
        weak let keeper: (any AnyPagesKeeper)?
    }

    private struct Guarded {
        var keepers: [QueryKey: Weak] = [:]
        /// The keepers used last, the latest at the end.
        var recent: [any AnyPagesKeeper] = []
        /// How many may stand there before those that have gone are swept out.
        var sweepAt = 64
        var isClosed = false

        /// Keeps a keeper alive.
        ///
        /// - Returns: The one that is let go for it.
        mutating func touch(_ keeper: any AnyPagesKeeper) -> (any AnyPagesKeeper)? {
            guard recent.last !== keeper, !isClosed else { return nil }
            recent.removeAll { $0 === keeper }
            recent.append(keeper)
            return recent.count > PageLimits.listsKept ? recent.removeFirst() : nil
        }
    }

    private let guarded = Mutex(Guarded())

    /// The keeper of the list; made if there is none.
    ///
    /// Two lists of one name and different types do not share one: the cache then tells both.
    func keeper<Item>(of pages: Pages<Item>, in queries: QueryCache) -> PagesKeeper<Item> {
        let (keeper, released) = guarded.withLock { guarded in
            let keeper = guarded.keepers[pages.key]?.keeper as? PagesKeeper<Item>
            let found = keeper ?? make(pages, queries, in: &guarded)
            return (found, guarded.touch(found))
        }
        withExtendedLifetime(released) {}
        keeper.restore()
        return keeper
    }

    /// Another user is there: nothing of the former one stays.
    func change(to user: Partition) {
        for keeper in live() { keeper.change(to: user) }
    }

    func close() {
        let released = guarded.withLock { guarded in
            guarded.isClosed = true
            defer { guarded.recent = [] }
            return guarded.recent
        }
        for keeper in live() { keeper.close() }
        withExtendedLifetime(released) {}
    }

    private func make<Item>(
        _ pages: Pages<Item>,
        _ queries: QueryCache,
        in guarded: inout Guarded
    ) -> PagesKeeper<Item> {
        let keeper = PagesKeeper(
            pages,
            queries: queries,
            registry: self,
            isClosed: guarded.isClosed
        )
        guarded.keepers[pages.key] = Weak(keeper: keeper)
        if guarded.keepers.count > guarded.sweepAt {
            guarded.keepers = guarded.keepers.filter { $0.value.keeper != nil }
            guarded.sweepAt = max(64, guarded.keepers.count * 2)
        }
        return keeper
    }

    private func live() -> [any AnyPagesKeeper] {
        guarded.withLock { $0.keepers.values.compactMap(\.keeper) }
    }
}
