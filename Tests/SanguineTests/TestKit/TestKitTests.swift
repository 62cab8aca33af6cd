import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite("Test kit", .bounded)
struct TestKitTests {
    @Test func `sleepers wake once the clock has passed their deadline`() async throws {
        let clock = ManualClock()
        let short = Task { try await clock.sleep(for: .seconds(1)) }
        let long = Task { try await clock.sleep(for: .seconds(5)) }
        try await clock.waitForSleepers(2)
        clock.advance(by: .milliseconds(999))
        #expect(clock.sleeperCount == 2)
        clock.advance(by: .milliseconds(1))
        try await short.finished()
        #expect(clock.sleeperCount == 1)
        clock.advance(by: .seconds(100))
        try await long.finished()
        #expect(clock.now.offset == .seconds(101))
    }

    @Test func `a cancelled sleeper throws and is removed`() async throws {
        let clock = ManualClock()
        let sleeper = Task { try await clock.sleep(for: .seconds(1)) }
        try await clock.waitForSleepers(1)
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.finished() }
        #expect(clock.sleeperCount == 0)
    }

    @Test func `a deadline that has passed causes no sleep`() async throws {
        let clock = ManualClock()
        try await clock.sleep(for: .zero)
        #expect(clock.sleeperCount == 0)
    }

    @Test func `equal seeds produce equal numbers`() {
        var (first, second, third) = (
            SplitMix64(seed: 1), SplitMix64(seed: 1), SplitMix64(seed: 2)
        )
        let numbers = (1...100).map { _ in first.next() }
        #expect(numbers == (1...100).map { _ in second.next() })
        #expect(numbers != (1...100).map { _ in third.next() })
        var reference = SplitMix64(seed: 1_234_567)
        #expect(reference.next() == 6_457_827_717_110_365_317)
    }

    @Test func `held answers are released one by one, by request`() async throws {
        let network = ScriptedTransport { .json($0.url.lastPathComponent) }
        network.hold()
        let urls = try ["a", "b"].map { try #require(URL(string: "http://x.test/\($0)")) }
        let calls = urls.map { url in
            Task { try await network.send(TransportRequest(url: url)).body }
        }
        try await network.waitForHeld(2)
        try await network.releaseFirst { $0.url.lastPathComponent == "b" }
        #expect(try await calls[1].finished() == Data("\"b\"".utf8))
        #expect(network.inFlight == 1)
        await #expect(throws: WaitTimeout.self) {
            try await network.releaseFirst(within: .milliseconds(10)) {
                $0.url.lastPathComponent == "c"
            }
        }
        network.release()
        #expect(try await calls[0].finished() == Data("\"a\"".utf8))
        #expect(network.mostInFlight == 2)
    }

    @Test func `a held request has not arrived`() async throws {
        let network = ScriptedTransport { .json($0.url.lastPathComponent) }
        network.hold(.requests)
        let url = try #require(URL(string: "http://x.test/a"))
        let call = Task { try await network.send(TransportRequest(url: url)).body }
        try await network.waitForHeld(1)
        #expect(network.requests.isEmpty && network.held.map(\.url) == [url])
        let other = Task { try await network.send(TransportRequest(url: url)) }
        try await network.waitForHeld(2)
        other.cancel()
        try await network.waitForCancelled(1)
        network.release()
        #expect(try await call.finished() == Data("\"a\"".utf8))
        #expect(network.requests.count == 1)
    }

    @Test func `a network that ignores cancellation continues`() async throws {
        let network = ScriptedTransport { .json($0.url.lastPathComponent) }
        network.ignoresCancellation = true
        network.hold()
        let url = try #require(URL(string: "http://x.test/a"))
        let call = Task { try await network.send(TransportRequest(url: url)).body }
        try await network.waitForHeld(1)
        call.cancel()
        #expect(network.held.count == 1)
        network.release()
        #expect(try await call.finished() == Data("\"a\"".utf8))
        #expect(network.cancelled == 0)
    }

    @Test func `a client is idle once all its requests have ended`() async throws {
        let test = try TestClient(network: .profiles())
        try await test.client.waitUntilIdle()
        test.network.hold()
        test.client.prefetch(ValueQuery<Profile>.profile("ada"))
        try await test.network.waitForHeld(1)
        let vain = await #expect(throws: WaitTimeout.self) {
            try await test.client.waitUntilIdle(within: .milliseconds(30))
        }
        #expect(vain?.found == "still running: a fetch of profile/\"ada\"")
        test.network.release()
        try await test.client.waitUntilIdle()
        #expect(test.client.cached(.profile("ada"))?.name == "ada 1")
    }

    @Test func `operations and feed pulls count as work until they have ended`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        let client = try fixture.client { $0.recordPolling = nil }
        fixture.network.hold()
        try client.add("a")
        try await fixture.network.waitForHeld(2)
        #expect(Set(client.underWay) == ["operations", "a pull of the feed"])
        fixture.network.release()
        try await client.waitUntilIdle()
        #expect(client.count("a") == 1 && client.outbox.pending.isEmpty)
    }

    @Test func `scripted answers are used once and in order`() async throws {
        let network = ScriptedTransport()
        let url = try #require(URL(string: "http://x.test/"))
        network.script(.status(204), .fail(.timedOut))

        #expect(try await network.send(TransportRequest(url: url)).status == 204)
        await #expect(throws: TransportError.timedOut) {
            try await network.send(TransportRequest(url: url))
        }
        await #expect(throws: TransportError.offline("nothing is scripted")) {
            try await network.send(TransportRequest(url: url))
        }
    }
}
