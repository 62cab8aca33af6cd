import SanguineModel
import Synchronization

/// The state that an account's live connections share: its head, current reads and recent pages.
///
/// Invariants:
///
/// 1. Each position has at most one read that is recent enough for new callers, however many
///    connections wait for it.
/// 2. A connection woken by a commit receives the result of a read that began after the commit.
///
/// Mutable state: `guarded`, protected by its mutex. Bounded by the connections, each of which
/// waits for one read, and by ``LivePages``.
final class LiveAccount: Sendable {
    private struct Read {
        let number: UInt64
        /// The newest committed number that was known when the read began.
        let head: Int64
        /// The number of changes of the switches when the read began.
        let switched: UInt64
        let task: Task<Result<LivePage, Problem>, Never>
    }

    private struct Guarded {
        var head: Int64 = 0
        /// The number of changes of the switches.
        var switched: UInt64 = 0
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

    /// The newest committed number that the account was notified of.
    var head: Int64 { guarded.withLock { $0.head } }

    /// The current connections.
    var connections: [LiveConnection] { guarded.withLock { Array($0.connections.values) } }

    /// Adds a connection, to be woken after commits.
    func enter(_ connection: LiveConnection) {
        guarded.withLock { $0.connections[ObjectIdentifier(connection)] = connection }
    }

    /// Removes a connection that ended.
    func remove(_ connection: LiveConnection) {
        guarded.withLock { _ = $0.connections.removeValue(forKey: ObjectIdentifier(connection)) }
    }

    /// Wakes the connections after a commit.
    ///
    /// Returns at once, because the client that made the change waits for it. Several commits
    /// before the connections are woken wake them once.
    func committed(_ head: Int64) {
        update { $0.head = max($0.head, head) }
    }

    /// Wakes the connections after a change of the switches.
    func switched() {
        update { guarded in
            guarded.switched += 1
            // They lead to positions with the former switches.
            guarded.pages = LivePages()
        }
    }

    private func update(_ body: (inout Guarded) -> Void) {
        let mustWake = guarded.withLock { guarded in
            body(&guarded)
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

    /// Returns the page after a position: a recent one, or one read now for all that wait for it.
    func page(after position: FeedPosition) async throws(Problem) -> LivePage {
        let (page, read) = guarded.withLock { guarded -> (LivePage?, Read?) in
            if let page = guarded.pages.page(after: position) { return (page, nil) }
            if let read = guarded.reads[position], read.head >= guarded.head,
                read.switched == guarded.switched
            {
                return (nil, read)
            }
            guarded.lastRead += 1
            let number = guarded.lastRead
            // In a separate task, so that a connection that ends does not cancel it for the others.
            let switched = guarded.switched
            let task = Task { [self] in
                await self.read(number, after: position, switched: switched)
            }
            let read = Read(number: number, head: guarded.head, switched: switched, task: task)
            guarded.reads[position] = read
            return (nil, read)
        }
        if let page { return page }
        guard let read else { preconditionFailure("A page exists, or is being read.") }
        return try await read.task.value.get()
    }

    private func read(
        _ number: UInt64,
        after position: FeedPosition,
        switched: UInt64
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
            guard guarded.switched == switched, case .success(let page) = result else { return }
            guarded.pages.add(page)
        }
        return result
    }
}
