import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct ObservingTests {
    private static let counters = RecordQuery(reading: Counter.collection) { records in
        records.records(Counter.self).map(\.count)
    }

    @Test func `updates begin with the current value and follow changes`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.add("a")
        var updates = client.updates(of: Self.counters).makeAsyncIterator()
        #expect(await updates.next() == [1])
        try client.add("b", by: 5)
        #expect(await updates.next() == [1, 5])
        client.close()
        #expect(await updates.next() == nil)
    }

    @Test func `a first value waits for the pull in progress, and sends no other`() async throws {
        let fixture = RecordsFixture()
        fixture.authority.set("a", to: 3)
        fixture.network.hold()
        let client = try fixture.client()
        _ = client.count("a")
        try await fixture.network.waitForHeld(1)

        let value = Task { try await client.value(of: Self.counters) }
        try await eventually("the value waits") { client.users.current.feed.waiterCount == 1 }
        fixture.network.release()

        #expect(try await value.finished() == [3])
        try await client.waitUntilIdle()
        #expect(fixture.pulls.count == 1)
    }

    @Test func `a value equal to the last one is not delivered`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let query = RecordQuery(reading: Counter.collection) { $0.records(Counter.self).count }
        var updates = client.updates(of: query).makeAsyncIterator()
        #expect(await updates.next() == 0)
        try client.add("a")
        #expect(await updates.next() == 1)
        try client.add("a")
        try client.add("b")
        #expect(await updates.next() == 2)
    }

    @Test func `all values that a query reads belong to one state`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.add("a")
        try client.add("b")
        let writing = Task {
            for number in 0..<300 { try client.perform(MoveOne(seed: number)) }
        }
        let sum = RecordQuery(reading: Counter.collection) { records in
            let one = records.record(Counter.self, .of("a"))?.count ?? 0
            return one + (records.record(Counter.self, .of("b"))?.count ?? 0)
        }
        for _ in 0..<300 { #expect(client.cached(sum) == 2) }
        try await writing.finished()
    }

    @MainActor
    @Test func `a model has the value at once and follows changes`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.add("a")
        let model = client.model(Self.counters)
        #expect(model.value == [1])
        try client.add("a")
        try await eventually("the model follows") { model.value == [2] }
    }

    @Test func `records are found by an index, with pending changes`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try client.perform(Count(id: .of("a"), group: "x"))
        try client.perform(Count(id: .of("b"), group: "x"))
        try await client.synchronize()
        fixture.connectivity.disconnect()
        try client.perform(Count(id: .of("b"), group: "y"))
        try client.perform(Count(id: .of("c"), group: "x"))
        let found = client.records(where: Counter.byGroup, is: "x")
        #expect(found.map(\.id) == [.of("a"), .of("c")])
    }

    @Test func `the outbox reports how many operations wait`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        var updates = client.outbox.updates.makeAsyncIterator()
        #expect(await updates.next() == Outbox.Summary())
        try client.add("a")
        #expect(await updates.next()?.unsent == 1)
        fixture.connectivity.connect()
        var last: Outbox.Summary?
        while last != Outbox.Summary() { last = await updates.next() }
        #expect(fixture.authority.count("a") == 1)
    }
}

/// Moves one from a counter to another; their sum stays the same.
struct MoveOne: RecordMutation {
    static let name = "counter.move"
    let seed: Int

    func apply(to records: inout Records) throws {
        let (from, to) = seed.isMultiple(of: 2) ? ("a", "b") : ("b", "a")
        records.increment(.counter(from), "count", by: -1)
        records.increment(.counter(to), "count", by: 1)
    }
}
