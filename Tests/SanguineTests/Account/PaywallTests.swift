import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// An app consumes a quota itself, and shows a paywall when nothing is left.
@Suite("Quotas and paywall", .bounded)
struct PaywallTests {
    private let fixture = AccountFixture()

    private func client(_ device: TestDevice) async throws -> SanguineClient {
        let client = try device.launch()
        _ = try await client.quotas.value()
        _ = try await client.account.value()
        return client
    }

    @Test func `a consumption is visible and counts once under its id`() async throws {
        let device = fixture.device()
        var client = try await client(device)
        let limit = try #require(client.quotas["readings"]).limit
        #expect(try await client.consume("readings", id: "reading-1").used == 1)
        #expect(client.quotas["readings"]?.remaining == limit - 1)
        try device.kill()
        client = try device.launch()
        defer { client.close() }
        #expect(try await client.consume("readings", id: "reading-1").used == 1)
        #expect(try await client.refresh(.quotas).first { $0.name == "readings" }?.used == 1)
    }

    @Test func `a consumption whose answer is lost is sent again and counts once`() async throws {
        let network = FaultyOnce(fixture.authority, path: "/v1/quotas/readings/consume")
        let device = fixture.device(network: network) { $0.delay = SkippingClock() }
        let client = try await client(device)
        defer { client.close() }
        #expect(try await client.consume("readings").used == 1)
        #expect(network.count.value == 2)
        #expect(client.quotas["readings"]?.used == 1)
    }

    @Test func `a consumption without a network throws and is undone`() async throws {
        let network = FaultyOnce(fixture.authority, path: "none")
        let device = fixture.device(network: network)
        let client = try await client(device)
        defer { withExtendedLifetime(device) { client.close() } }
        network.isOffline.withLock { $0 = true }
        await #expect(throws: SanguineError.self) { try await client.consume("readings") }
        #expect(client.quotas["readings"]?.used == 0)
    }

    @Test @MainActor func `a paywall shows the limit, the reset and what lifts it`() async throws {
        let device = fixture.device()
        let client = try await client(device)
        defer { withExtendedLifetime(device) { client.close() } }
        let paywall = client.paywall(for: "readings")
        let limit = try #require(paywall.limit)
        #expect(paywall.remaining == limit && !paywall.isExhausted)
        #expect(paywall.lifts == [.premium] && paywall.resetsAt != nil)
        for _ in 0..<limit { try await client.consume("readings") }
        try await eventually("the quota is exhausted") { paywall.isExhausted }
        #expect(paywall.used == limit && paywall === client.paywall(for: "readings"))
        let error = await #expect(throws: SanguineError.self) {
            try await client.consume("readings")
        }
        guard case .problem(let problem) = error else { return }
        #expect(problem.code == .quotaExhausted && problem.lifts == ["premium"])
        #expect(paywall.used == limit)
    }

    @Test @MainActor func `a paywall opens when the plan changes on any device`() async throws {
        let device = fixture.device()
        let client = try await client(device)
        defer { withExtendedLifetime(device) { client.close() } }
        let paywall = client.paywall(for: "readings")
        for _ in 0..<(paywall.limit ?? 0) { try await client.consume("readings") }
        try await eventually("the quota is exhausted") { paywall.isExhausted }
        fixture.authority.setPlan(.premium)
        try await eventually("the plan lifts the limit") { paywall.isLifted }
        #expect(!paywall.isExhausted && paywall.plan == .premium && paywall.remaining == nil)
    }

    @Test @MainActor func `a paywall offers the plans that the server declares`() async throws {
        let at = fixture.clock.now() + .hours(5)
        let client = try await client(fixture.device())
        defer { client.close() }
        let paywall = client.paywall(for: "readings")
        let full = Quota(
            name: "readings",
            limit: 3,
            used: 3,
            resetsAt: at,
            unlimited: false,
            lifts: []
        )
        client.balance.received([full])
        paywall.applyNewest()
        #expect(paywall.isExhausted && paywall.lifts.isEmpty && !paywall.isLifted)
        var older = full
        older.lifts = nil
        client.balance.received([older])
        paywall.applyNewest()
        #expect(paywall.lifts == [.premium], "An older server states no plans.")
    }

    @Test @MainActor func `a paywall opens at midnight by the clock`() async throws {
        let device = fixture.device()
        let client = try await client(device)
        defer { client.close() }
        let paywall = client.paywall(for: "readings")
        for _ in 0..<(paywall.limit ?? 0) { try await client.consume("readings") }
        try await eventually("the quota is exhausted") { paywall.isExhausted }
        device.connectivity.disconnect()
        let reset = try #require(paywall.resetsAt)
        let time = reset - fixture.clock.now()
        fixture.clock.advance(by: time)
        try await eventually("a new day begins") {
            device.delay.advance(by: time)
            return !paywall.isExhausted
        }
        #expect(paywall.used == 0 && paywall.remaining == paywall.limit)
    }
}

/// A network that loses one answer, or is offline.
final class FaultyOnce: StreamingTransport {
    let authority: InMemoryAuthority
    let path: String
    let count = WatchedState(0)
    let isOffline = WatchedState(false)

    init(_ authority: InMemoryAuthority, path: String) {
        (self.authority, self.path) = (authority, path)
    }

    func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        if isOffline.value { throw .offline("The test has no network.") }
        let answer = try await authority.send(request)
        guard request.url.path() == path else { return answer }
        let number = count.withLock { count in
            count += 1
            return count
        }
        if number == 1 { throw .interrupted("lost") }
        return answer
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        if isOffline.value { throw .offline("The test has no network.") }
        return try await authority.stream(request)
    }
}
