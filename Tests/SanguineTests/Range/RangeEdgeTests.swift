import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

extension RangeQuery where Index == Int, Value == Int {
    /// The value 1 at each index, without a network.
    fileprivate static func ones(_ name: String, _ policy: Policy) -> RangeQuery {
        RangeQuery(name, policy: policy) { _, range in
            Dictionary(uniqueKeysWithValues: range.map { ($0, 1) })
        }
    }
}

/// Events during a fetch, and ranges at both ends of the integers.
@Suite("Range edges", .bounded)
struct RangeEdgeTests {
    @Test func `an invalidation by name during the first fetch takes effect`() async throws {
        let test = try TestClient(network: .stretches())
        test.network.hold()
        async let values = test.client.value(of: .tens, in: 1...4)
        try await test.network.waitForHeld(1)
        test.client.invalidate(all: "tens")
        test.network.release()

        #expect(try await values.count == 4)
        #expect(test.client.cached(.tens, in: 1...4).stale == [1...4])
    }

    @Test func `a value that arrives after its entry was evicted is stale`() async throws {
        let test = try TestClient(network: .stretches())
        let query = RangeQuery<Int, Int>("kept", policy: .fresh(for: .minutes(5))) {
            try await RangeQuery.tens.fetch($0, $1)
        }
        test.network.hold()
        async let values = test.client.value(of: query, in: 1...4)
        try await test.network.waitForHeld(1)
        test.client.invalidate(all: "kept")
        test.client.queries.entries.guarded.withLock { $0.table.remove(query.key) }
        test.network.release()

        #expect(try await values.count == 4)
        #expect(test.client.cached(query, in: 1...4).stale == [1...4])
    }

    @Test func `an answer in flight at midnight belongs to the old day`() async throws {
        let test = try TestClient(network: .stretches())
        var policy = Policy.fresh(for: .hours(1))
        policy.freshness = .untilMidnight
        let query = RangeQuery<Int, Int>("midnight", policy: policy) {
            try await RangeQuery.tens.fetch($0, $1)
        }
        test.network.hold()
        async let values = test.client.value(of: query, in: 1...4)
        try await test.network.waitForHeld(1)
        test.wall.set(CalendarDay(containing: test.wall.now(), in: .gmt).next.start(in: .gmt))
        test.network.release()

        #expect(try await values.count == 4)
        #expect(test.client.cached(query, in: 1...4).stale == [1...4])
    }

