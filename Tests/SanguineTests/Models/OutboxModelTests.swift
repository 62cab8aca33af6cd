import Foundation
import Observation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// The outbox as a view observes it.
@MainActor
@Suite("Outbox model", .bounded)
struct OutboxModelTests {
    private let fixture = SongFixture()

    @Test func `an operation is in the model when perform returns`() throws {
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.outbox.model
        #expect(model.isAllSent && model.pending.isEmpty)
        let receipt = try client.perform(LikeSong(song: "a"))

        #expect(!model.isAllSent)
        #expect(model.waiting.map(\.id) == [receipt.id])
        #expect(model.waiting.first?.name == "song.like" && model.waiting.first?.lane == "a")
        #expect(model.waiting.first?.created == fixture.wall.now())
        #expect(model.summary.unsent == 1)
    }

    @Test func `a record mutation is in the model when perform returns`() throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.outbox.model
        try client.add("a")

        #expect(model.waiting.map(\.name) == ["counter.count"] && !model.isAllSent)
    }

    @Test func `a new model has the existing operations at once`() throws {
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.perform(LikeSong(song: "a"))

        #expect(client.outbox.model.waiting.count == 1 && !client.outbox.model.isAllSent)
    }

    @Test func `the model reports operations in flight and when all are sent`() async throws {
        let client = try fixture.client()
        let model = client.outbox.model
        fixture.network.hold()
        try client.perform(LikeSong(song: "a"))
        try await fixture.network.waitForHeld(1)
        #expect(model.sending.count == 1 && model.waiting.isEmpty && !model.isAllSent)
        fixture.network.release()
        try await eventually("everything is sent") { model.isAllSent }
        try await eventually("everything is settled") { model.pending.isEmpty }

        #expect(model.summary == Outbox.Summary())
    }

    @Test func `the model reports operations that wait for a retry, and why`() async throws {
        let client = try fixture.client()
        let model = client.outbox.model
        fixture.server.fail(.status(500))
        try client.perform(LikeSong(song: "a"))
        try await eventually("the operation has failed") { model.sending.first?.lastFailure != nil }

        #expect(model.sending.first?.lastFailure?.code == "http_500")
    }

    @Test func `a refused operation can be retried`() async throws {
        let client = try fixture.client()
        let model = client.outbox.model
        fixture.server.fail(.status(422))
        try client.perform(LikeSong(song: "a"))
        try await eventually("the operation is refused") { model.refused.count == 1 }
        let refused = try #require(model.refused.first)
        #expect(refused.problem.status == 422 && refused.created == fixture.wall.now())
        #expect(model.isAllSent)
        fixture.connectivity.disconnect()
        let receipt = try model.retry(refused.id)

        #expect(model.refused.isEmpty && model.waiting.map(\.id) == [receipt.id])
    }

    @Test func `a first read is consistent with the other properties`() throws {
        let client = try fixture.client()
        let model = client.outbox.model
        fixture.server.fail(.status(422))
        fixture.network.hold()
        try client.perform(LikeSong(song: "a"))
        #expect(!model.isAllSent)
        fixture.network.release()
        let end = ContinuousClock.now + TestingLimits.wait
        var waits: Bool { client.outbox.refused.isEmpty && ContinuousClock.now < end }
        while waits {}  // tidy: allow busy-wait: holds the main actor, so that no turn comes.
        try #require(client.outbox.refused.count == 1, "the refusal")

        #expect(!model.isAllSent, "No turn has passed.")
        #expect(model.refused.count == 1)
        #expect(model.isAllSent && model.summary == client.outbox.summary)
    }

    @Test func `a refused operation can be discarded`() async throws {
        let client = try fixture.client()
        let model = client.outbox.model
        fixture.server.fail(.status(422))
        try client.perform(LikeSong(song: "a"))
        try await eventually("the operation is refused") { model.refused.count == 1 }
        try model.discard(try #require(model.refused.first).id)

        #expect(model.refused.isEmpty && model.isAllSent)
    }

    @Test func `a queued operation can be withdrawn`() throws {
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.outbox.model
        let receipt = try client.perform(LikeSong(song: "a"))

        #expect(try model.withdraw(receipt.id))
        #expect(model.isAllSent && model.pending.isEmpty)
    }

    @Test func `the model follows the user after a sign-out`() async throws {
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.outbox.model
        try client.perform(LikeSong(song: "a"))
        fixture.authorizer.change(to: nil, in: client)
        #expect(model.isAllSent && model.pending.isEmpty)
        let receipt = try client.perform(LikeSong(song: "b"))

        #expect(model.waiting.map(\.id) == [receipt.id])
    }

    @Test func `views share one model, and an equal list notifies no reader`() throws {
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.outbox.model
        #expect(client.outbox.model === model)
        let changes = Mutex(0)
        withObservationTracking {
            _ = model.refused
        } onChange: {
            changes.withLock { $0 += 1 }
        }
        try client.perform(LikeSong(song: "a"))

        #expect(changes.withLock { $0 } == 0)
    }

    @Test func `a view is notified once of all changes in one turn`() throws {
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.outbox.model
        let changes = Mutex(0)
        withObservationTracking {
            _ = model.pending
        } onChange: {
            changes.withLock { $0 += 1 }
        }
        for _ in 1...10 { try client.perform(LikeSong(song: "a")) }

        #expect(changes.withLock { $0 } == 1 && model.pending.count == 10)
    }

    @Test func `an operation that another thread performs appears a turn later`() async throws {
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let model = client.outbox.model
        let receipt = try await Task.detached { try client.perform(LikeSong(song: "a")) }
            .finished()

        try await eventually("the operation is in the model") { !model.isAllSent }
        #expect(model.waiting.map(\.id) == [receipt.id])
    }

    @Test func `the model is released with the client`() throws {
        fixture.connectivity.disconnect()
        var client: SanguineClient? = try fixture.client()
        weak let released = client
        let model = client?.outbox.model
        try client?.perform(LikeSong(song: "a"))
        client = nil

        #expect(released == nil)
        #expect(throws: SanguineError.closed) {
            _ = try model?.withdraw(Identifier(at: Timestamp(millisecondsSince1970: 0)))
        }
    }
}
