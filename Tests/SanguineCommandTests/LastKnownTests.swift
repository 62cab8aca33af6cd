import Foundation
import Sanguine
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineCommand

@Suite("Commands without a server", .bounded)
struct LastKnownTests {
    private func client(_ network: ScriptedTransport) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory(
            server: URL(string: "http://sanguine.test")
        )
        configuration.transport = network
        configuration.delay = ManualClock()
        configuration.retries = false
        return try SanguineClient(configuration)
    }

    @Test func `a slow server is given two seconds`() async throws {
        let network = ScriptedTransport()
        let client = try client(network)
        defer { client.close() }
        let delay = ManualClock()
        network.hold()
        async let failure = LastKnown.refresh(.balance, of: client, delay: delay)
        try await network.waitForHeld(1)
        try await delay.waitForSleepers(1)
        #expect(delay.timeToNextWake == .seconds(2))
        delay.advance(by: .seconds(2))

        #expect(await failure == .transport(.timedOut))
    }

    @Test func `an unreachable server causes no wait`() async throws {
        let network = ScriptedTransport()
        let client = try client(network)
        defer { client.close() }

        let failure = await LastKnown.refresh(.quotas, of: client, delay: ManualClock())
        #expect(failure?.code == "offline")
        #expect(network.requests.count == 1)
    }

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("::1", "[::1]"), ("::", "[::]"),
    ])
    func `a server prints its address in the form of URLs`(host: String, written: String) {
        var settings = ServerSettings()
        settings.http.host = host
        #expect(settings.http.urlHost == written)
    }
}