    @Test func `polling fetches observed ranges even if they are fresh`() async throws {
        let test = try TestClient(network: .stretches())
        var updates = test.client.updates(of: .tens, in: 1...4).makeAsyncIterator()
        var state = try #require(await updates.next())
        while !state.isComplete { state = try #require(await updates.next()) }
        test.client.queries.refetch(RangeQuery.tens.key)
        try await test.network.waitForRequests(2)

        #expect(test.network.paths == ["/numbers/1/4", "/numbers/1/4"])
    }

    @Test func `a policy's adaptive freshness makes no range stale`() async throws {
        let test = try TestClient()
        let policy = Policy.fresh(for: .hours(1)).adaptive(within: .seconds(1)...(.seconds(2)))
        let query = RangeQuery.ones("adaptive", policy)
        _ = try await test.client.value(of: query, in: 1...4)
        test.wall.advance(by: .minutes(5))

        #expect(test.client.cached(query, in: 1...4).isComplete)
    }

    @Test func `ranges at both ends of the integers are read or refused`() async throws {
        let test = try TestClient()
        let query = RangeQuery.ones("ends", .fresh(for: .hours(1)))
        let last = try await test.client.value(of: query, in: (.max - 10)...(.max - 2))
        let first = try await test.client.value(of: query, in: .min...(.min + 8))
        #expect(last.count == 9 && first.count == 9)
        _ = try await test.client.value(of: query, in: (.max - 20)...(.max - 1))
        for range in [Int.min...0, 0...Int.max, Int.min...Int.max, Int.max...Int.max] {
            await #expect(throws: SanguineError.rangeTooLong(limit: RangeLimits.readSpan)) {
                try await test.client.value(of: query, in: range)
            }
            var updates = test.client.updates(of: query, in: range).makeAsyncIterator()
            #expect(await updates.next()?.error?.code == "range_too_long")
        }
        #expect(test.client.cached(query, in: .min...0).values.count == 9)
        test.client.invalidate(query, in: 0...Int.max)

        #expect(
            test.client.cached(query, in: .min...(.max - 1)).stale == [(.max - 20)...(.max - 1)]
        )
    }

    @Test func `the next user does not see the error of the previous user's fetch`() async throws {
        let authorizer = TestAuthorizer()
        let test = try TestClient(network: .stretches(), authorizer: authorizer)
        test.network.script(.status(404), .status(404))
        var updates = test.client.updates(of: .tens, in: 1...4).makeAsyncIterator()
        var state = try #require(await updates.next())
        while state.error == nil { state = try #require(await updates.next()) }
        authorizer.change(to: nil, in: test.client)
        while state.error != nil { state = try #require(await updates.next()) }

        #expect(state.missing == [1...4])
    }

    @Test func `a key used by another query is a conflict, and its updates end`() async throws {
        let test = try TestClient()
        let other = ValueQuery<String>("shared", policy: .fresh(for: .hours(1))) { _ in "one" }
        _ = try await test.client.value(of: other)
        let query = RangeQuery.ones("shared", .fresh(for: .hours(1)))
        await #expect(throws: SanguineError.conflictingQuery(name: "shared")) {
            try await test.client.value(of: query, in: 1...4)
        }
        var updates = test.client.updates(of: query, in: 1...4).makeAsyncIterator()
        while await updates.next() != nil {}

        #expect(test.client.cached(other) == "one")
    }

    @Test func `each index has its own retention time, extended while it is observed`()
        async throws
    {
        let test = try TestClient(network: .stretches())
        let query = RangeQuery<Int, Int>("kept", policy: .forever.kept(for: .minutes(10))) {
            try await RangeQuery.tens.fetch($0, $1)
        }
        _ = try await test.client.value(of: query, in: 1...4)
        test.wall.advance(by: .minutes(6))
        _ = try await test.client.value(of: query, in: 7...8)
        test.wall.advance(by: .minutes(5))
        let known = test.client.cached(query, in: 1...8)
        #expect(known.values == [7: 70, 8: 80])
        #expect(known.missing == [1...6])

        let updates = test.client.updates(of: query, in: 7...8)
        test.wall.advance(by: .minutes(10))
        #expect(test.client.cached(query, in: 7...8).values == [7: 70, 8: 80])
        withExtendedLifetime(updates) {}
        _ = try await test.client.value(of: query, in: 1...2)
        #expect(test.network.paths == ["/numbers/1/4", "/numbers/7/8", "/numbers/1/2"])
    }

    @Test func `a refresh after an invalidation is one fetch in the metrics`() async throws {
        let test = try TestClient(network: .stretches())
        var updates = test.client.updates(of: .tens, in: 1...4).makeAsyncIterator()
        var state = try #require(await updates.next())
        while !state.isComplete || state.isFetching { state = try #require(await updates.next()) }
        test.network.hold()
        test.client.invalidate(all: "tens")
        try await test.network.waitForHeld(1)
        while !state.isFetching { state = try #require(await updates.next()) }
        test.network.release()
        while !state.isComplete || state.isFetching { state = try #require(await updates.next()) }
        let row = try #require(test.client.metrics.summary()[query: "tens"])

        #expect(row.flights == 2 && row.inFlight == 0 && row.failures == 0)
    }

    @Test func `each request is a fetch in the metrics, with the policy's priority`() async throws {
        let test = try TestClient()
        let policy = Policy.fresh(for: .hours(1)).priority(.visible)
        let query = RangeQuery<Int, Int>("counted", policy: policy) { request, range in
            [range.lowerBound: request.priority.current == .visible ? 1 : 0]
        }
        let values = try await test.client.value(of: query, in: 1...400)
        let row = try #require(test.client.metrics.summary()[query: "counted"])

        #expect(values == [1: 1, 367: 1])
        #expect(row.flights == 2 && row.inFlight == 0 && row.failures == 0)
    }
}
