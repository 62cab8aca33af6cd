import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

extension ListQuery where Item == FeedRow {
    // As in the documentation: this must stay that short.
    static func feed(_ name: String) -> Self {
        ListQuery(
            "feed",
            name,
            path: "feed/\(name)",
            policy: .fresh(for: .seconds(30)).stored(.onDisk)
        )
    }
}

/// A server with one list, over a scripted network.
final class FeedServer: Sendable {
    private let feed: Mutex<SimulatedFeed>

    init(count: Int = 95) {
        feed = Mutex(SimulatedFeed(count: count, largestPage: 100, largest: 120))
    }

    func change(_ body: (inout SimulatedFeed) -> Void) { feed.withLock { body(&$0) } }

    func state<Value: Sendable>(_ read: (SimulatedFeed) -> Value) -> Value {
        feed.withLock { read($0) }
    }

    var ids: [Int] { feed.withLock { $0.rows.map(\.id) } }

    func network() -> ScriptedTransport {
        ScriptedTransport { [self] request in
            let items = URLComponents(url: request.url, resolvingAgainstBaseURL: false)?.queryItems
            let cursor = items?.first { $0.name == "cursor" }?.value
            let limit = items?.first { $0.name == "limit" }?.value.flatMap { Int($0) } ?? 20
            let page = feed.withLock { $0.page(after: cursor, limit: limit) }
            return page.map { .json($0) } ?? .status(410)
        }
    }
}

/// Counts occurrences.
final class RequestCount: Sendable {
    private let value = Atomic(0)

    var count: Int { value.load(ordering: .relaxed) }

    func add() { value.add(1, ordering: .relaxed) }
}

@Suite("Lists through the client", .bounded)
struct ListSourceTests {
    private let server = FeedServer()

    private func ids(_ test: TestClient) -> [Int] {
        test.client.snapshot(of: .feed("a")).items.map(\.id)
    }

    @Test func `a list is loaded page by page to its end`() async throws {
        let test = try TestClient(network: server.network())
        #expect(test.client.snapshot(of: .feed("a")).phase == .empty)
        try await test.client.value(of: .feed("a"))
        #expect(ids(test) == Array(server.ids.prefix(20)))
        for _ in 1...4 { try await test.client.loadNext(.feed("a")) }

        #expect(ids(test) == server.ids)
        #expect(!test.client.snapshot(of: .feed("a")).hasMore)
        #expect(test.network.requests.count == 5)
        try await test.client.loadNext(.feed("a"))
        #expect(test.network.requests.count == 5)
    }

    @Test func `a thousand simultaneous callers cause one request`() async throws {
        let test = try TestClient(network: server.network())
        try await test.client.value(of: .feed("a"))
        let source = test.client.queries.source(of: ListQuery.feed("a"))
        test.network.hold()
        let callers = (1...1_000).map { _ in Task { try await test.client.loadNext(.feed("a")) } }
        try await test.network.waitForHeld(1)
        try await eventually("1,000 callers wait") { source.waiterCount == 1_000 }
        test.network.release()
        for caller in callers { try await caller.finished() }

        #expect(test.network.requests.count == 2)
        #expect(ids(test).count == 40)
    }

    @Test func `cancelling the last caller cancels the request`() async throws {
        let test = try TestClient(network: server.network())
        try await test.client.value(of: .feed("a"))
        test.network.hold()
        let caller = Task { try await test.client.loadNext(.feed("a")) }
        try await test.network.waitForHeld(1)
        caller.cancel()

        await #expect(throws: SanguineError.cancelled) { try await caller.finished() }
        try await test.network.waitForCancelled(1)
    }

    @Test func `a fresh list is not loaded again unless a refresh is requested`() async throws {
        let test = try TestClient(network: server.network())
        try await test.client.value(of: .feed("a"))
        test.wall.advance(by: .seconds(29))
        try await test.client.loadNext(.feed("a"))
        try await test.client.value(of: .feed("a"))
        #expect(test.network.requests.count == 2)
        test.wall.advance(by: .seconds(1))
        try await test.client.value(of: .feed("a"))
        #expect(test.network.requests.count == 3)
        try await test.client.refresh(.feed("a"))
        #expect(test.network.requests.count == 4)
    }

