import Foundation
import Observation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Models as a view observes them, without a view.
@MainActor
@Suite("Query model", .bounded)
struct ValueModelTests {
    @Test func `a model goes from loading to ready`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        let model = test.client.model(.profile("ada"))
        #expect(model.phase == .loading)
        #expect(model.value == nil)
        try await test.network.waitForHeld(1)
        test.network.release()
        try await eventually("the fetch has ended") { model.phase != .loading }

        #expect(model.phase == .ready)
        #expect(model.value == Profile(name: "ada 1"))
        #expect(model.asOf == test.wall.now())
    }

    @Test func `a new model has the cached value`() async throws {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: .profile("ada"))
        let model = test.client.model(.profile("ada"))

        #expect(model.value == Profile(name: "ada 1"))
        #expect(model.phase == .ready)
    }

    @Test func `a failure without a value sets the phase, and a refresh recovers`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.script(.status(404))
        let model = test.client.model(.profile("ada"))
        try await eventually("the fetch has ended") { model.phase != .loading }
        #expect(model.phase == .failed)
        #expect(model.error?.code == "http_404")
        await model.refresh()

        #expect(model.phase == .ready)
        #expect(model.error == nil)
        #expect(model.value?.name == "ada 1")
    }

    @Test func `an equal value notifies no reader`() async throws {
        let test = try TestClient { _ in }
        let answer = ScriptedTransport.Answer.json(Profile(name: "ada"))
        test.network.script(answer, answer)
        let model = test.client.model(.profile("ada"))
        try await eventually("the value is shown") { model.phase == .ready }
        nonisolated(unsafe) var hasChanged = false
        withObservationTracking {
            _ = model.value
        } onChange: {
            hasChanged = true
        }
        await model.refresh()

        #expect(!hasChanged)
        #expect(test.network.requests.count == 2)
    }

    @Test func `views of one query share a model, and views of different queries do not`() throws {
        let test = try TestClient(network: .profiles())
        let one = test.client.model(.profile("ada"))
        let same = test.client.model(.profile("ada"))
        let other = test.client.model(.profile("bob"))

        #expect(one === same)
        #expect(one !== other)
    }

    @Test func `simultaneous changes arrive in one turn`() async throws {
        let test = try TestClient(network: .profiles())
        test.client.set(Profile(name: "0"), for: .profile("ada"))
        let model = test.client.model(.profile("ada"))
        nonisolated(unsafe) var changes = 0
        withObservationTracking {
            _ = model.value
        } onChange: {
            changes += 1
        }
        for number in 1...100 {
            test.client.set(Profile(name: "\(number)"), for: .profile("ada"))
        }
        #expect(model.value?.name == "0")
        try await eventually("the last change") { model.value?.name == "100" }

        #expect(changes == 1)
    }

    @Test func `a released model stops following`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        var model: ValueModel<Profile>? = test.client.model(.profile("ada"))
        weak let released = model
        try await test.network.waitForHeld(1)
        await turns()
        #expect(model != nil)
        model = nil

        #expect(released == nil)
        try await test.network.waitForCancelled(1)
    }
}
