import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// The shell around data that is loaded in parts, with a core that counts.
@Suite("Parts", .bounded)
struct PartFetcherTests {
    private let query = ValueQuery<Int>("counted", policy: .forever) { _ in 0 }
    private let test: TestClient
    private let parts: PartFetcher<Counting>

    init() throws {
        test = try TestClient()
        parts = PartFetcher(Counting(), of: query.key, query.policy, in: test.client.queries)
    }

    /// Starts a task that waits for the count to increase.
    private func waiting(
        _ body: @escaping @Sendable () -> Int = { 0 }
    ) async throws -> Task<Int, any Error> {
        let caller = Task { [parts] in
            try await parts.wait(prepare, join: join)
            return body()
        }
        try await eventually("the caller waits") { parts.withState { !$0.waiters.isEmpty } }
        return caller
    }

    @Test func `a plan for a base that has changed in the meantime is prepared again`() {
        var seen: [Int] = []
        let isDone = parts.transact { state -> Int in
            seen.append(state.count)
            if seen.count == 1 { parts.apply { $0.rise() } }
            return state.count
        } event: { state, seen in
            state.count = seen + 10
            return Counting.Actions(hasNewBase: true)
        }

        #expect(isDone)
        #expect(seen == [0, 1])
        #expect(parts.withState { $0.count } == 11)
    }

    @Test func `a caller is answered after the entry's observers are notified`() async throws {
        let reported = Mutex(0)
        let observer = TypedEntry<Int>.Observer(
            tell: { [parts] _ in
                let count = parts.withState { $0.count }
                reported.withLock { $0 = count }
            },
            finish: {}
        )
        _ = try await test.client.value(of: query)
        let number = try #require(test.client.queries.observe(query, observer))
        let caller = try await waiting { reported.withLock { $0 } }
        parts.apply { $0.rise() }

        #expect(try await caller.finished() == 1)
        test.client.queries.unobserve(query, number)
    }

    @Test func `a caller that cancels is answered, and others keep waiting`() async throws {
        let first = try await waiting()
        let second = try await waiting()
        first.cancel()
        await #expect(throws: SanguineError.cancelled) { try await first.finished() }
        #expect(parts.withState { $0.waiters.count } == 1)
        parts.apply { $0.rise() }

        _ = try await second.finished()
    }

    @Test func `a change of user empties the state at once and answers callers afterwards`()
        async throws
    {
        let caller = try await waiting()
        parts.apply(for: parts.cacheScope) { state in
            state.count = 7
            return nil
        }
        let former = parts.cacheScope
        let next = CacheScope(
            store: former.store,
            attempts: former.attempts,
            queue: BackgroundQueue("test")
        )
        let ending = parts.switchUser(to: next, device: nil)
        #expect(parts.withState { $0.count } == 0)
        #expect(!parts.apply(for: former) { $0.rise() })
        ending()

        await #expect(throws: SanguineError.userChanged) { try await caller.finished() }
    }

    @Test func `closing the client ends all waits`() async throws {
        let caller = try await waiting()
        parts.close()

        await #expect(throws: SanguineError.closed) { try await caller.finished() }
        let late = Task { [parts] in try await parts.wait(prepare, join: join) }
        await #expect(throws: SanguineError.closed) { try await late.finished() }
    }
}

private func prepare(_ state: Counting) {}

private func join(_ state: inout Counting, _ plan: Void, _ waiter: UInt64) -> Counting.Actions {
    state.join(waiter)
}

/// A count; waiting callers are answered when it increases.
private struct Counting: PartFetchState {
    struct Request: PartRequest {
        var number: UInt64
        var priority = FetchPriority.normal
    }

    typealias Actions = PartFetchActions<Request>

    var count = 0
    private(set) var waiters: Set<UInt64> = []

    mutating func join(_ waiter: UInt64) -> Actions {
        waiters.insert(waiter)
        return Actions()
    }

    mutating func rise() -> Actions {
        defer { waiters = [] }
        count += 1
        return Actions(hasNewBase: true, answer: waiters.map { ($0, nil) })
    }

    mutating func leave(waiter: UInt64) -> Actions {
        guard waiters.remove(waiter) != nil else { return Actions() }
        return Actions(answer: [(waiter, .cancelled)])
    }

    mutating func reset(_ error: SanguineError) -> Actions {
        defer { (count, waiters) = (0, []) }
        return Actions(hasNewBase: true, answer: waiters.map { ($0, error) })
    }
}
