import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Invalidation", .bounded)
struct InvalidationTests {
    private static func named(
        _ name: String,
        _ parts: [String],
        _ policy: Policy
    ) -> ValueQuery<Profile> {
        switch parts.count {
        case 0:
            ValueQuery(name, policy: policy) { try await $0.get(name) }
        case 1:
            ValueQuery(name, parts[0], policy: policy) { try await $0.get("\(name)/\(parts[0])") }
        default:
            ValueQuery(name, parts[0], parts[1], policy: policy) {
                try await $0.get("\(name)/\(parts[0])/\(parts[1])")
            }
        }
    }

    private static let lasting = Policy.forever.stored(.onDisk)

    private func fetch(_ queries: [ValueQuery<Profile>], with client: SanguineClient) async throws {
        for query in queries { _ = try await client.value(of: query) }
    }

    @Test func `a prefix covers the queries with the same leading components and no others`()
        async throws
    {
        let test = try TestClient(network: .profiles())
        let of = Self.named("post", ["1"], Self.lasting)
        let below = Self.named("post", ["1", "comments"], Self.lasting)
        let other = Self.named("post", ["10"], Self.lasting)
        let longer = Self.named("poster", ["1"], Self.lasting)
        try await fetch([of, below, other, longer], with: test.client)
        test.client.invalidate(all: "post", "1")

        #expect(!test.client.queries.isFresh(of))
        #expect(!test.client.queries.isFresh(below))
        #expect(test.client.queries.isFresh(other))
        #expect(test.client.queries.isFresh(longer))
        #expect(test.client.cached(of) != nil)
    }

    @Test func `a name without parameters covers all of its queries`() async throws {
        let test = try TestClient(network: .profiles())
        let bare = Self.named("post", [], Self.lasting)
        let one = Self.named("post", ["1"], Self.lasting)
        try await fetch([bare, one], with: test.client)
        test.client.invalidate(all: "post")

        #expect(!test.client.queries.isFresh(bare))
        #expect(!test.client.queries.isFresh(one))
    }

    @Test func `invalidating one query does not affect those below it`() async throws {
        let test = try TestClient(network: .profiles())
        let bare = Self.named("post", [], Self.lasting)
        let one = Self.named("post", ["1"], Self.lasting)
        try await fetch([bare, one], with: test.client)
        test.client.invalidate(bare)

        #expect(!test.client.queries.isFresh(bare))
        #expect(test.client.queries.isFresh(one))
    }

    @Test func `a tag covers every value whose policy has it`() async throws {
        let test = try TestClient(network: .profiles())
        let tagged = Self.named("a", [], Self.lasting.tagged("social", "feed"))
        let untagged = Self.named("b", [], Self.lasting.tagged("fe"))
        try await fetch([tagged, untagged], with: test.client)
        test.client.invalidate(tag: "feed")

        #expect(!test.client.queries.isFresh(tagged))
        #expect(test.client.queries.isFresh(untagged))
    }

    @Test func `a permanent value becomes stale when its dependency changes`() async throws {
        let test = try TestClient(network: .profiles())
        let chart = Self.named("chart", [], .untilChanged("birthData").stored(.onDisk))
        _ = try await test.client.value(of: chart)
        test.wall.advance(by: .hours(24 * 365))
        #expect(try await test.client.value(of: chart).name == "chart 1")
        test.client.dependencyChanged("birthData")
        #expect(try await test.client.value(of: chart).name == "chart 2")
        #expect(try await test.client.value(of: chart).name == "chart 2")
    }

    @Test func `an observed value is fetched at once after an invalidation, others when read`()
        async throws
    {
        let test = try TestClient(network: .profiles())
        let seen = Self.named("post", ["1"], Self.lasting)
        let unseen = Self.named("post", ["2"], Self.lasting)
        try await fetch([seen, unseen], with: test.client)
        var updates = test.client.updates(of: seen).makeAsyncIterator()
        _ = await updates.next()
        test.client.invalidate(all: "post")
        while let state = await updates.next(), state.isFetching {}

        #expect(test.client.cached(seen)?.name == "1 3")
        #expect(test.client.cached(unseen)?.name == "2 2")
        #expect(test.network.requests.count == 3)
    }

