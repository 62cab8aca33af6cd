import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Plays users who share a device, see ``SignInGame``.
@Suite("Sign-in game", .serialized, .bounded(.seconds(120)))
struct SignInGameTests {
    @Test(arguments: 1...30 as ClosedRange<UInt64>)
    func `users never see, send or find another user's data`(seed: UInt64) async {
        let leak = await SignInGame(seed: seed).leak(steps: 60)
        #expect(leak == nil, "\(leak.map(\.description) ?? "")")
    }

    @Test(arguments: [PlantedFault.keepsFolder, .takesOverAnybodys])
    func `a planted fault is found within ten seeds`(fault: PlantedFault) async {
        var found: String?
        for seed in 1...10 as ClosedRange<UInt64> where found == nil {
            found = await SignInGame(seed: seed, fault: fault).leak(steps: 60)?.detail
        }
        #expect(found?.contains("itself failed") == false)
    }

    @Test func `ten seeds cover all turns of the game`() async {
        var turns: Set<String> = []
        for seed in 101...110 as ClosedRange<UInt64> {
            let game = SignInGame(seed: seed)
            #expect(await game.leak(steps: 60) == nil)
            turns.formUnion(game.tally.keys)
        }
        let names = ["ada", "bob", "cyd"].map { "sign-in of \($0)" }
        let others = [
            "sign-out", "sign-out that keeps nothing", "erasing", "operation", "read", "death",
            "value that is set",
        ]
        #expect(turns == Set(names + others))
    }
}
