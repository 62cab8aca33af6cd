import SanguineModel
import Synchronization

/// What the client tells the keepers of its lists.
protocol AnyPagesKeeper: AnyObject, Sendable {
    /// Another user is there, or none.
    func userChanged()
    /// The client is closed.
    func close()
}

/// The keepers of the lists that somebody uses, one for each list.
///
/// Mutable state: `guarded`, by its mutex, which is held over no call of a keeper. Keepers are not
/// kept alive: what they know is in the cache when they go.
final class PagesRegistry: Sendable {
    private struct Weak: Sendable {
        weak let keeper: (any AnyPagesKeeper)?
    }

    private struct Guarded {
        var keepers: [QueryKey: Weak] = [:]
        /// How many may stand there before those that have gone are swept out.
        var sweepAt = 64
        var isClosed = false
    }

    private let guarded = Mutex(Guarded())

    /// The keeper of the list; made if there is none.
    ///
    /// Two lists of one name and different types do not share one: the cache then tells both.
    func keeper<Item>(of pages: Pages<Item>, in queries: QueryCache) -> PagesKeeper<Item> {
        let keeper = guarded.withLock { guarded -> PagesKeeper<Item> in
            if let known = guarded.keepers[pages.key]?.keeper as? PagesKeeper<Item> { return known }
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
        keeper.restore()
        return keeper
    }

    func userChanged() {
        for keeper in live() { keeper.userChanged() }
    }

    func close() {
        guarded.withLock { $0.isClosed = true }
        for keeper in live() { keeper.close() }
    }

    private func live() -> [any AnyPagesKeeper] {
        guarded.withLock { $0.keepers.values.compactMap(\.keeper) }
    }
}
