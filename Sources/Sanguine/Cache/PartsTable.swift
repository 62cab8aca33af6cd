import SanguineModel
import Synchronization

/// What brings the value of an entry in parts, as the cache knows it.
protocol PartedSource: AnyObject, Sendable {
    /// Another user is there, or none.
    ///
    /// - Returns: What is to be done under no lock.
    func change(to user: Partition, device: Partition?) -> Delivery

    /// Whether a part is being fetched.
    var isUnderWay: Bool { get }

    /// The client is closed.
    func close()
}

/// The sources of the entries that come in parts, one for each key and type.
///
/// Of two types under one key the cache tells both: only one of them gets values.
///
/// Whoever uses a source, and its flights, keep it alive; and so does this table with those that
/// were used last.
///
/// Mutable state: `guarded`, by its mutex, which is held over no call of a source, and not while
/// one goes.
final class PartsTable: Sendable {
    private struct Weak {
        weak let source: (any PartedSource)?
    }

    private struct Slot: Hashable {
        let key: QueryKey
        let type: ObjectIdentifier
    }

    private struct Guarded {
        var sources: [Slot: Weak] = [:]
        /// Those used last, the latest at the end.
        var recent: [any PartedSource] = []
        /// How many may stand there before those that have gone are swept out.
        var sweepAt: Int
        /// Who is there now.
        var user: Partition?
        /// What has taken the place of the device's partition, if anything has.
        var device: Partition?
        var isClosed = false

        /// Returns the one that is let go.
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

    /// - Parameter limit: How many are kept alive that nobody may use at the moment.
    init(limit: Int) {
        self.limit = limit
        guarded = Mutex(Guarded(sweepAt: limit * 2))
    }

    /// The source of that key; made if there is none.
    func source<Source: PartedSource>(_ key: QueryKey, _ make: () -> Source) -> Source {
        if let known: Source = find(key) { return known }
        let made = make()
        // Another thread may have made one meanwhile.
        let source = find(key, or: made) ?? made
        let (user, device, isClosed) = guarded.withLock { ($0.user, $0.device, $0.isClosed) }
        // It may have been made for the user before.
        if let user { source.change(to: user, device: device)() }
        if isClosed { source.close() }
        return source
    }

    private func find<Source: PartedSource>(_ key: QueryKey, or made: Source? = nil) -> Source? {
        let slot = Slot(key: key, type: ObjectIdentifier(Source.self))
        let (found, released) = guarded.withLock { guarded in
            let found = guarded.sources[slot]?.source as? Source ?? made
            return (found, found.flatMap { guarded.use($0, slot, limit) })
        }
        withExtendedLifetime(released) {}  // Released here, under no lock.
        return found
    }

    /// How many live, for tests.
    var count: Int { live.count }

    /// Whether a part of any of them is being fetched.
    var isUnderWay: Bool { live.contains(where: \.isUnderWay) }

    private var live: [any PartedSource] {
        guarded.withLock { $0.sources.values.compactMap(\.source) }
    }

    /// Another user is there: nothing of the former one stays.
    ///
    /// - Parameters:
    ///   - user: The other user's partition.
    ///   - device: What takes the place of the device's; `nil` if that stays.
    /// - Returns: What is to be done under no lock.
    func change(to user: Partition, device: Partition?) -> Delivery {
        guarded.withLock { guarded in
            guarded.user = user
            if let device { guarded.device = device }
        }
        let endings = live.map { $0.change(to: user, device: device) }
        return { for ending in endings { ending() } }
    }

    /// Ends all that is under way; sources that are made from now on are closed.
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
