import Foundation
import Observation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// A view that requests a model each time it is drawn and retains none.
@MainActor
private final class DrawnView<Shown: Equatable & Sendable> {
    private(set) var shown: [Shown] = []
    private let body: () -> Shown
    var isGone = false

    init(_ body: @escaping () -> Shown) {
        self.body = body
        draw()
    }

    private func draw() {
        let now = withObservationTracking(body) { [weak self] in
            Task { @MainActor [weak self] in
                if self?.isGone == false { self?.draw() }
            }
        }
        if shown.last != now { shown.append(now) }
    }
}

/// Models created in a view's `body` and dropped there keep following.
@MainActor
@Suite("Unretained models", .bounded)
struct UnheldModelTests {
    @Test func `a query's model follows the view that requests it, and fetches once`() async throws
    {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        let view = DrawnView { test.client.model(.profile("ada")).value?.name }
        try await test.network.waitForHeld(1)
        await turns()
        test.network.release()
        try await eventually("the view is drawn with the value") { view.shown.last == "ada 1" }
        await turns()
        for number in 1...3 {
            test.client.set(Profile(name: "\(number)"), for: .profile("ada"))
            try await eventually("the view is drawn again") { view.shown.last == "\(number)" }
            await turns()
        }

        #expect(view.shown == [nil, "ada 1", "1", "2", "3"])
        #expect(test.network.requests.count == 1)
    }

    @Test func `a list's model follows the view that requests it`() async throws {
        let fixture = TrackFixture()
        let client = try fixture.client()
        let view = DrawnView { client.model(.tracks).items.first?.title }
        try await eventually("the view is drawn with the list") { view.shown.last == "Untitled" }
        await turns()
        fixture.connectivity.disconnect()
        for title in ["one", "two"] {
            try client.perform(RetitleTrack(track: 1, title: title))
            try await eventually("the view is drawn again") { view.shown.last == title }
            await turns()
        }

        #expect(view.shown.suffix(3) == ["Untitled", "one", "two"])
        #expect(fixture.network.requests.count == 1)
    }

    @Test func `a range's model follows the view that requests it`() async throws {
        let test = try TestClient(network: .stretches())
        test.network.hold()
        let view = DrawnView { test.client.model(.tens, in: 1...4).state.values.count }
        try await test.network.waitForHeld(1)
        await turns()
        test.network.release()
        try await eventually("the view is drawn with the values") { view.shown.last == 4 }
        await turns()
        let source = test.client.queries.source(of: RangeQuery<Int, Int>.tens)

        #expect(view.shown == [0, 4] && source.watcherCount == 1)
        #expect(test.network.requests.count == 1)
    }

    @Test func `a model of records follows the view that requests it`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let view = DrawnView { client.model(.record(Counter.self, .of("a"))).value?.count }
        for count in 1...3 as ClosedRange<Int64> {
            await turns()
            try client.add("a")
            try await eventually("the view is drawn again") { view.shown.last == count }
        }

        #expect(view.shown == [nil, 1, 2, 3])
    }

    @Test func `a model of a closure over records follows too`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let total = RecordQuery(reading: Counter.collection) { records in
            records.records(Counter.self).reduce(0) { $0 + $1.count }
        }
        let view = DrawnView { client.model(total).value }
        for count in 1...3 as ClosedRange<Int64> {
            await turns()
            try client.add("c\(count)")
            try await eventually("the view is drawn again") { view.shown.last == count }
        }

        #expect(view.shown == [0, 1, 2, 3])
    }

    @Test func `the outbox's model follows the view that requests it`() async throws {
        let fixture = SongFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let view = DrawnView { client.outbox.model.waiting.count }
        for count in 1...3 {
            await turns()
            try client.perform(LikeSong(song: "a"))
            try await eventually("the view is drawn again") { view.shown.last == count }
        }

        #expect(view.shown == [0, 1, 2, 3])
    }

    @Test func `a model that is dropped and requested again in one turn is the same`() throws {
        let test = try TestClient(network: .profiles())
        let first = ObjectIdentifier(test.client.model(.profile("ada")))
        #expect(ObjectIdentifier(test.client.model(.profile("ada"))) == first)
        #expect(test.network.requests.count <= 1)
    }

    @Test func `a model without a view is released some time after the next change`() async throws {
        let test = try TestClient(network: .profiles())
        test.client.set(Profile(name: "0"), for: .profile("ada"))
        weak var model: ValueModel<Profile>?
        let view = DrawnView {
            let current = test.client.model(.profile("ada"))
            model = current
            return current.value?.name
        }
        await turns()
        #expect(model != nil)
        view.isGone = true
        test.client.set(Profile(name: "1"), for: .profile("ada"))
        try await test.delay.waitForSleepers(1)
        #expect(model != nil)
        test.delay.advance(by: ClientLimits.unheldModelGrace)
        try await eventually("the model is released") { model == nil }
    }

    @Test func `a retained model is released with its owner`() async throws {
        let test = try TestClient(network: .profiles())
        test.client.set(Profile(name: "0"), for: .profile("ada"))
        var held: ValueModel<Profile>? = test.client.model(.profile("ada"))
        weak let model = held
        await turns()
        #expect(held != nil)
        held = nil

        #expect(model == nil)
    }

    @Test func `a model that is dropped and requested again in one turn is not fetched again`()
        async throws
    {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        var held: ValueModel<Profile>? = test.client.model(.profile("ada"))
        try await test.network.waitForHeld(1)
        await turns()
        #expect(held != nil)
        held = nil
        let next = test.client.model(.profile("ada"))
        test.network.release()
        try await eventually("the value is shown") { next.value != nil }

        #expect(test.network.requests.count == 1)
    }

    @Test func `only the most recent unretained models are kept`() async throws {
        let test = try TestClient(network: .profiles())
        weak var first: ValueModel<Profile>?
        weak var last: ValueModel<Profile>?
        for number in 0...ClientLimits.unheldModels {
            test.client.set(Profile(name: "0"), for: .profile("\(number)"))
            let model = test.client.model(.profile("\(number)"))
            if number == 0 { first = model }
            last = model
        }
        try await eventually("the first model is released") { first == nil }

        #expect(last != nil)
    }

    @Test func `kept models do not keep a client alive`() async throws {
        var test: TestClient? = try TestClient(network: .profiles())
        test?.client.set(Profile(name: "0"), for: .profile("ada"))
        weak let released = test?.client
        _ = test?.client.model(.profile("ada"))
        _ = test?.client.outbox.model
        await turns()
        test = nil

        #expect(released == nil)
    }
}
