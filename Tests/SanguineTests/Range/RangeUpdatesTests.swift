import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Observing a range, with and without a model.
@Suite("Range updates", .bounded)
struct RangeUpdatesTests {
    @Test func `an observer receives the known values, then the missing ones`() async throws {
        let test = try TestClient(network: .stretches())
        _ = try await test.client.value(of: .tens, in: 1...4)
        test.network.hold()
        var updates = test.client.updates(of: .tens, in: 3...7).makeAsyncIterator()
        let first = try #require(await updates.next())
        try await test.network.waitForHeld(1)
        test.network.release()
        var last = first
        while !last.isComplete || last.isFetching { last = try #require(await updates.next()) }

        #expect(first.values == [3: 30, 4: 40])
        #expect(first.missing == [5...7])
        #expect(last.values == [3: 30, 4: 40, 6: 60, 7: 70])
        #expect(test.network.paths == ["/numbers/1/4", "/numbers/5/7"])
    }

    @Test func `the first state with fetched values is no longer fetching`() async throws {
        let test = try TestClient(network: .stretches())
        let seen = Mutex<[RangeValues<Int, Int>]>([])
        let watch = test.client.queries.source(of: RangeQuery.tens).watch(1...4) { state in
            seen.withLock { $0.append(state) }
        }
        try await eventually("the range is complete") {
            seen.withLock { $0.last?.isComplete == true && $0.last?.isFetching == false }
        }
        test.client.invalidate(.tens, in: 2...2)
        try await eventually("the range is fetched again") {
            test.network.requests.count == 2
                && seen.withLock { $0.last?.isComplete == true && $0.last?.isFetching == false }
        }
        watch?.end()

        let states = seen.withLock { $0 }
        #expect(states.contains { $0.isFetching })
        #expect(!states.contains { $0.isComplete && $0.isFetching })
    }

    @Test func `an observed range is fetched again when it is invalidated`() async throws {
        let test = try TestClient(network: .stretches())
        var updates = test.client.updates(of: .tens, in: 1...4).makeAsyncIterator()
        var state = try #require(await updates.next())
        while !state.isComplete { state = try #require(await updates.next()) }
        test.client.invalidate(.tens, in: 2...2)
        try await test.network.waitForRequests(2)
        test.client.invalidate(all: "tens")
        try await test.network.waitForRequests(3)
        while !state.isComplete || state.isFetching { state = try #require(await updates.next()) }

        #expect(test.network.paths.prefix(2) == ["/numbers/1/4", "/numbers/2/2"])
    }

    @Test func `an observer receives an error together with the known values`() async throws {
        let test = try TestClient(network: .stretches())
        _ = try await test.client.value(of: .tens, in: 1...4)
        test.network.script(.status(404), .status(404))
        var updates = test.client.updates(of: .tens, in: 3...7).makeAsyncIterator()
        var state = try #require(await updates.next())
        while state.error == nil { state = try #require(await updates.next()) }

        #expect(state.error?.code == "http_404")
        #expect(state.values == [3: 30, 4: 40])
    }

    @Test func `an observer that leaves cancels its requests`() async throws {
        let test = try TestClient(network: .stretches())
        test.network.hold()
        let watching = Task {
            for await _ in test.client.updates(of: .tens, in: 1...4) {}
        }
        try await test.network.waitForHeld(1)
        watching.cancel()
        try await test.network.waitForCancelled(1)

        #expect(!test.client.cached(.tens, in: 1...4).isFetching)
    }

    @Test func `closing the client ends updates`() async throws {
        let test = try TestClient(network: .stretches())
        var updates = test.client.updates(of: .tens, in: 1...4).makeAsyncIterator()
        var state = try #require(await updates.next())
        while !state.isComplete { state = try #require(await updates.next()) }
        test.client.close()
        while let next = await updates.next() { state = next }

        #expect(state.values == [1: 10, 2: 20, 3: 30, 4: 40])
        await #expect(throws: SanguineError.closed) {
            try await test.client.value(of: .tens, in: 1...4)
        }
    }

    @MainActor
    @Test func `a model shows the known part of another range at once`() async throws {
        let test = try TestClient(network: .stretches())
        _ = try await test.client.value(of: .tens, in: 1...4)
        let model = test.client.model(.tens, in: 1...2)
        #expect(model[2] == 20)
        model.show(3...6)
        #expect(model[3] == 30)
        #expect(model.range == 3...6)
        await model.refresh()
        try await eventually("the range is complete") { model.state.isComplete }

        #expect(model[6] == 60)
    }
}