    @Test(arguments: ["prefix", "tag", "dependency", "everything"])
    func `an invalidated value is stale after a restart too`(kind: String) async throws {
        let folder = TemporaryFolder()
        let policy = Self.lasting.tagged("social").depends(on: "birthData")
        let meant = Self.named("post", ["1"], policy)
        let spared = Self.named("other", ["1"], Self.lasting)
        let first = try TestClient(network: .profiles(), folder: folder)
        try await fetch([meant, spared], with: first.client)
        switch kind {
        case "prefix": first.client.invalidate(all: "post")
        case "tag": first.client.invalidate(tag: "social")
        case "dependency": first.client.dependencyChanged("birthData")
        default: first.client.invalidateAll()
        }
        first.client.close()
        let second = try TestClient(network: .profiles(), folder: folder)

        #expect(second.client.cached(meant)?.name == "1 1")
        #expect(!second.client.queries.isFresh(meant))
        #expect(second.client.queries.isFresh(spared) == (kind != "everything"))
    }

    @Test func `a row that is only on disk becomes stale in the process that invalidates it`()
        async throws
    {
        let folder = TemporaryFolder()
        let first = try TestClient(network: .profiles(), folder: folder)
        let query = Self.named("post", ["1"], Self.lasting)
        _ = try await first.client.value(of: query)
        first.client.close()
        let second = try TestClient(network: .profiles(), folder: folder)
        second.client.invalidate(all: "post")

        #expect(!second.client.queries.isFresh(query))
        #expect(second.client.cached(query)?.name == "1 1")
    }

    @Test func `a value fetched after a stale start can be invalidated again`() async throws {
        let folder = TemporaryFolder()
        let query = Self.named("post", ["1"], Self.lasting)
        let first = try TestClient(network: .profiles(), folder: folder)
        _ = try await first.client.value(of: query)
        first.client.invalidate(query)
        first.client.close()
        let second = try TestClient(network: .profiles(), folder: folder)
        _ = try await second.client.value(of: query)
        #expect(second.client.queries.isFresh(query))
        second.client.invalidate(query)

        #expect(!second.client.queries.isFresh(query))
    }

    @Test func `more prefixes than the limit lose no invalidation`() async throws {
        let test = try TestClient(network: .profiles())
        let query = Self.named("post", ["1"], Self.lasting)
        _ = try await test.client.value(of: query)
        test.client.invalidate(all: "post")
        for number in 0..<3 * ClientLimits.invalidationMarks {
            test.client.invalidate(all: "other", "\(number)")
        }

        #expect(!test.client.queries.isFresh(query))
        #expect(try await test.client.value(of: query).name == "1 2")
        #expect(test.client.queries.isFresh(query))
    }

    @Test func `an invalidation during a fetch remains after its answer`() async throws {
        let test = try TestClient(network: .profiles())
        let query = Self.named("post", ["1"], Self.lasting)
        test.network.hold()
        async let value = test.client.value(of: query)
        try await test.network.waitForHeld(1)
        test.client.invalidate(all: "post")
        test.network.release()

        #expect(try await value.name == "1 1")
        #expect(!test.client.queries.isFresh(query))
    }

    @Test func `an event makes its values stale and fetches the observed ones`() async throws {
        let test = try TestClient(network: .profiles())
        let named = Self.named("a", [], Self.lasting.refetched(on: [.foreground]))
        let other = Self.named("b", [], Self.lasting.refetched(on: [.networkBack]))
        try await fetch([named, other], with: test.client)
        test.client.queries.invalidate(event: .foreground)

        #expect(!test.client.queries.isFresh(named))
        #expect(test.client.queries.isFresh(other))
    }
}
