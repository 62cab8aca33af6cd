import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Automatic fetches of the balance", .bounded)
struct BalanceEventTests {
    private let fixture = ClientFixture()
    private let lifecycle = ManualLifecycle()

    private func balanceRequests() -> Int {
        fixture.authority.requests(ClientFixture.balancePath).count
    }

    private func wait(
        for count: Int,
        in client: SanguineClient,
        line: Int = #line
    ) async throws {
        try await eventually("\(count) requests, and the balance", line: line) {
            let state = client.snapshot(of: .balance)
            return balanceRequests() >= count && !state.isFetching && state.value != nil
        }
    }

    @Test func `an observed balance is fetched when the app returns after a while`() async throws {
        let client = try fixture.client { $0.lifecycle = lifecycle }
        let following = client.observe(.balance) { _ in }
        try await wait(for: 1, in: client)
        let before = balanceRequests()
        lifecycle.enterBackground()
        fixture.clock.advance(by: .minutes(5))
        lifecycle.enterForeground()
        try await wait(for: before + 1, in: client)

        #expect(balanceRequests() == before + 1)
        withExtendedLifetime(following) {}
    }

    @Test func `an observed balance is polled if the configuration asks for it`() async throws {
        let delay = ManualClock()
        let client = try fixture.client {
            $0.delay = delay
            $0.balancePolling = .seconds(60)
        }
        let following = client.observe(.balance) { _ in }
        try await wait(for: 1, in: client)
        let before = balanceRequests()
        try await eventually("another request is sent") {
            guard balanceRequests() == before else { return true }
            try await delay.waitForSleepers(1)
            delay.advance(by: .seconds(5))
            return balanceRequests() > before
        }

        #expect(balanceRequests() == before + 1)
        withExtendedLifetime(following) {}
    }
}
