import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A model changes before `perform` returns on the main actor: trap 44.
@Suite("Models that change at once", .bounded)
@MainActor
struct AnimatedModelTests {
    @Test func `a query's model shows a mutation when perform returns`() async throws {
        let fixture = TrackFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .track(1))
        let model = client.model(.track(1))
        let before = try #require(model.value?.plays)
        fixture.connectivity.disconnect()
        try client.perform(PlayTrack(track: 1))
        #expect(model.value?.plays == before + 1)
    }

    @Test func `a list's model shows a mutation when perform returns`() async throws {
        let fixture = TrackFixture()
        let client = try fixture.client()
        try await client.load(.tracks)
        let model = client.pages(.tracks)
        let first = try #require(model.items.first)
        fixture.connectivity.disconnect()
        try client.perform(RetitleTrack(track: first.id, title: "another"))
        #expect(model.items.first?.title == "another")
    }

    @Test func `a model of records shows a mutator when perform returns`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.model(.record(Counter.self, .of("a")))
        try client.add("a")
        #expect(model.value?.count == 1)
        try client.add("a")
        #expect(model.value?.count == 2)
    }

    @Test func `what was made before it changes nothing of it afterwards`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.model(.record(Counter.self, .of("a")))
        for count in 1...50 as ClosedRange<Int64> {
            try client.add("a")
            #expect(model.value?.count == count)
            await Task.yield()  // tidy: allow busy-wait: lets a late pass come in between.
            #expect(model.value?.count == count)
        }
    }
}
