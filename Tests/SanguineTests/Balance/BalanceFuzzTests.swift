import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

/// Plays random interleavings of events against the balance, from seeds.
///
/// A failure names the seed that replays it, and the command.
@Suite("Balance simulation", .bounded(.seconds(300)))
struct BalanceFuzzTests {
    private static let events = Fuzz.events(2_000)

    @Test(arguments: Fuzz.seeds(1...20))
    func `the user always sees each call and every grant once`(seed: UInt64) throws {
        var simulation = BalanceSimulation(seed: seed)
        for event in 1...Self.events {
            simulation.step()
            let expected = simulation.expected
            let visible = simulation.state.visible
            guard visible?.available == expected.available, visible?.held == expected.held else {
                let fault = """
                    event \(event) (\(simulation.lastEvent)): visible \
                    \(visible.debugDescription), expected \(expected)
                    """
                Issue.record(Fuzz.replay(Self.self, seed: seed, fault))
                return
            }
        }
        simulation.rest()
        let visible = try #require(simulation.state.visible)
        let server = simulation.ledger
        let replay = Fuzz.replay(Self.self, seed: seed)
        #expect(simulation.state.calls.isEmpty, replay)
        #expect(visible.available == server.available, replay)
        #expect(visible.held == server.held && visible.head == server.head, replay)
    }

    @Test(arguments: Fuzz.seeds(101...105))
    func `with exact predictions the number changes only when a call begins`(
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
                let fault = "event \(event) (\(simulation.lastEvent)): \(last) became \(now)"
                Issue.record(Fuzz.replay(Self.self, seed: seed, fault))
                return
            }
            last = now
        }
        #expect(simulation.made > 100 || Self.events < 1_000, "The seed covers too little.")
    }
}
