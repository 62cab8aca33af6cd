import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The effects of a push arrive in the live feed; the client pulls only if they do not.
@Suite("Echo of operations", .bounded) struct EchoTests {
    private let network = EchoNetwork()

    /// Returns a client whose feed is live.
    private func client(of device: TestDevice) async throws -> SanguineClient {
        let client = try device.launch()
        try await client.synchronize()
        try await eventually("the feed is live") {
            device.delay.advance(by: .milliseconds(100))  // The feed waits after its first attempt.
            return client.users.current.feed.isLive
        }
        return client
    }

    @Test func `a write is not read back while the feed is live`() async throws {
        let device = TestDevice(network: network) { $0.register(.counters) }
        let client = try await client(of: device)
        let (pushes, pulls) = (network.count("/v1/sync/push"), network.count("/v1/sync/pull"))

        for number in 1...10 {
            try client.add("a")
            try await eventually("the operation is settled") { client.outbox.pending.isEmpty }
            #expect(client.count("a") == Int64(number))
        }
        try await client.waitUntilIdle()

        #expect(network.count("/v1/sync/push") - pushes == 10)
        #expect(network.count("/v1/sync/pull") == pulls)
    }

    @Test func `changes that do not arrive live are pulled`() async throws {
        network.mute()
        let device = TestDevice(network: network) { $0.register(.counters) }
        let client = try await client(of: device)
        let pulls = network.count("/v1/sync/pull")

        _ = try await client.add("a").outcome
        #expect(client.outbox.pending.map(\.phase) == [.acknowledged])
        #expect(network.count("/v1/sync/pull") == pulls)
        try await eventually("the operation is settled") {
            device.delay.advance(by: .milliseconds(500))
            return client.outbox.pending.isEmpty
        }

        #expect(network.count("/v1/sync/pull") > pulls)
        #expect(client.count("a") == 1)
    }

    @Test func `when the live feed ends, changes that it did not deliver are pulled at once`()
        async throws
    {
        network.mute()
        let device = TestDevice(network: network) { $0.register(.counters) }
        let client = try await client(of: device)
        _ = try await client.add("a").outcome
        let pulls = network.count("/v1/sync/pull")

        device.lifecycle.enterBackground()
        device.lifecycle.enterForeground()

        try await eventually("the operation is settled") { client.outbox.pending.isEmpty }
        #expect(network.count("/v1/sync/pull") > pulls)
    }
}

/// An authority whose requests are counted by path and whose streams can be silenced.
private final class EchoNetwork: StreamingTransport {
    private let authority = InMemoryAuthority(schema: .counters)
    private let paths = WatchedState<[String]>([])
    private let isMuted = WatchedState(false)

    func count(_ path: String) -> Int { paths.value.count { $0 == path } }

    /// Blocks all further stream data.
    func mute() { isMuted.withLock { $0 = true } }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        paths.withLock { $0.append(request.url.path()) }
        return try await authority.send(request)
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        guard isMuted.value else { return try await authority.stream(request) }
        return TransportStream(
            response: TransportResponse(
                status: 200,
                headers: ["Content-Type": "text/event-stream"]
            ),
            onCancel: {}
        )
    }
}
