import SanguineModel
import Synchronization

/// What the live connections of one account share: its head, the reads under way, the last pages.
///
/// Invariants:
///
/// 1. At any time there is at most one read for each position that is new enough for whoever comes,
///    however many connections wait for it.
/// 2. Whoever is told of a commit is answered by a read that began after it.
///
/// Mutable state: `guarded`, by its mutex. Bounded by the connections, each of which waits for one
/// read, and by ``LivePages``.
final class LiveAccount: Sendable {
    private struct Read {
        let number: UInt64
        /// What was known to be committed when it began.
        let head: Int64
        let task: Task<Result<LivePage, Problem>, Never>
    }

    private struct Guarded {
        var head: Int64 = 0
        var isWaking = false
        var connections: [ObjectIdentifier: LiveConnection] = [:]
        var reads: [FeedPosition: Read] = [:]
        var lastRead: UInt64 = 0
        var pages = LivePages()
    }

    let id: Identifier
    private let feed: any FeedReading
    private let guarded = Mutex(Guarded())

    init(_ id: Identifier, feed: any FeedReading) {
        self.id = id
        self.feed = feed
    }

    /// The newest number of which the account was told.
    var head: Int64 { guarded.withLock { $0.head } }

    /// Those that are connected.
    var connections: [LiveConnection] { guarded.withLock { Array($0.connections.values) } }

    /// A connection wants to be woken from now on.
    func enter(_ connection: LiveConnection) {
        guarded.withLock { $0.connections[ObjectIdentifier(connection)] = connection }
    }

    /// A connection has ended.
    func leave(_ connection: LiveConnection) {
        guarded.withLock { _ = $0.connections.removeValue(forKey: ObjectIdentifier(connection)) }
    }

    /// Something was committed.
    ///
    /// Returns at once: whoever has asked for the change waits for it. Commits that come before the
    /// connections are woken wake them once.
    func committed(_ head: Int64) {
        let mustWake = guarded.withLock { guarded in
            guarded.head = max(guarded.head, head)
            guard !guarded.isWaking, !guarded.connections.isEmpty else { return false }
            guarded.isWaking = true
            return true
        }
        if mustWake { Task { wake() } }
    }

    private func wake() {
        let woken = guarded.withLock { guarded in
            guarded.isWaking = false
            return Array(guarded.connections.values)
        }
        for connection in woken { connection.wake() }
    }

    /// What comes after a position: a page that is known, or one that is read now, once for all.
    func page(after position: FeedPosition) async throws(Problem) -> LivePage {
        let (page, read) = guarded.withLock { guarded -> (LivePage?, Read?) in
            if let page = guarded.pages.page(after: position) { return (page, nil) }
            if let read = guarded.reads[position], read.head >= guarded.head { return (nil, read) }
            guarded.lastRead += 1
            let number = guarded.lastRead
            // In a task of its own: a connection that ends takes nothing from the others.
            let task = Task { [self] in await self.read(number, after: position) }
            let read = Read(number: number, head: guarded.head, task: task)
            guarded.reads[position] = read
            return (nil, read)
        }
        if let page { return page }
        guard let read else { preconditionFailure("There is a page, or a read for it.") }
        return try await read.task.value.get()
    }

    private func read(
        _ number: UInt64,
        after position: FeedPosition
    ) async -> Result<LivePage, Problem> {
        let result: Result<LivePage, Problem>
        do throws(Problem) {
            let part = try await feed.read(id, after: position, limit: LiveLimits.sharedEvents)
            result = .success(LivePage(part, after: position))
        } catch {
            result = .failure(error)
        }
        guarded.withLock { guarded in
            if guarded.reads[position]?.number == number { guarded.reads[position] = nil }
            if case .success(let page) = result { guarded.pages.add(page) }
        }
        return result
    }
}
