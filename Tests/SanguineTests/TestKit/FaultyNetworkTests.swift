import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Faulty network", .bounded)
struct FaultyNetworkTests {
    private let server = ScriptedTransport { .json($0.url.lastPathComponent) }
    private let clock = ManualClock()

    private func network(
        seed: UInt64 = 1,
        _ change: (inout FaultyNetwork.Faults) -> Void = { _ in }
    ) -> FaultyNetwork {
        var faults = FaultyNetwork.Faults()
        change(&faults)
        return FaultyNetwork(server, seed: seed, clock: clock, faults: faults)
    }

    private func request(_ path: String = "a") throws -> TransportRequest {
        TransportRequest(url: try #require(URL(string: "http://sanguine.test/\(path)")))
    }

    @Test func `without faults every request is carried`() async throws {
        let network = network()
        #expect(try await network.send(request()).status == 200)
        #expect(network.events.map(\.description) == ["#1 GET /a: carried"])
    }

    @Test func `a lost request never arrives`() async throws {
        let network = network { $0.requestLoss = 1 }
        await #expect(throws: TransportError.interrupted("the connection broke")) {
            try await network.send(request())
        }
        #expect(server.requests.isEmpty && network.count(of: .requestLost) == 1)
    }

    @Test func `a request whose answer is lost is applied`() async throws {
        let network = network { $0.answerLoss = 1 }
        let refusal = await #expect(throws: TransportError.self) {
            try await network.send(request())
        }
        #expect(refusal == .interrupted("the connection broke"))
        #expect(server.requests.count == 1 && network.count(of: .answerLost) == 1)
    }

    @Test func `a loss is noticed at the request's timeout at the latest`() async throws {
        let network = network {
            $0.answerLoss = 1
            $0.timeToNotice = .seconds(3_600)
        }
        let sending = Task { try await network.send(request()) }
        try await clock.waitForSleepers(1)
        #expect(clock.timeToNextWake == ClientLimits.requestTimeout)
        clock.advance(by: ClientLimits.requestTimeout)
        await #expect(throws: TransportError.timedOut) { try await sending.finished() }
    }

    @Test func `a duplicated request arrives twice and is answered once`() async throws {
        let network = network { $0.duplication = 1 }
        #expect(try await network.send(request()).status == 200)
        try await server.waitForRequests(2)
        #expect(network.count(of: .carried) == 1 && network.count(of: .doubled) == 1)
    }

    private func arrivals(seed: UInt64) async throws -> [String] {
        let server = ScriptedTransport { .json($0.url.lastPathComponent) }
        let clock = ManualClock()
        var faults = FaultyNetwork.Faults()
        faults.delay = .milliseconds(1) ... .seconds(1)
        let network = FaultyNetwork(server, seed: seed, clock: clock, faults: faults)
        let requests = try ["a", "b", "c"].map { try request($0) }
        let sending = requests.map { request in Task { try await network.send(request) } }
        try await clock.waitForSleepers(3)
        try await clock.advancing(by: .milliseconds(50)) {
            for task in sending { _ = try await task.finished() }
        }
        return server.requests.map(\.url.lastPathComponent)
    }

    @Test func `delays reorder requests`() async throws {
        var orders: Set<[String]> = []
        for seed in 1...6 { orders.insert(try await arrivals(seed: UInt64(seed))) }
        #expect(orders.count > 1)
    }

    @Test func `equal seeds behave the same, and other seeds differently`() async throws {
        var reported: [[String]] = []
        for seed in [7, 7, 8] as [UInt64] {
            let network = network(seed: seed) {
                ($0.requestLoss, $0.answerLoss) = (0.3, 0.3)
            }
            for number in 0..<60 {
                _ = try? await network.send(request(number.isMultiple(of: 3) ? "a" : "b"))
            }
            reported.append(network.events.map(\.description))
            #expect(network.description.hasPrefix("FaultyNetwork, seed \(seed): "))
        }
        #expect(reported[0] == reported[1] && reported[0] != reported[2])
    }

    @Test func `a partition cuts off messages in flight and lets nothing through`() async throws {
        let network = network()
        server.hold()
        let sending = Task { try await network.send(request()) }
        try await server.waitForHeld(1)
        network.partition()
        await #expect(throws: TransportError.interrupted("the network was partitioned")) {
            try await sending.finished()
        }
        await #expect(throws: TransportError.offline("the network is partitioned")) {
            try await network.send(request())
        }
        #expect(network.isPartitioned && server.requests.count == 1)
        server.release()
        network.heal()
        #expect(try await network.send(request()).status == 200)
        #expect(network.events.map(\.kind) == [.cutOff, .turnedAway, .carried])
    }

    @Test func `a partition also drops duplicates in flight`() async throws {
        let network = network {
            $0.duplication = 1
            $0.delay = .seconds(1) ... .seconds(1)
        }
        let sending = Task { try await network.send(request()) }
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        try await clock.waitForSleepers(2)
        network.partition()
        let refusal = await #expect(throws: TransportError.self) { try await sending.finished() }
        #expect(refusal == .interrupted("the network was partitioned"))
        try await clock.waitForNoSleepers()
        #expect(server.requests.count == 1 && network.count(of: .doubled) == 0)
    }

    @Test func `a sender that gives up receives its cancellation`() async throws {
        let network = network { $0.delay = .seconds(1) ... .seconds(1) }
        let sending = Task { try await network.send(request()) }
        try await clock.waitForSleepers(1)
        sending.cancel()
        await #expect(throws: TransportError.cancelled) { try await sending.finished() }
        #expect(server.requests.isEmpty && clock.sleeperCount == 0)
    }

    // MARK: - Streams

    private func live(_ authority: InMemoryAuthority) async throws -> TransportRequest {
        var request = try request("v1/live")
        let token = await authority.accessToken(for: authority.user)
        request.headers["Authorization"] = "Bearer \(token)"
        return request
    }

    @Test func `a stream carries its parts in order and breaks in a partition`() async throws {
        let authority = InMemoryAuthority(schema: .counters)
        let network = FaultyNetwork(authority, seed: 1, clock: clock)
        let stream = try await network.stream(live(authority))
        var text = ""
        for number in 1...20 { authority.set("a", to: Int64(number)) }
        let head = authority.head()
        while !text.contains(".\(head)\n"), let bytes = try await stream.next() {
            text += String(decoding: bytes, as: UTF8.self)
        }
        let numbers = text.matches(of: #/id: \w+\.(\d+)/#).compactMap { Int64($0.1) }
        #expect(numbers == Array(1...head))
        network.partition()
        await #expect(throws: TransportError.interrupted("the network was partitioned")) {
            try await stream.next()
        }
        try await eventually("the stream has ended") { authority.streamCount == 0 }
    }

    @Test func `a stream breaks at random`() async throws {
        let authority = InMemoryAuthority(schema: .counters)
        let network = FaultyNetwork(authority, seed: 1, clock: clock)
        network.faults.streamBreak = 1
        let stream = try await network.stream(live(authority))
        await #expect(throws: TransportError.interrupted("the connection broke")) {
            // Some bytes of the part may arrive.
            while try await stream.next() != nil {}
        }
        #expect(network.count(of: .streamBroken) == 1)
        try await eventually("the stream has ended") { authority.streamCount == 0 }
    }

    @Test func `a released stream ends the underlying stream`() async throws {
        let authority = InMemoryAuthority(schema: .counters)
        let network = FaultyNetwork(authority, seed: 1, clock: clock)
        var stream: TransportStream? = try await network.stream(live(authority))
        #expect(stream?.response.status == 200 && authority.streamCount == 1)
        stream = nil
        try await eventually("the stream has ended") { authority.streamCount == 0 }
    }

    @Test func `a network without streams responds with 501`() async throws {
        let stream = try await network().stream(request())
        #expect(stream.response.status == 501)
        #expect(try await stream.next() == nil)
    }
}
