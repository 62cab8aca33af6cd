import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Models change before `perform` returns on the main actor.
@Suite("Immediate model changes", .bounded)
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
        try await client.value(of: .tracks)
        let model = client.model(.tracks)
        let first = try #require(model.items.first)
        fixture.connectivity.disconnect()
        try client.perform(RetitleTrack(track: first.id, title: "another"))
        #expect(model.items.first?.title == "another")
    }

    @Test func `a list's model with several pages shows inserted and removed rows`() async throws {
        let fixture = TrackFixture()
        let client = try fixture.client()
        try await client.loadTracks()
        let model = client.model(.tracks)
        #expect(model.items.map(\.id) == [1, 2, 3, 4])
        fixture.connectivity.disconnect()
        try client.perform(DropTrack(track: 3))
        #expect(model.items.map(\.id) == [1, 2, 4])
        let added = try client.perform(AppendTrack(track: 9))
        #expect(model.items.map(\.id) == [1, 2, 4, 9])
        #expect(try added.withdraw())
        #expect(model.items.map(\.id) == [1, 2, 4])
    }

    @Test func `models show at once that an operation is withdrawn`() async throws {
        let fixture = TrackFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .track(1))
        fixture.connectivity.disconnect()
        let model = client.model(.track(1))
        let receipt = try client.perform(PlayTrack(track: 1))
        #expect(model.value?.plays == 1)
        #expect(try receipt.withdraw())
        #expect(model.value?.plays == 0)
    }

    @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
    @Test func `the balance's model shows the hold before the call suspends`() async throws {
        let fixture = ClientFixture()
        let client = try await fixture.clientWithBalance()
        let model = client.model(.balance)
        #expect(model.value?.available == 100)
        fixture.authority.stop(ClientFixture.askPath, at: .request)
        let call = Task.immediate { try await client.call(Ask(question: "why?")) }
        #expect(model.value?.available == 97 && model.value?.held == 3)
        try await fixture.authority.reached(ClientFixture.askPath, at: .request)
        try await fixture.authority.release(ClientFixture.askPath, at: .request)
        #expect(try await call.finished() == "an answer")
    }

    @Test func `a model of all records shows a mutation and its withdrawal`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.model(.all(Counter.self))
        let receipt = try client.add("a")
        #expect(model.value.map(\.count) == [1])
        #expect(try receipt.withdraw())
        #expect(model.value.isEmpty)
    }

    @Test func `a model of records shows a mutation when perform returns`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.model(.record(Counter.self, .of("a")))
        try client.add("a")
        #expect(model.value?.count == 1)
        try client.add("a")
        #expect(model.value?.count == 2)
    }

    @Test func `an earlier update never overwrites a mutation that a model shows`() async throws {
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
