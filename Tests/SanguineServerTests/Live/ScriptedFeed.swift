import SanguineModel
import Synchronization

@testable import SanguineServer

/// Feeds in memory, whose reads are counted and can be kept back.
final class ScriptedFeed: FeedReading {
    private struct State {
        var changes: [RecordChange] = []
        var head: Int64 = 0
        var horizon: Int64?
        var reads = 0
        var isHolding = false
        var held: [CheckedContinuation<Void, Never>] = []
        var watchers: [(reads: Int, continuation: AsyncStream<Never>.Continuation)] = []
        var failure: Problem?
    }

    private let state = Mutex(State())

    /// How often it was read.
    var reads: Int { state.withLock { $0.reads } }

    /// Changes so many records in one operation; returns the new head.
    @discardableResult
    func commit(_ count: Int = 1, bytes: Int = 1) -> Int64 {
        state.withLock { state in
            let through = state.head + Int64(count)
            for _ in 0..<count {
                state.head += 1
                state.changes.append(Self.change(state.head, through: through, bytes: bytes))
            }
            return state.head
        }
    }

    /// Forgets deletions up to a number.
    func forget(through horizon: Int64) { state.withLock { $0.horizon = horizon } }

    /// Takes a number that no record has.
    func skip() { state.withLock { $0.head += 1 } }

    /// Fails each read, or none.
    func fail(_ problem: Problem?) { state.withLock { $0.failure = problem } }

    /// Keeps reads back from now on.
    func hold() { state.withLock { $0.isHolding = true } }

    /// Returns when it was read so often, or the test is over.
    func wait(forReads count: Int) async {
        let (came, continuation) = AsyncStream.makeStream(of: Never.self)
        let isThere = state.withLock { state in
            if state.reads < count { state.watchers.append((count, continuation)) }
            return state.reads >= count
        }
        if isThere { continuation.finish() }
        for await _ in came {}
    }

    /// Lets reads go on.
    func release() {
        let held = state.withLock { state in
            state.isHolding = false
            defer { state.held = [] }
            return state.held
        }
        for reader in held { reader.resume() }
    }

    static func change(_ seq: Int64, through: Int64, bytes: Int = 1) -> RecordChange {
        RecordChange(
            collection: "notes",
            id: RecordID("n\(seq)") ?? RecordID(Identifier.new()),
            seq: seq,
            through: through == seq ? nil : through,
            value: ["text": .string(String(repeating: "a", count: bytes))]
        )
    }

    func read(
        _ account: Identifier,
        after position: FeedPosition,
        limit: Int
    ) async throws(Problem) -> FeedPart {
        await withCheckedContinuation { continuation in
            let (isHeld, satisfied) = state.withLock { state in
                state.reads += 1
                if state.isHolding { state.held.append(continuation) }
                let satisfied = state.watchers.filter { $0.reads <= state.reads }
                state.watchers.removeAll { $0.reads <= state.reads }
                return (state.isHolding, satisfied)
            }
            for watcher in satisfied { watcher.continuation.finish() }
            if !isHeld { continuation.resume() }
        }
        return try state.withLock { state throws(Problem) in
            if let failure = state.failure { throw failure }
            return part(state, after: position, limit: limit)
        }
    }

    private func part(_ state: State, after position: FeedPosition, limit: Int) -> FeedPart {
        let isKnown = position.horizon == state.horizon || position.number == 0
        let missed = !isKnown && position.number < state.horizon ?? 0
        let isReset = missed || position.number > state.head
        let since = isReset ? 0 : position.number
        let left = state.changes.filter { $0.seq > since }
        var page = Array(left.prefix(limit))
        let end = page.last.map { $0.through ?? $0.seq } ?? since
        page = left.filter { $0.seq <= end }
        let hasMore = page.count < left.count
        let answer = PullAnswer(
            changes: page,
            next: hasMore ? end : state.head,
            head: state.head,
            hasMore: hasMore,
            reset: isReset
        )
        return FeedPart(answer: answer, horizon: state.horizon)
    }
}

extension Identifier {
    /// An identifier that no other test has.
    static func new() -> Identifier { Identifier(at: SystemWallClock().now()) }
}
