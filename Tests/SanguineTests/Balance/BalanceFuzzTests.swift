import Foundation
import SanguineModel
import Testing

@testable import Sanguine

/// The balance under every interleaving that a seed can think of.
///
/// A failure names seed and event; the same seed replays it.
@Suite("Balance, simulated")
struct BalanceFuzzTests {
    /// Events per seed; `SANGUINE_FUZZ_EVENTS` sets more for a long run.
    static let events =
        ProcessInfo.processInfo.environment["SANGUINE_FUZZ_EVENTS"].flatMap(Int.init) ?? 2_000

    @Test(arguments: UInt64(1)...20)
    func `the user always sees each call once, and every grant once`(seed: UInt64) throws {
        var simulation = BalanceSimulation(seed: seed)
        for event in 1...Self.events {
            simulation.step()
            let expected = simulation.expected
            let visible = simulation.state.visible
            guard visible?.available == expected.available, visible?.held == expected.held else {
                Issue.record(
                    """
                    Seed \(seed), event \(event) (\(simulation.lastEvent)): visible \
                    \(visible.debugDescription), expected \(expected)
                    """
                )
                return
            }
        }
        simulation.rest()
        let visible = try #require(simulation.state.visible)
        let server = simulation.ledger
        #expect(simulation.state.calls.isEmpty, "Seed \(seed)")
        #expect(visible.available == server.available, "Seed \(seed)")
        #expect(visible.held == server.held && visible.head == server.head, "Seed \(seed)")
    }

    @Test(arguments: UInt64(101)...105)
    func `with right predictions only the beginning of a call moves the number`(
        seed: UInt64
    ) throws {
        let calm = BalanceSimulation.Conditions(
            exactPredictions: true,
            failures: false,
            grants: false,
            restarts: false
        )
        var simulation = BalanceSimulation(seed: seed, conditions: calm)
        var last = try #require(simulation.state.visible).available
        for event in 1...Self.events {
            let before = simulation.made
            simulation.step()
            let now = simulation.state.visible?.available ?? -1
            let move = Int64(2 * (before - simulation.made)) + 2 * simulation.neverHappened
            guard now - last == move else {
                Issue.record(
                    "Seed \(seed), event \(event) (\(simulation.lastEvent)): \(last) became \(now)"
                )
                return
            }
            last = now
        }
        #expect(simulation.made > 100, "The seed exercises nothing.")
    }
}
