import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// SwiftUI's function on Apple's platforms.
@MainActor
@discardableResult
private func withAnimation<Value>(_ body: () throws -> Value) rethrows -> Value { try body() }

/// The samples of the guide to models.
@MainActor
@Suite("Model snippets", .bounded)
struct ModelSnippets {
    @MainActor
    private final class Shown {
        var problems: [Problem] = []
    }

    private let shown = Shown()

    private func show(_ problem: Problem) { shown.problems.append(problem) }

    private func client(_ network: ScriptedTransport) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        configuration.register(Like.self)  // at launch, before the client is created
        return try SanguineClient(configuration)
    }

    @Test func `an animation around perform animates the change`() throws {
        let network = ScriptedTransport { _ in .json(Track(id: "1", likes: 1)) }
        let client = try client(network)
        defer { client.close() }
        network.hold()
        let id = "1"
        client.set(Track(id: id), for: .track(id))
        let track = client.model(of: id) { .track($0) }
        try withAnimation { try client.perform(Like(track: id)) }
        #expect(track.value?.likes == 1)
    }

    @Test func `the outbox model shows a view its queued and refused operations`() async throws {
        let client = try client(ScriptedTransport { _ in .status(422) })
        defer { client.close() }
        _ = try await client.perform(Like(track: "1")).outcome
        let outbox = client.outbox.model
        let badge = outbox.isAllSent ? "All sent" : "\(outbox.summary.unsent) to be sent"
        for operation in outbox.refused {
            show(operation.problem)
            try outbox.retry(operation.id)  // or discard(_:)
        }
        #expect(badge == "All sent")
        #expect(shown.problems.map(\.status) == [422])
    }
}
