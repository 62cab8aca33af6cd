import Foundation
import Sanguine
import SanguineTesting
import Testing

/// The samples of the test kit's guide.
@Suite("Testing snippets", .timeLimit(.minutes(5)))
struct TestingSnippets {
    let network = ScriptedTransport { _ in .json(["name": "Ada"]) }
    let clock = ManualWallClock()
    let delay = ManualClock()

    func client() throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        configuration.clock = clock
        configuration.delay = delay
        return try SanguineClient(configuration)
    }

    @Test func `a profile is fetched again after five minutes`() async throws {
        let client = try client()
        _ = try await client.value(of: .profile("42"))
        _ = try await client.value(of: .profile("42"))
        #expect(network.requests.count == 1)

        clock.advance(by: .minutes(5))
        _ = try await client.value(of: .profile("42"))
        #expect(network.requests.count == 2)
    }

    @Test func `a read that timed out is tried again`() async throws {
        let client = try client()
        network.script(.fail(.timedOut))

        async let reading = client.value(of: .profile("42"))
        await delay.waitForSleepers(2)  // The deadline of the read, and the wait before its retry.
        delay.advance(by: .seconds(2))

        let profile = try await reading
        #expect(profile.name == "Ada")
    }

    @Test func `two readers share a request`() async throws {
        let client = try client()
        network.hold()
        async let first = client.value(of: .profile("42"))
        async let second = client.value(of: .profile("42"))
        await network.waitForHeld(1)
        network.release()

        let profiles = try await [first, second]
        #expect(profiles.map(\.name) == ["Ada", "Ada"])
        #expect(network.requests.count == 1)
    }
}
