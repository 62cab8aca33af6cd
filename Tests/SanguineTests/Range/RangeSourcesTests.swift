import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

extension RangeQuery where Index == Int, Value == Int {
    fileprivate static func numbered(_ number: Int) -> RangeQuery {
        RangeQuery("numbered", number, policy: .fresh(for: .minutes(5))) { request, range in
            try await RangeQuery.tens.fetch(request, range)
        }
    }
}

/// There is one source for each range query, however many there are.
@Suite("Range sources", .bounded)
struct RangeSourcesTests {
    private func crowd(_ queries: QueryCache) {
        for number in 1...3 * RangeLimits.keepers {
            _ = queries.source(of: RangeQuery.numbered(number))
        }
    }

    @Test func `a source is shared with all later callers`() throws {
        let test = try TestClient()
        let first = test.client.queries.source(of: RangeQuery.numbered(0))
        crowd(test.client.queries)

        #expect(test.client.queries.source(of: RangeQuery.numbered(0)) === first)
    }

    @Test func `an observed range receives changes even if its source was evicted`() async throws {
        let test = try TestClient(network: .stretches())
        var updates = test.client.updates(of: .numbered(0), in: 1...4).makeAsyncIterator()
        var state = try #require(await updates.next())
        while !state.isComplete { state = try #require(await updates.next()) }
        crowd(test.client.queries)
        test.client.invalidate(.numbered(0), in: 2...2)
        try await test.network.waitForRequests(2)
        while !state.isComplete || state.isFetching { state = try #require(await updates.next()) }

        #expect(test.network.paths == ["/numbers/1/4", "/numbers/2/2"])
    }

    @Test func `more ranges than the limit can be in use at once`() async throws {
        let test = try TestClient(network: .stretches())
        let count = RangeLimits.keepers + 10
        let streams = (1...count).map { test.client.updates(of: .numbered($0), in: 1...2) }
        for stream in streams {
            var updates = stream.makeAsyncIterator()
            while let state = await updates.next(), !state.isComplete {}
        }

        #expect(test.network.paths.count == count)
    }

    @Test func `unused sources are released`() throws {
        let test = try TestClient()
        crowd(test.client.queries)

        #expect(test.client.queries.ranges.count <= RangeLimits.keepers)
    }

    @Test func `a source is released with its last observer`() async throws {
        let test = try TestClient(network: .stretches())
        weak var watched: RangeSource<Int, Int>?
        do {
            let stream = test.client.updates(of: .numbered(0), in: 1...2)
            watched = test.client.queries.source(of: RangeQuery.numbered(0))
            crowd(test.client.queries)
            #expect(watched != nil)
            try await stream.first("the range") { $0.isComplete && !$0.isFetching }
        }
        try await eventually("the source is released") { watched == nil }

        #expect(test.client.queries.ranges.count <= RangeLimits.keepers)
    }
}
