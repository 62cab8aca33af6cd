import Dispatch
import Foundation
import Observation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// List models as a view observes them, without a view.
@MainActor
@Suite("List model", .bounded)
struct ListModelTests {
    private let server = FeedServer()

    @Test func `a model goes from loading to ready and on to the next page`() async throws {
        let test = try TestClient(network: server.network())
        test.network.hold()
        let model = test.client.model(.feed("a"))
        #expect(model.phase == .loading)
        test.network.release()
        try await eventually("the list is ready") { model.phase == .ready }
        #expect(model.items.map(\.id) == Array(server.ids.prefix(20)))
        #expect(model.hasMore)
        #expect(model.asOf == test.wall.now())
        await model.loadNext()

        #expect(model.items.count == 40)
    }

    @Test func `a list that a view shows is loaded before lists requested earlier`() async throws {
        let test = try TestClient(network: server.network()) { $0.readsPerHost = 1 }
        let queue = test.client.queue
        let host = try #require(URL(string: TestClient.server)).hostKey
        test.network.hold()
        let other = Task { try await test.client.value(of: .feed("b")) }
        try await test.network.waitForHeld(1)
        let loading = Task { try await test.client.value(of: .feed("a")) }
        try await eventually("a read waits") { queue.waiting(for: host, of: .normal) == 1 }
        let model = test.client.model(.feed("a"))
        try await eventually("the read has visible priority") {
            queue.waiting(for: host, of: .visible) == 1
        }
        test.network.release()
        try await other.finished()
        try await loading.finished()
        try await eventually("the list is ready") { model.phase == .ready }

        #expect(test.network.requests.count == 2)
    }

    @Test func `a new model has the cached rows`() async throws {
        let test = try TestClient(network: server.network())
        for _ in 1...2 { try await test.client.loadNext(.feed("a")) }
        let model = test.client.model(.feed("a"))

        #expect(model.items.count == 40)
        #expect(model.phase == .ready)
        #expect(test.network.requests.count == 2)
    }

    @Test func `a row near the end prefetches the next page once`() async throws {
        let test = try TestClient(network: server.network())
        let model = test.client.model(.feed("a"))
        try await eventually("the list is ready") { model.phase == .ready }
        model.itemAppeared(model.items[2].id)
        #expect(test.network.requests.count == 1)
        for row in model.items.suffix(5) { model.itemAppeared(row.id) }
        try await eventually("two pages are shown") { model.items.count == 40 }

        #expect(test.network.requests.count == 2)
    }

    @Test func `a row that appears between a page's arrival and the end of its load loads ahead`()
        async throws
    {
        let test = try TestClient(network: server.network())
        let model = test.client.model(.feed("a"))
        try await eventually("the list is ready") { model.phase == .ready }
        let arrived = DispatchSemaphore(value: 0)
        let watching = Self.signal(arrived, when: 40, in: test.client.updates(of: .feed("a")))
        defer { watching.cancel() }
        test.network.hold()
        model.itemAppeared(model.items[19].id)
        try await test.network.waitForHeld(1)
        // The load ends on the main actor, which this test keeps until the row has appeared.
        try #require(Self.release(test.network, until: arrived))
        #expect(model.items.count == 20)
        model.itemAppeared(test.client.snapshot(of: .feed("a")).items[39].id)
        try await eventually("three pages are shown") { model.items.count == 60 }

        #expect(test.network.requests.count == 3)
    }

    /// Signals, not on the main actor, when the list has a number of rows.
    private nonisolated static func signal(
        _ arrived: DispatchSemaphore,
        when count: Int,
        in updates: AsyncStream<ListSnapshot<FeedRow>>
    ) -> Task<Void, Never> {
        Task {
            for await list in updates where list.items.count == count {
                arrived.signal()
                return
            }
        }
    }

    /// Releases the network, and blocks the main actor until the semaphore is signalled.
    private static func release(
        _ network: ScriptedTransport,
        until arrived: DispatchSemaphore
    ) -> Bool {
        network.release()
        return arrived.wait(timeout: .now() + 30) == .success
    }

