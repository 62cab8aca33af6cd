import SanguineAuthority
import Simulation
import TestSupport
import Testing

/// Random commands of the ledger, compared with a model that counts single tokens.
///
/// `simulate --ledger --cases 10000000` plays more.
@Suite("Game of the ledger", .bounded(.seconds(120)))
struct LedgerPlayTests {
    @Test(arguments: UInt64(1)...8)
    func `balances, expiring grants and limits are those of the model`(seed: UInt64) async {
        var game = LedgerPlay(seed: seed, storage: MemoryStorage())
        let difference = await game.play(1_500)

        #expect(difference == nil, "seed \(seed)")
        for turn in LedgerTurn.allCases {
            #expect(game.tally[turn, default: 0] > 0, "A game without \(turn.rawValue).")
        }
    }
}
