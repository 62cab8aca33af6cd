import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Query cache", .bounded)
struct QueryCacheTests {
    @Test func `a value that was never fetched is nil`() throws {
        let test = try TestClient()

        #expect(test.client.cached(.profile("ada")) == nil)
        #expect(test.client.snapshot(of: .profile("ada")) == ValueSnapshot())
        #expect(test.client.cached(.balance) == nil)
    }

    @Test func `a fetched value is available at once, with its age`() async throws {
        let test = try TestClient(network: .profiles())
        let fetched = test.wall.now()
        _ = try await test.client.value(of: .profile("ada"))
        test.wall.advance(by: .seconds(90))

        #expect(test.client.cached(.profile("ada")) == Profile(name: "ada 1"))
        let state = test.client.snapshot(of: .profile("ada"))
        #expect(state.asOf == fetched)
        #expect(state.age(at: test.wall.now()) == .seconds(90))
    }

    @Test func `only a stale value is fetched again`() async throws {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: .profile("ada"))
        test.wall.advance(by: .seconds(299))
        #expect(try await test.client.value(of: .profile("ada")).name == "ada 1")
        test.wall.advance(by: .seconds(1))
        #expect(try await test.client.value(of: .profile("ada")).name == "ada 2")
    }

    @Test func `a value from the future is stale and has no negative age`() async throws {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: .profile("ada"))
        test.wall.advance(by: .seconds(-60))

        let state = test.client.snapshot(of: .profile("ada"))
        #expect(state.age(at: test.wall.now()) == .zero)
        #expect(try await test.client.value(of: .profile("ada")).name == "ada 2")
    }

    @Test func `a failed fetch keeps the existing value`() async throws {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: .profile("ada"))
        test.network.script(.status(404))
        let refusal = await #expect(throws: SanguineError.self) {
            try await test.client.refresh(.profile("ada"))
        }
        #expect(refusal?.code == "http_404")

        let state = test.client.snapshot(of: .profile("ada"))
        #expect(state.value == Profile(name: "ada 1"))
        #expect(state.error?.code == "http_404")
    }

    @Test func `updates deliver the cached value first and then every change`() async throws {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: .profile("ada"))
        test.wall.advance(by: .minutes(10))
        test.network.hold()
        var updates = test.client.updates(of: .profile("ada")).makeAsyncIterator()

        let first = try #require(await updates.next())
        #expect(first.value?.name == "ada 1")
        #expect(first.isFetching)
        try await test.network.waitForHeld(1)
        test.network.release()
        let second = try #require(await updates.next())
        #expect(second.value?.name == "ada 2")
        #expect(!second.isFetching)
        #expect(second.asOf == test.wall.now())
    }

    @Test func `a slow reader of updates always gets the newest state`() async throws {
        let test = try TestClient(network: .profiles())
        var updates = test.client.updates(of: .profile("ada")).makeAsyncIterator()
        for _ in 1...20 { _ = try await test.client.refresh(.profile("ada")) }

        let newest = test.client.snapshot(of: .profile("ada"))
        // Callers' answers and readers' updates are delivered independently.
        var seen: [ValueSnapshot<Profile>] = []
        while seen.last != newest { seen.append(try #require(await updates.next())) }
        #expect(seen.count < 20)
        #expect(!newest.isFetching)
    }

    @Test func `an observer keeps a fetch alive, and the last one to leave ends it`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        let observer = Task {
            for await _ in test.client.updates(of: .profile("ada")) {}
        }
        try await test.network.waitForHeld(1)
        #expect(test.network.cancelled == 0)
        observer.cancel()
        try await observer.finished()

        try await test.network.waitForCancelled(1)
        #expect(!test.client.snapshot(of: .profile("ada")).isFetching)
    }

    @Test func `updates end when the client is closed`() async throws {
        let test = try TestClient(network: .profiles())
        let updates = test.client.updates(of: .profile("ada"))
        let reader = Task {
            for await _ in updates {}
            return true
        }
        test.client.close()

        #expect(try await reader.finished())
    }

    @Test func `an invalidated value is still shown and is fetched by the next reader`()
        async throws
    {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: .profile("ada"))
        test.client.invalidate(.profile("ada"))

        #expect(test.client.cached(.profile("ada"))?.name == "ada 1")
        #expect(try await test.client.value(of: .profile("ada")).name == "ada 2")
    }

    @Test func `a reader after an invalidation is not served by an earlier fetch`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        async let before = test.client.value(of: .profile("ada"))
        try await test.network.waitForHeld(1)
        test.client.invalidate(.profile("ada"))
        async let after = test.client.value(of: .profile("ada"))
        try await test.client.queries.waitForWaiters(2, of: .profile("ada"))
        test.network.release()

        #expect(try await before.name == "ada 1")
        #expect(try await after.name == "ada 2")
    }

    @Test func `the least recently used values are evicted when memory is full`() async throws {
        let test = try TestClient(network: .profiles()) { $0.memoryBytes = 3_000 }
        for number in 1...5 { _ = try await test.client.value(of: .fleeting("p\(number)")) }
        _ = test.client.cached(.fleeting("p1"))
        for number in 6...40 {
            _ = try await test.client.value(of: .fleeting("p\(number)"))
            _ = test.client.cached(.fleeting("p1"))
            #expect(test.client.queries.entries.memoryCost <= 3_000)
        }

        #expect(test.client.cached(.fleeting("p1")) != nil)
        #expect(test.client.cached(.fleeting("p40")) != nil)
        #expect(test.client.cached(.fleeting("p2")) == nil)
    }

    @Test func `queries with one name and different types are distinguished`() async throws {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: .fleeting("ada"))
        let other = ValueQuery<Int>("fleeting", "ada") { _ in 1 }

        #expect(test.client.cached(other) == nil)
        await #expect(throws: SanguineError.conflictingQuery(name: "fleeting")) {
            try await test.client.value(of: other)
        }
    }

    @Test func `different lists of parameters have different keys`() {
        let keys = [
            QueryKey(name: "a", parameters: []),
            QueryKey(name: "a", parameters: ["b", "c"]),
            QueryKey(name: "a", parameters: ["b/c"]),
            QueryKey(name: "a/\"b\"", parameters: ["c"]),
            QueryKey(name: "a", parameters: [1]),
            QueryKey(name: "a", parameters: ["1"]),
            QueryKey(name: "a", parameters: ["b\"/\"c"]),
            QueryKey(name: "a", parameters: [["b", "c"]]),
        ]
        #expect(Set(keys).count == keys.count)
        #expect(
            QueryKey(name: "a", parameters: ["b", 1]) == QueryKey(name: "a", parameters: ["b", 1])
        )
    }

    @Test func `a plain backend needs no server and receives only its own headers`() async throws {
        let test = try TestClient(network: .profiles()) {
            $0.server = nil
            $0.baseURL = URL(string: "https://api.test/v2/")
            $0.baseHeaders = { ["Authorization": "Key 1"] }
        }
        _ = try await test.client.value(of: .profile("ada"))
        let elsewhere = ValueQuery<Profile>("elsewhere") { request in
            try await request.get("https://cdn.test/x", query: [.init(name: "q", value: "a+b&c")])
        }
        _ = try await test.client.value(of: elsewhere)

        let requests = test.network.requests
        #expect(requests[0].url.absoluteString == "https://api.test/v2/profiles/ada")
        #expect(requests[0].headers["Authorization"] == "Key 1")
        #expect(requests[1].url.absoluteString == "https://cdn.test/x?q=a%2Bb%26c")
        #expect(requests[1].headers["Authorization"] == nil)
    }

    @Test func `the built-in queries send the user's token to the server`() async throws {
        let test = try TestClient()
        let quota = Quota(
            name: "readings",
            limit: 3,
            used: 1,
            resetsAt: test.wall.now() + .seconds(60),
            unlimited: false
        )
        test.network.script(.json(Items(items: [quota])))

        #expect(try await test.client.value(of: .quotas) == [quota])
        let request = try #require(test.network.requests.first)
        #expect(request.url.absoluteString == "http://sanguine.test/v1/quotas")
        #expect(request.headers["Authorization"] == "Bearer token-0-0")
    }
}