    @Test func `a refresh of four pages is one request, and an insert duplicates no row`()
        async throws
    {
        let test = try TestClient(network: server.network())
        for _ in 1...4 { try await test.client.loadNext(.feed("a")) }
        server.change { feed in for _ in 1...3 { feed.insert(onTop: true, jump: 1) } }
        try await test.client.refresh(.feed("a"))

        #expect(test.network.requests.count == 5)
        #expect(ids(test) == Array(server.ids.prefix(83)))
    }

    @Test func `a refresh omits the last held row if it was deleted`() async throws {
        let server = FeedServer(count: 20)
        let test = try TestClient(network: server.network())
        let list = ListQuery<FeedRow>("five", path: "feed/five", size: 5)
        try await test.client.value(of: list)
        server.change { $0.delete(id: 16) }
        try await test.client.refresh(list)

        #expect(test.client.snapshot(of: list).items.map(\.id) == [20, 19, 18, 17, 15])
        try await test.client.loadNext(list)
        #expect(test.client.snapshot(of: list).items.map(\.id) == Array(server.ids.prefix(10)))
    }

    @Test func `a cursor that expires a second time, much later, is renewed too`() async throws {
        let test = try TestClient(network: server.network())
        try await test.client.value(of: .feed("a"))
        for _ in 1...2 {
            server.change { $0.expireCursors() }
            try await test.client.loadNext(.feed("a"))
            #expect(ids(test) == server.ids)
            // The search has found all rows; the list starts over so that there are more again.
            server.change { feed in for _ in 1...20 { feed.insert(onTop: true, jump: 1) } }
            try await test.client.refresh(.feed("a"))
        }
    }

    @Test func `after a restart a list is available at once, with its age and cursor`() async throws
    {
        let folder = TemporaryFolder()
        do {
            let test = try TestClient(network: server.network(), folder: folder)
            for _ in 1...3 { try await test.client.loadNext(.feed("a")) }
            test.client.close()
        }
        let test = try TestClient(network: server.network(), folder: folder)
        let snapshot = test.client.snapshot(of: .feed("a"))
        #expect(snapshot.items.map(\.id) == Array(server.ids.prefix(60)))
        #expect(snapshot.asOf == test.wall.now())
        try await test.client.loadNext(.feed("a"))

        #expect(ids(test).count == 80)
        #expect(test.network.requests.count == 1)
    }

    @Test func `a retry requests the failed page, not the first one`() async throws {
        let test = try TestClient(network: server.network())
        let updates = test.client.updates(of: .feed("a"))
        for _ in 1...2 { try await test.client.loadNext(.feed("a")) }
        test.network.script(.status(404))
        let refusal = await #expect(throws: SanguineError.self) {
            try await test.client.loadNext(.feed("a"))
        }
        #expect(refusal?.code == "http_404")
        let failed = test.client.snapshot(of: .feed("a"))
        #expect(failed.items.count == 40)
        #expect(failed.nextError?.code == "http_404")
        try await test.client.loadNext(.feed("a"))

