import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Values of ranges that the app sets itself.
@Suite("Setting and updating ranges", .bounded)
struct RangeSetTests {
    @Test func `a range that is set is known, with and without values`() async throws {
        let test = try TestClient(network: .stretches())

        #expect(test.client.set([1: 7, 3: 9], for: .tens, in: 1...3))
        let values = try await test.client.value(of: .tens, in: 1...3)

        #expect(values == [1: 7, 3: 9])
        #expect(test.network.requests.isEmpty)
    }

    @Test func `only values that were not set are fetched`() async throws {
        let test = try TestClient(network: .stretches())
        test.client.set([1: 7], for: .tens, in: 1...2)

        let values = try await test.client.value(of: .tens, in: 1...4)

        #expect(values == [1: 7, 3: 30, 4: 40])
        #expect(test.network.paths == ["/numbers/3/4"])
    }

    @Test func `a fetch in flight does not overwrite values that are set or updated`() async throws
    {
        let test = try TestClient(network: .stretches())
        _ = try await test.client.value(of: .tens, in: 1...1)
        test.client.invalidate(.tens, in: 1...1)
        test.network.hold()
        let reading = Task { try await test.client.value(of: .tens, in: 1...4) }
        try await test.network.waitForHeld(1)

        test.client.set([2: 7], for: .tens, in: 2...2)
        test.client.update(.tens, at: 1) { $0 = 8 }
        test.network.release()
        let values = try await reading.finished()

        #expect(values == [1: 8, 2: 7, 3: 30, 4: 40])
    }

    @Test func `an update changes, inserts and removes a value at known indices`() async throws {
        let test = try TestClient(network: .stretches())
        _ = try await test.client.value(of: .tens, in: 1...5)

        #expect(test.client.update(.tens, at: 1) { $0 = ($0 ?? 0) + 1 })
        #expect(test.client.update(.tens, at: 2) { $0 = nil })
        #expect(test.client.update(.tens, at: 5) { $0 = 50 })  // Known to have no value.
        #expect(!test.client.update(.tens, at: 6) { $0 = 60 })

        #expect(test.client.cached(.tens, in: 1...6).values == [1: 11, 3: 30, 4: 40, 5: 50])
    }

    @MainActor
    @Test func `a model shows values that are set`() async throws {
        let test = try TestClient(network: .stretches())
        test.client.set([1: 7], for: .tens, in: 1...2)
        let model = test.client.model(.tens, in: 1...2)

        test.client.update(.tens, at: 2) { $0 = 8 }

        try await eventually("the model has both values") { model.state.values.count == 2 }
        #expect(model.state.values == [1: 7, 2: 8])
    }

    @Test func `setting a range beyond the limit is refused`() throws {
        let test = try TestClient(network: .stretches())

        #expect(!test.client.set([:], for: .tens, in: 1...(RangeLimits.readSpan + 1)))
        #expect(!test.client.update(.tens, at: .max) { $0 = 1 })
    }
}