    @Test func `a failed next page leaves the rows and is not requested again`() async throws {
        let test = try TestClient(network: server.network())
        let model = test.client.model(.feed("a"))
        try await eventually("the list is ready") { model.phase == .ready }
        test.network.script(.status(404))
        await model.loadNext()
        #expect(model.nextError?.code == "http_404")
        try #require(model.items.count == 20)
        model.itemAppeared(model.items[19].id)
        #expect(test.network.requests.count == 2)
        await model.retry()

        #expect(model.nextError == nil)
        #expect(model.items.count == 40)
    }

    @Test func `a failed refresh keeps the rows`() async throws {
        let test = try TestClient(network: server.network())
        let model = test.client.model(.feed("a"))
        try await eventually("the list is ready") { model.phase == .ready }
        test.network.script(.status(404))
        await model.refresh()
        #expect(model.error?.code == "http_404")
        #expect(model.items.count == 20)
        #expect(model.phase == .ready)
        await model.retry()

        #expect(model.error == nil)
    }

    @Test func `a failed first page sets the phase, and a retry recovers`() async throws {
        let test = try TestClient(network: server.network())
        test.network.script(.status(404))
        let model = test.client.model(.feed("a"))
        try await eventually("the first page has failed") { model.phase == .failed }
        #expect(model.error?.code == "http_404")
        await model.retry()

        #expect(model.phase == .ready)
    }

    @Test func `a model shows pages loaded by another part of the app`() async throws {
        let test = try TestClient(network: server.network())
        let model = test.client.model(.feed("a"))
        try await eventually("the list is ready") { model.phase == .ready }
        try await test.client.loadNext(.feed("a"))
        try await eventually("two pages are shown") { model.items.count == 40 }

        #expect(model.items.map(\.id) == Array(server.ids.prefix(40)))
    }

    @Test func `a model has the rows once a load returns on the main actor`() async throws {
        let test = try TestClient(network: server.network())
        for number in 1...50 {
            let list = ListQuery<FeedRow>.feed("\(number)")
            let model = test.client.model(list)
            try await test.client.value(of: list)
            try #require(model.items.count == 20, "List \(number)")
            try await test.client.loadNext(list)
            try #require(model.items.count == 40, "List \(number)")
        }
    }

    @Test func `views of one list share one model`() async throws {
        let test = try TestClient(network: server.network())
        let model = test.client.model(.feed("a"))

        #expect(test.client.model(.feed("a")) === model)
        #expect(test.client.model(.feed("b")) !== model)
    }

    @Test func `alternating pages and refreshes leave a model with all rows`() async throws {
        let test = try TestClient(network: server.network())
        let model = test.client.model(.feed("a"))
        await model.refresh()
        await model.loadNext()
        await model.refresh()
        await model.loadNext()

        #expect(model.items.map(\.id) == Array(server.ids.prefix(60)))
    }

    @Test func `a shown row that is older than a refresh is reloaded`() async throws {
        let test = try TestClient(network: server.network())
        let model = test.client.model(.feed("a"))
        try await eventually("the list is ready") { model.phase == .ready }
        await model.loadNext()
        server.change { $0.edit(30) }
        await model.refresh()
        #expect(model.items[30].text == 0)
        model.itemAppeared(model.items[25].id)
        try await eventually("the newer row is shown") { model.items[30].text == 1 }

        #expect(model.items.map(\.id) == Array(server.ids.prefix(40)))
    }

    @Test func `a model that is released stops following and prefetching`() async throws {
        let test = try TestClient(network: server.network())
        var model: ListModel<FeedRow>? = test.client.model(.feed("a"))
        await turns()
        try await eventually("the list is ready") { model?.phase == .ready }
        test.network.hold()
        if let row = model?.items.last { model?.itemAppeared(row.id) }
        try await test.network.waitForHeld(1)
        weak let released = model
        model = nil

        #expect(released == nil)
        try await test.network.waitForCancelled(1)
    }
}
