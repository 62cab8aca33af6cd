import SanguineModel
import SanguineTesting

@testable import SanguineServer

/// Feeds in memory that count their reads and can delay them.
final class ScriptedFeed: FeedReading {
    /// The time whose state a delayed read returns.
    enum Moment {
        case asOfTheirBeginning
        case asOfTheRelease
    }

    private struct State {
        var changes: [RecordChange] = []
        var head: Int64 = 0
        var horizon: Int64?
        var reads = 0
        var holding: Moment?
        var failure: Problem?
        var announced: [String] = []
    }

    private let state = WatchedState(State())

    /// The number of reads.
    var reads: Int { state.withLock { $0.reads } }

    /// The collections whose changed lists readers were told of, in order.
    var announced: [String] { state.withLock { $0.announced } }

    func announceLists(of collections: [String]) {
        state.withLock { $0.announced += collections.sorted() }
    }

    /// Changes the given number of records in one operation and returns the new head.
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

    /// Uses a number for no record.
    func skip() { state.withLock { $0.head += 1 } }

    /// Fails every read, or none.
    func fail(_ problem: Problem?) { state.withLock { $0.failure = problem } }

    /// Delays later reads.
    func hold(answering moment: Moment = .asOfTheRelease) {
        state.withLock { $0.holding = moment }
    }

    /// Waits for the given number of reads.
    func wait(forReads count: Int, line: Int = #line) async throws {
        try await state.wait(
            for: "\(count) reads",
            found: { "there were \($0.reads)" },
            line: line
        ) {
            $0.reads >= count
        }
    }

    /// Lets the delayed reads continue.
    func release() { state.withLock { $0.holding = nil } }

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
        let beginning = state.withLock { state in
            state.reads += 1
            return state
        }
        if beginning.holding != nil {
            do {
                try await state.wait(for: "the release of reads") { $0.holding == nil }
            } catch {
                throw Problem(.overloaded, "\(error)")
            }
        }
        let now = beginning.holding == .asOfTheirBeginning ? beginning : state.value
        if let failure = now.failure { throw failure }
        return part(now, after: position, limit: limit)
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
    /// Returns a unique identifier.
    static func new() -> Identifier { Identifier(at: SystemWallClock().now()) }
}
