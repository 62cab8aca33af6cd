import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// No overspending, and no repeated effects, under random interleavings.
@Suite("Ledger under random events", .bounded(.seconds(300)))
struct LedgerFuzzTests {
    /// Plays 5,000 random events per seed.
    ///
    /// A failure names the seed. To debug it, replace the range by that seed.
    @Test(arguments: UInt64(1)...20)
    func `balances, holds, entries and answers agree after every event`(seed: UInt64) throws {
        var game = LedgerGame(seed: seed)
        for _ in 1...5_000 { try game.play() }
        try game.finish()

        for kind in ["answered", "replayed", "refused"] {
            #expect(game.counts[kind, default: 0] > 100, "A game without \(kind) requests.")
        }
    }

    @Test func `as many of a hundred simultaneous spends succeed as the balance covers`()
        async throws
    {
        let storage = MemoryStorage()
        let authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            clock: ManualClock()
        )
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let guest = GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        let account = try await authority.guest(guest).signedIn.account.id

        let codes = await withTaskGroup { group in
            for number in 1...100 {
                group.addTask {
                    // Each of ten keys is sent ten times.
                    let request = SpendRequest(amount: 30, reason: "tea")
                    return await problem { () throws(Problem) in
                        try await authority.spend(account, Submission("k\(number % 10)", request))
                    }?.code
                }
            }
            return await group.reduce(into: [ProblemCode?]()) { $0.append($1) }
        }

        // The balance of 100 covers three keys, and each was answered ten times.
        #expect(codes.count { $0 == nil } == 30)
        #expect(codes.count { $0 == .insufficientTokens } == 70)
        #expect(try await authority.balance(account).available == 10)
        #expect(try await authority.ledger(of: account).items.count == 4)
        #expect(try await authority.verifyLedger().differences.isEmpty)
    }
}
