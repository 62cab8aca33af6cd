import Foundation
import SanguineModel
import SanguineTesting
import Testing

@testable import Sanguine

@Suite("Keeping the balance fresh", .timeLimit(.minutes(15)))
struct BalanceEventTests {
    private let fixture = ClientFixture()
    private let lifecycle = ManualLifecycle()

    private func balanceRequests() -> Int {
        fixture.authority.requests(ClientFixture.balancePath).count
    }

    private func wait(
        for count: Int,
        _ states: inout AsyncStream<QueryState<Balance>>.Iterator
    ) async {
        while let state = await states.next() {
            if balanceRequests() >= count, !state.isFetching, state.value != nil { return }
        }
    }

    @Test func `coming back after a while fetches an observed balance`() async throws {
        let client = try fixture.client { $0.lifecycle = lifecycle }
        var states = client.updates(of: .balance).makeAsyncIterator()
        await wait(for: 1, &states)
        let before = balanceRequests()
        lifecycle.enterBackground()
        fixture.clock.advance(by: .minutes(5))
        lifecycle.enterForeground()
        await wait(for: before + 1, &states)

        #expect(balanceRequests() == before + 1)
    }

    @Test func `an observed balance is polled if the configuration says so`() async throws {
        let delay = ManualClock()
        let client = try fixture.client {
            $0.delay = delay
            $0.balancePolling = .seconds(60)
        }
        var states = client.updates(of: .balance).makeAsyncIterator()
        await wait(for: 1, &states)
        let before = balanceRequests()
        while !Task.isCancelled, balanceRequests() == before {
            await delay.waitForSleepers(1)
            delay.advance(by: .seconds(5))
            await Task.yield()
        }

        #expect(balanceRequests() == before + 1)
    }
}
