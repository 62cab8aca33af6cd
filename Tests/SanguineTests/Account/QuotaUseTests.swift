import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Uses of a quota that count at once, and go through the outbox.
@Suite("Optimistic uses of quotas", .bounded)
struct QuotaUseTests {
    private let fixture = AccountFixture()

    private func client(_ device: TestDevice) async throws -> SanguineClient {
        let client = try device.launch()
        _ = try await client.quotas.value()
        try await client.waitUntilIdle()
        return client
    }

    /// Returns the units that the server has counted.
    private func used(_ account: Identifier? = nil) async throws -> Int64? {
        let account = account ?? fixture.authority.user
        return try await fixture.authority.authority.quotas(account).0.items
            .first { $0.name == "readings" }?.used
    }

    @Test func `a use without a network counts at once, survives a restart and is sent once`()
        async throws
    {
        let device = fixture.device()
        var client = try await client(device)
        device.connectivity.disconnect()
        let use = try client.consumeOptimistically("readings", id: "reading-1")
        #expect(use.id == "reading-1" && use.quota?.used == 1)
        #expect(client.quotas["readings"]?.used == 1)
        #expect(try await used() == 0)
        try device.kill()
        client = try device.launch()
        #expect(client.quotas["readings"]?.used == 1)
        device.connectivity.connect()
        try await client.waitUntilIdle()
        #expect(try await used() == 1)
        #expect(client.quotas["readings"]?.used == 1)
        #expect(try await client.refresh(.quotas).first { $0.name == "readings" }?.used == 1)
    }

    @Test func `a use before the account is known is sent when it is`() async throws {
        let device = fixture.device()
        device.connectivity.disconnect()
        let client = try device.launch()
        defer { client.close() }
        let use = try client.consumeOptimistically("readings")
        #expect(use.quota == nil)
        device.connectivity.connect()
        #expect(try await use.receipt.outcome == .applied)
        #expect(try await used() == 1)
        #expect(try await client.quotas.value().first { $0.name == "readings" }?.used == 1)
    }

    @Test func `a use whose answer is lost counts once`() async throws {
        let network = FaultyOnce(fixture.authority, path: "/v1/quotas/readings/consume")
        let device = fixture.device(network: network) { $0.delay = SkippingClock() }
        let client = try device.launch()
        defer { withExtendedLifetime(device) { client.close() } }
        _ = try await client.quotas.value()
        let use = try client.consumeOptimistically("readings")
        #expect(try await use.receipt.outcome == .applied)
        #expect(network.count.value == 2)
        #expect(try await used() == 1)
        #expect(client.quotas["readings"]?.used == 1)
    }

    @Test func `a use that waits under an id is not added again`() async throws {
        let device = fixture.device()
        let client = try await client(device)
        defer { client.close() }
        device.connectivity.disconnect()
        for _ in 0..<3 { try client.consumeOptimistically("readings", id: "same") }
        #expect(client.outbox.pending.count == 1)
        #expect(client.quotas["readings"]?.used == 1)
    }

