import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Records the snapshots that an observer of a list receives.
///
/// Mutable state: the snapshots, protected by a mutex.
private final class ObservedList: Sendable {
    let source: ListSource<FeedRow>
    private let seen = Mutex<[ListSnapshot<FeedRow>]>([])
    private let end = Mutex<(@Sendable () -> Void)?>(nil)
    /// Called once, with the first rows.
    private let hook = Mutex<(@Sendable () -> Void)?>(nil)

    init(_ client: SanguineClient) {
        source = client.queries.source(of: ListQuery.feed("a"))
    }

    deinit { end.withLock { $0 }?() }

    var snapshots: [ListSnapshot<FeedRow>] { seen.withLock { $0 } }

    /// Runs the closure when the first rows arrive, before their fetch has finished.
    func atFirstRows(_ body: @escaping @Sendable () -> Void) { hook.withLock { $0 = body } }

    func begin() {
        let observer = ListSource<FeedRow>.Observer(
            tell: { [weak self] _ in
                guard let snapshot = self?.source.snapshot() else { return }
                self?.seen.withLock { $0.append(snapshot) }
                if !snapshot.items.isEmpty { self?.hook.withLock { $0.take() }?() }
            },
            finish: {}
        )
        let end = source.observe(observer)
        self.end.withLock { $0 = end }
    }

    /// Returns the first snapshot with that number of rows.
    func first(rows: Int) -> ListSnapshot<FeedRow>? { snapshots.first { $0.items.count == rows } }
}

@Suite("Phases of an observed list", .bounded)
struct ListPhaseTests {
    private let server = FeedServer()

    @Test func `the first snapshot with rows is ready and has a timestamp`() async throws {
        let test = try TestClient(network: server.network())
        let list = ObservedList(test.client)
        list.begin()
        try await eventually("the rows are shown") { list.snapshots.last?.phase == .ready }

        let first = try #require(list.first(rows: 20))
        #expect(first.phase == .ready)
        #expect(first.asOf == test.wall.now())
    }

    @Test func `the first snapshot with refreshed rows is ready and has the new timestamp`()
        async throws
    {
        let test = try TestClient(network: server.network())
        try await test.client.value(of: .feed("a"))
        let list = ObservedList(test.client)
        list.begin()
        server.change { $0.delete(0) }
        test.wall.advance(by: .seconds(5))
        try await test.client.refresh(.feed("a"))
        try await eventually("the refresh has ended") {
            list.snapshots.last?.asOf == test.wall.now() && list.snapshots.last?.phase == .ready
        }

        let shown = list.snapshots
        let ids = server.ids
        let fresh = try #require(shown.first { $0.items.first?.id == ids.first })
        #expect(fresh.phase == .ready)
        #expect(fresh.asOf == test.wall.now())
        #expect(shown.contains { $0.phase == .refreshing })
    }

    @Test func `the first snapshot with an error is no longer loading`() async throws {
        let test = try TestClient(network: server.network())
        test.network.script(.status(404))
        let list = ObservedList(test.client)
        list.begin()
        try await eventually("the load has failed") { list.snapshots.last?.phase == .failed }

        #expect(list.snapshots.first { $0.error != nil }?.phase == .failed)
    }

    @Test func `a list that is invalidated while it loads keeps refreshing`() async throws {
        let test = try TestClient(network: server.network())
        test.network.hold()
        let list = ObservedList(test.client)
        list.begin()
        try await test.network.waitForHeld(1)
        test.client.invalidate(.feed("a"))
        test.network.release()
        try await eventually("the second load has ended") {
            test.network.requests.count == 2 && list.snapshots.last?.phase == .ready
        }

        #expect(list.first(rows: 20)?.phase == .refreshing)
    }

    @Test func `a refresh requested while the first fetch finishes is sent`() async throws {
        let test = try TestClient(network: server.network())
        let list = ObservedList(test.client)
        let refresh = Mutex<Task<Void, any Error>?>(nil)
        list.atFirstRows { [source = list.source, server] in
            server.change { $0.delete(0) }
            // Immediate, without a separate turn: the fetch finishes only after this.
            let task = Task.immediate { try await source.refresh() }
            refresh.withLock { $0 = task }
        }
        list.begin()
        try await eventually("the refresh was called") { refresh.withLock { $0 != nil } }
        try await #require(refresh.withLock { $0 }).finished()
        try await eventually("the refresh has ended") { list.snapshots.last?.phase == .ready }

        #expect(list.first(rows: 20)?.phase == .ready)
        #expect(test.network.requests.count == 2)
        #expect(list.snapshots.last?.items.first?.id == server.ids.first)
    }

    @Test func `rows of an invalidated list without observers are ready`() async throws {
        let test = try TestClient(network: server.network())
        test.network.hold()
        let source = test.client.queries.source(of: ListQuery.feed("a"))
        let load = Task { try await test.client.value(of: .feed("a")) }
        try await test.network.waitForHeld(1)
        // No other fetch follows, because the caller's request precedes the invalidation.
        test.client.invalidate(.feed("a"))
        let entry = source.entry.erased
        #expect(test.client.queries.snapshot(of: entry).currentFetch != nil)
        test.network.release()
        _ = try await load.finished()
        #expect(source.snapshot().phase == .ready && test.network.requests.count == 1)
    }

    @Test func `the first snapshot with rows that were set has a timestamp`() async throws {
        let test = try TestClient(network: server.network())
        try await test.client.value(of: .feed("a"))
        let list = ObservedList(test.client)
        list.begin()
        test.wall.advance(by: .seconds(5))
        let rows = Array(test.client.snapshot(of: .feed("a")).items.prefix(3))
        test.client.set(rows, for: .feed("a"))
        try await eventually("the rows are shown") { list.first(rows: 3) != nil }

        #expect(list.first(rows: 3)?.phase == .ready)
        #expect(list.first(rows: 3)?.asOf == test.wall.now())
    }

    @Test func `updates never deliver the same state twice in a row`() async throws {
        let test = try TestClient(network: server.network())
        let updates = test.client.updates(of: .feed("a"))
        let seen = Mutex<[ListSnapshot<FeedRow>]>([])
        let reading = Task {
            for await snapshot in updates {
                seen.withLock { $0.append(snapshot) }
                if snapshot.items.count == 40 { return }
            }
        }
        try await eventually("the rows are shown") { seen.withLock { $0.last?.phase == .ready } }
        try await test.client.loadNext(.feed("a"))
        try await reading.finished()

        let all = seen.withLock { $0 }
        #expect(zip(all, all.dropFirst()).allSatisfy { $0 != $1 })
    }
}
