import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite("Test kit", .bounded)
struct TestKitTests {
    @Test func `sleepers wake when the clock has passed their deadline, and not before`()
        async throws
    {
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

    @Test func `a cancelled sleeper throws and is gone`() async throws {
        let clock = ManualClock()
        let sleeper = Task { try await clock.sleep(for: .seconds(1)) }
        try await clock.waitForSleepers(1)
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.finished() }
        #expect(clock.sleeperCount == 0)
    }

    @Test func `a deadline that has passed is not slept for`() async throws {
        let clock = ManualClock()
        try await clock.sleep(for: .zero)
        #expect(clock.sleeperCount == 0)
    }

    @Test func `equal seeds give equal numbers`() {
        var (first, second, third) = (
            SplitMix64(seed: 1), SplitMix64(seed: 1), SplitMix64(seed: 2)
        )
        let numbers = (1...100).map { _ in first.next() }
        #expect(numbers == (1...100).map { _ in second.next() })
        #expect(numbers != (1...100).map { _ in third.next() })
        var reference = SplitMix64(seed: 1_234_567)
        #expect(reference.next() == 6_457_827_717_110_365_317)
    }

    @Test func `held answers leave one by one, by their requests`() async throws {
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
        await #expect(throws: VainWait.self) {
            try await network.releaseFirst(within: .milliseconds(10)) {
                $0.url.lastPathComponent == "c"
            }
        }
        network.release()
        #expect(try await calls[0].finished() == Data("\"a\"".utf8))
        #expect(network.mostInFlight == 2)
    }

    @Test func `scripted answers are given once and in order`() async throws {
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
