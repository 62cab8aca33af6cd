import Observation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Ranges as views observe them.
@Suite("Range model", .bounded)
@MainActor
struct RangeModelTests {
    private func watchers(_ client: SanguineClient) -> Int {
        client.queries.source(of: RangeQuery.tens).watcherCount
    }

    @Test func `models of one range follow it together`() async throws {
        let test = try TestClient(network: .stretches())
        let first = test.client.model(.tens, in: 1...4)
        let second = test.client.model(.tens, in: 1...4)
        try await eventually("the range is complete") { first.state.isComplete }

        #expect(second.state == first.state)
        #expect(watchers(test.client) == 1)
    }

    @Test func `a model that shows another range does not affect the others`() throws {
        let test = try TestClient(network: .stretches())
        let first = test.client.model(.tens, in: 1...4)
        let second = test.client.model(.tens, in: 1...4)
        second.show(5...8)

        #expect(first.range == 1...4 && second.range == 5...8)
        #expect(watchers(test.client) == 2)
    }

    @Test(arguments: [false, true])
    func `a range is followed until the last model that shows it is released`(
        isThereAtOnce: Bool
    ) async throws {
        let test = try TestClient(network: .stretches())
        if isThereAtOnce { _ = try await test.client.value(of: .tens, in: 1...4) }
        var first: RangeModel<Int, Int>? = test.client.model(.tens, in: 1...4)
        var second: RangeModel<Int, Int>? = test.client.model(.tens, in: 1...4)
        await turns()
        try await eventually("the range is complete") { first?.state.isComplete == true }
        first = nil
        #expect(watchers(test.client) == 1)
        second = nil
        try await eventually("no observer follows the range") { watchers(test.client) == 0 }

        #expect(second == nil && first == nil)
    }

    @Test func `simultaneous changes arrive in one turn`() async throws {
        let test = try TestClient(network: .stretches())
        let model = test.client.model(.tens, in: 1...8)
        try await eventually("the range is complete") {
            model.state.isComplete && !model.state.isFetching
        }
        test.network.hold()
        test.client.invalidate(.tens, in: 1...1)
        test.client.invalidate(.tens, in: 3...3)
        #expect(model.state.isComplete)
        try await eventually("the range is stale") { !model.state.isComplete }

        #expect(model.state.stale == [1...1, 3...3])
    }

    @Test func `a model has the values once a read returns on the main actor`() async throws {
        let test = try TestClient(network: .stretches())
        let model = test.client.model(.tens, in: 1...4)
        try await eventually("the range is complete") { model.state.isComplete }
        for round in 1...50 {
            test.client.invalidate(.tens, in: 1...4)
            _ = try await test.client.value(of: .tens, in: 1...4)
            try #require(model.state.isComplete, "Round \(round)")
        }
    }

    @Test func `a view is notified when its model shows another range`() throws {
        let test = try TestClient(network: .stretches())
        let model = test.client.model(.tens, in: 1...4)
        let isTold = Mutex(false)
        withObservationTracking {
            _ = model.state
        } onChange: {
            isTold.withLock { $0 = true }
        }
        model.show(5...8)

        #expect(isTold.withLock { $0 })
    }
}
