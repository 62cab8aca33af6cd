import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The samples of `CONTRIBUTING.md`.
@Suite("Contributing snippets", .bounded)
struct ContributingSnippets {
    @Test func `a moment is written in UTC with milliseconds`() {
        let moment = Timestamp(millisecondsSince1970: 1_250)

        #expect(moment.description == "1970-01-01T00:00:01.250Z")
    }

    @Test func `a wait is bounded`() async throws {
        let network = ScriptedTransport { _ in .json(["name": "Ada"]) }
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        let client = try SanguineClient(configuration)
        network.hold()

        let caller = Task { try await client.value(of: .profile("42")) }
        try await network.waitForHeld(1)  // An event wakes this wait.
        try await eventually("one is sent") { network.inFlight == 1 }  // No event, so this polls.
        network.release()
        #expect(try await caller.finished().name == "Ada")  // Not `value`, which has no limit.
    }
}