    @Test func `a use beyond the known rest is refused at once`() async throws {
        let device = fixture.device()
        let client = try await client(device)
        defer { client.close() }
        device.connectivity.disconnect()
        let limit = try #require(client.quotas["readings"]).limit
        for _ in 0..<limit { try client.consumeOptimistically("readings") }
        let error = #expect(throws: SanguineError.self) {
            try client.consumeOptimistically("readings")
        }
        guard case .problem(let problem) = error else { return }
        #expect(problem.code == .quotaExhausted)
        #expect(problem.resetsAt == client.quotas["readings"]?.resetsAt)
        #expect(problem.lifts == ["premium"])
        #expect(client.outbox.pending.count == Int(limit))
    }

    @Test func `a use that the authority refuses is taken back and reported`() async throws {
        let device = fixture.device(seed: 1)
        let client = try await client(device)
        let other = try await self.client(fixture.device(seed: 2))
        defer { for client in [client, other] { client.close() } }
        let limit = try #require(client.quotas["readings"]).limit
        var refusals = client.quotas.refusals.makeAsyncIterator()
        device.connectivity.disconnect()
        let use = try client.consumeOptimistically("readings", id: "mine")
        for _ in 0..<limit { try await other.consume("readings") }
        device.connectivity.connect()
        let refusal = try #require(await refusals.next())
        #expect(refusal.id == "mine" && refusal.quota == "readings" && refusal.amount == 1)
        #expect(refusal.problem.code == .quotaExhausted && refusal.problem.resetsAt != nil)
        guard case .refused = try await use.receipt.outcome else {
            Issue.record("The use was not refused.")
            return
        }
        #expect(client.outbox.refused.map(\.id) == [use.receipt.id])
        #expect(try await client.refresh(.quotas).first { $0.name == "readings" }?.used == limit)
        #expect(client.quotas["readings"]?.used == limit)
    }

    @Test func `a withdrawn use counts as unused`() async throws {
        let device = fixture.device()
        let client = try await client(device)
        defer { client.close() }
        device.connectivity.disconnect()
        let use = try client.consumeOptimistically("readings", amount: 2)
        #expect(client.quotas["readings"]?.used == 2)
        #expect(try use.receipt.withdraw())
        #expect(client.quotas["readings"]?.used == 0)
        #expect(client.outbox.pending.isEmpty)
    }

    @Test func `a use that waits over midnight counts against the new day`() async throws {
        let device = fixture.device()
        let client = try await client(device)
        defer { client.close() }
        device.connectivity.disconnect()
        try client.consumeOptimistically("readings")
        let reset = try #require(client.quotas["readings"]).resetsAt
        fixture.clock.advance(by: reset - fixture.clock.now())
        #expect(client.quotas["readings"]?.used == 1)
        device.connectivity.connect()
        try await client.waitUntilIdle()
        #expect(try await used() == 1)
    }

    @Test func `an amount or an id that no server accepts is refused`() async throws {
        let client = try await client(fixture.device())
        defer { client.close() }
        #expect(throws: SanguineError.self) {
            try client.consumeOptimistically("readings", amount: 0)
        }
        #expect(throws: SanguineError.self) {
            try client.consumeOptimistically("readings", id: "two words")
        }
        #expect(client.outbox.pending.isEmpty && client.quotas["readings"]?.used == 0)
    }
}

/// Optimistic uses of a guest that becomes a part of an account.
@Suite("Optimistic uses and merges", .bounded)
struct MergedQuotaUseTests {
    private let fixture = AccountFixture(accounts: .onePerDevice)

    @Test func `a use that waits while the guest is merged is the account's`() async throws {
        let network = MergingNetwork(fixture.authority)
        let device = fixture.device(network: network)
        let client = try device.launch()
        defer { client.close() }
        try await client.synchronize()
        _ = try await client.quotas.value()
        let account = fixture.authority.addAccount()
        network.state.withLock { $0.account = account }
        device.connectivity.disconnect()
        let use = try client.consumeOptimistically("readings", id: "reading-1")
        try await client.signIn(email: "ada@example.org", password: "secret word")
        device.connectivity.connect()
        #expect(try await use.receipt.outcome == .applied)
        let quotas = try await fixture.authority.authority.quotas(account).0.items
        #expect(quotas.first { $0.name == "readings" }?.used == 1)
        let shown = try await client.refresh(.quotas)
        #expect(shown.first { $0.name == "readings" }?.used == 1)
    }
}

/// Quotas of a week or a month on a device without a network.
@Suite("Periods of quotas", .bounded)
struct QuotaPeriodTests {
    @Test(arguments: [
        (Quota.Period?.none, "2026-03-03"), (.week, "2026-03-09"), (.month, "2026-04-01"),
    ])
    func `the next period ends as the server declares`(period: Quota.Period?, end: String) throws {
        let zone = TimeZone.gmt
        let begin = try #require(CalendarDay("2026-03-02")).start(in: zone)
        var book = QuotaBook()
        let old = Quota(
            name: "q",
            limit: 3,
            used: 3,
            resetsAt: begin,
            unlimited: false,
            period: period
        )
        book.fetched([old], head: 1, at: begin - .hours(1))
        book.startNewDays(at: begin, in: zone)
        let quota = try #require(book.visible?.first)
        #expect(quota.used == 0 && quota.period == period)
        #expect(quota.resetsAt == CalendarDay(end)?.start(in: zone))
    }
}