        #expect(ids(test).count == 60)
        #expect(test.network.requests[2].url == test.network.requests[3].url)
        #expect(test.client.snapshot(of: .feed("a")).nextError == nil)
        withExtendedLifetime(updates) {}
    }

    @Test func `an expired cursor is renewed without the reader noticing`() async throws {
        let test = try TestClient(network: server.network())
        for _ in 1...2 { try await test.client.loadNext(.feed("a")) }
        server.change { $0.expireCursors() }
        try await test.client.loadNext(.feed("a"))

        #expect(ids(test) == server.ids)
        // The page, then one large page for the search, which contains the whole list.
        #expect(test.network.requests.count == 4)
    }

    @Test func `a late page of the previous user is dropped`() async throws {
        let user = TestAuthorizer()
        let test = try TestClient(network: server.network(), authorizer: user)
        try await test.client.value(of: .feed("a"))
        test.network.hold()
        let caller = Task { try await test.client.loadNext(.feed("a")) }
        try await test.network.waitForHeld(1)
        user.change(to: nil, in: test.client)
        #expect(test.client.snapshot(of: .feed("a")).items.isEmpty)
        test.network.release()

        await #expect(throws: SanguineError.userChanged) { try await caller.finished() }
        #expect(test.client.snapshot(of: .feed("a")).items.isEmpty)
    }

    @Test func `signing out removes a list from memory and disk`() async throws {
        let folder = TemporaryFolder()
        let user = TestAuthorizer()
        let test = try TestClient(network: server.network(), folder: folder, authorizer: user)
        try await test.client.value(of: .feed("a"))
        test.client.queries.entries.flush()
        user.change(to: nil, in: test.client)

        #expect(test.client.snapshot(of: .feed("a")) == ListSnapshot())
        #expect(try test.client.users.current.store.entry(ListQuery.feed("a").key.text) == nil)
    }

    @Test func `a list that shares its name with another list is empty after a sign-out`()
        async throws
    {
        let user = TestAuthorizer()
        let test = try TestClient(network: server.network(), authorizer: user)
        try await test.client.value(of: .feed("a"))
        let source = test.client.queries.source(of: ListQuery.feed("a"))
        let other = ListQuery<Track>("feed", "a", path: "feed/a")
        #expect(test.client.snapshot(of: other).items.isEmpty)
        user.change(to: nil, in: test.client)

        #expect(source.snapshot().items.isEmpty)
    }

    @Test func `updates deliver the list first and then every change`() async throws {
        let test = try TestClient(network: server.network())
        try await test.client.value(of: .feed("a"))
        var updates = test.client.updates(of: .feed("a")).makeAsyncIterator()
        #expect(await updates.next()?.items.count == 20)
        try await test.client.loadNext(.feed("a"))
        var last = await updates.next()
        while last?.items.count != 40 { last = await updates.next() }

        #expect(last?.phase == .loadingMore || last?.phase == .ready)
    }

    /// Returns a list of 210 pages of one row, and a counter of page requests.
    private func longList() -> (list: ListQuery<FeedRow>, requests: RequestCount) {
        let requests = RequestCount()
        let list = ListQuery<FeedRow>("long", policy: .forever, size: 1) { _, page in
            requests.add()
            let number = page.cursor.flatMap { Int($0) } ?? 0
            return ListPage(
                items: [FeedRow(id: number, time: 0)],
                hasMore: number < 209,
                nextCursor: "\(number + 1)"
            )
        }
        return (list, requests)
    }

    @Test func `a list that no view shows is loaded to its end, however long it is`() async throws {
        let test = try TestClient(network: server.network())
        let (list, requests) = longList()
        for _ in 1...210 { try await test.client.loadNext(list) }

        let snapshot = test.client.snapshot(of: list)
        #expect(snapshot.items.map(\.id) == Array(10...209))
        #expect(!snapshot.hasMore)
        #expect(requests.count == 210)
    }

    @Test func `a refresh further down keeps the reader's position and stores the beginning`()
        async throws
    {
        let test = try TestClient(network: server.network())
        let (list, _) = longList()
        for _ in 1...210 { try await test.client.loadNext(list) }
        let source = test.client.queries.source(of: list)
        source.setAnchor(100)
        try await test.client.refresh(list)

        #expect(test.client.snapshot(of: list).items.map(\.id) == Array(10...209))
        #expect(test.client.snapshot(of: list).hasPrevious)
        #expect(test.client.queries.cached(source.entry)?.rows.map(\.id) == [0])
    }

    @Test func `when too many lists are kept, the least recently used one is released`()
        async throws
    {
        let test = try TestClient(network: server.network())
        weak let first = test.client.queries.source(of: ListQuery.feed("0"))
        try await test.client.value(of: .feed("0"))
        for number in 1..<PageLimits.listsKept {
            try await test.client.value(of: .feed("\(number)"))
        }
        #expect(first != nil)
        try await test.client.value(of: .feed("one more"))

        #expect(first == nil)
        #expect(test.client.snapshot(of: .feed("0")).items.count == 20)
    }

    @Test func `a refresh uses the list's latest declaration`() async throws {
        let test = try TestClient(network: server.network())
        for number in 1...2 {
            let list = ListQuery<FeedRow>("same") { _, _ in
                ListPage(items: [FeedRow(id: number, time: 0)], hasMore: false, nextCursor: nil)
            }
            try await test.client.refresh(list)
            #expect(test.client.snapshot(of: list).items.map(\.id) == [number])
        }
    }

    @Test func `an observed list is refreshed when it is invalidated`() async throws {
        let test = try TestClient(network: server.network())
        try await test.client.value(of: .feed("a"))
        var updates = test.client.updates(of: .feed("a")).makeAsyncIterator()
        _ = await updates.next()
        server.change { $0.insert(onTop: true, jump: 1) }
        test.client.invalidate(.feed("a"))
        var last = await updates.next()
        while last?.items.count != 21 { last = await updates.next() }

        #expect(last?.items.first?.id == server.ids.first)
    }

    @Test func `a refresh counts as one request of the host`() async throws {
        let test = try TestClient(network: server.network())
        for _ in 1...ClientLimits.requestsPerRetry { try await test.client.refresh(.feed("a")) }

        #expect(test.retriesLeft() == ClientLimits.retryReserve + 1)
    }

    @Test func `an older list does not replace a newer one in the cache`() async throws {
        let test = try TestClient(network: server.network())
        try await test.client.value(of: .feed("a"))
        let queries = test.client.queries
        let old = ListSource(ListQuery.feed("a"), in: queries)
        old.restore()
        try await old.load(.next, priority: .normal)
        server.change { $0.insert(onTop: true, jump: 1) }
        try await test.client.refresh(.feed("a"))
        old.save(onlyIfWorthwhile: false)

        #expect(old.snapshot().items.count == 40)
        #expect(queries.cached(old.entry)?.rows.first?.id == server.ids.first)
    }

    @Test func `observing a list of a closed client leaves nothing behind`() async throws {
        let test = try TestClient(network: server.network())
        let source = test.client.queries.source(of: ListQuery.feed("a"))
        test.client.close()
        try await Task { for await _ in source.signals() {} }.finished()

        #expect(!test.client.queries.isObserved(anyOf: [ListQuery.feed("a").key]))
    }

    @Test(arguments: [
        (410, "gone", 100, true), (400, "cursor_expired", 100, true),
        (400, "bad_request", 20, true), (400, "bad_request", 100, false), (404, "gone", 20, false),
    ])
    func `an ambiguous error expires the cursor only at the usual page size`(
        status: Int,
        code: String,
        limit: Int,
        isExpired: Bool
    ) {
        var problem = Problem(ProblemCode(rawValue: code), "No.")
        problem.status = status
        let request = PageRequest(cursor: "c", limit: limit)
        let pages = ListQuery<FeedRow>.feed("a")
        #expect(pages.isExpired(.problem(problem), answering: request) == isExpired)
    }

    @Test func `closing the client ends waiting calls`() async throws {
        let test = try TestClient(network: server.network())
        try await test.client.value(of: .feed("a"))
        test.network.hold()
        let caller = Task { try await test.client.loadNext(.feed("a")) }
        try await test.network.waitForHeld(1)
        test.client.close()

        await #expect(throws: SanguineError.closed) { try await caller.finished() }
        await #expect(throws: SanguineError.closed) { try await test.client.loadNext(.feed("a")) }
    }
}
