import SanguineModel
import Synchronization

/// The source of an entry that is fetched in parts, as the cache sees it.
protocol PartedSource: AnyObject, Sendable {
    /// Switches to another user or to none.
    ///
    /// - Returns: Work that the caller must do with no lock held.
    func switchUser(to user: CacheScope, device: CacheScope?) -> Delivery

    /// Whether a part is being fetched.
    var isUnderWay: Bool { get }

    /// Ends all requests: the client is closed.
    func close()
}

/// The sources of the entries that are fetched in parts, one for each key and type.
///
/// With two types under one key the cache notifies both, but only one of them gets values.
///
/// A source is kept alive by its users, by its requests, and by this table if it was used recently.
///
/// Mutable state: `guarded`, protected by its mutex, which is held neither during a call to a
/// source nor while one is released.
final class PartedSources: Sendable {
    private struct Weak {
        weak let source: (any PartedSource)?
    }

    private struct Slot: Hashable {
        let key: QueryKey
        let type: ObjectIdentifier
    }

    private struct Guarded {
        var sources: [Slot: Weak] = [:]
        /// The sources that were used last, the latest at the end.
        var recent: [any PartedSource] = []
        /// The size at which released sources are removed from the table.
        var sweepAt: Int
        /// The current user's cache scope.
        var user: CacheScope?
        /// The replacement of the device's cache scope, if any.
        var device: CacheScope?
        var isClosed = false

        /// Records a use; returns the source that is no longer kept alive.
        mutating func use(
            _ source: any PartedSource,
            _ slot: Slot,
            _ limit: Int
        ) -> (any PartedSource)? {
            guard recent.last !== source else { return nil }
            if sources[slot]?.source !== source {
                sources[slot] = Weak(source: source)
                if sources.count > sweepAt {
                    sources = sources.filter { $0.value.source != nil }
                    sweepAt = max(limit * 2, sources.count * 2)
                }
            }
            guard !isClosed else { return nil }
            recent.removeAll { $0 === source }
            recent.append(source)
            return recent.count > limit ? recent.removeFirst() : nil
        }
    }

    private let limit: Int
    private let guarded: Mutex<Guarded>

    /// - Parameter limit: The number of sources that are kept alive without a user.
    init(limit: Int) {
        self.limit = limit
        guarded = Mutex(Guarded(sweepAt: limit * 2))
    }

    /// Returns the source of that key, and creates it if there is none.
    func source<Source: PartedSource>(_ key: QueryKey, _ make: () -> Source) -> Source {
        if let known: Source = find(key) { return known }
        let made = make()
        // Another thread may have created one in the meantime.
        let source = find(key, or: made) ?? made
        let (user, device, isClosed) = guarded.withLock { ($0.user, $0.device, $0.isClosed) }
        // It may have been created for the previous user.
        if let user { source.switchUser(to: user, device: device)() }
        if isClosed { source.close() }
        return source
    }

    private func find<Source: PartedSource>(_ key: QueryKey, or made: Source? = nil) -> Source? {
        let slot = Slot(key: key, type: ObjectIdentifier(Source.self))
        let (found, released) = guarded.withLock { guarded in
            let found = guarded.sources[slot]?.source as? Source ?? made
            return (found, found.flatMap { guarded.use($0, slot, limit) })
        }
        withExtendedLifetime(released) {}  // Released here, with no lock held.
        return found
    }

    /// The number of live sources, for tests.
    var count: Int { live.count }

    /// Whether a part of any of them is being fetched.
    var isUnderWay: Bool { live.contains(where: \.isUnderWay) }

    private var live: [any PartedSource] {
        guarded.withLock { $0.sources.values.compactMap(\.source) }
    }

    /// Switches to another user; no data of the previous one stays.
    ///
    /// - Parameters:
    ///   - user: The other user's cache scope.
    ///   - device: The device's new cache scope; `nil` if it stays.
    /// - Returns: Work that the caller must do with no lock held.
    func switchUser(to user: CacheScope, device: CacheScope?) -> Delivery {
        guarded.withLock { guarded in
            guarded.user = user
            if let device { guarded.device = device }
        }
        let endings = live.map { $0.switchUser(to: user, device: device) }
        return { for ending in endings { ending() } }
    }

    /// Ends all requests; sources created later are closed.
    func close() {
        let released = guarded.withLock { guarded in
            guarded.isClosed = true
            defer { guarded.recent = [] }
            return guarded.recent
        }
        for source in live { source.close() }
        withExtendedLifetime(released) {}
    }
}
