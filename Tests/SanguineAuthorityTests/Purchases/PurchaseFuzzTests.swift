import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Purchases, refunds, reversals and spends in random order, each repeated at random, compared with
/// a model in which the news that was signed last decides.
@Suite("A game of purchases", .bounded)
struct PurchaseFuzzTests {
    private struct Bought {
        var account: Identifier?
        var part: Int64 = 0
        var knownAt = 0
        var refunded: Int64 { 100 * part / 100_000 }
    }

    /// A failure names the seed.
    @Test(arguments: UInt64(1)...4)
    func `balances equal those of a simple model`(seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let world = try PurchaseWorld()
        let accounts = [try await world.account(1), try await world.account(2)]
        var spent: [Identifier: Int64] = [:]
        var all = [Bought](repeating: Bought(), count: 6)
        func expected(_ account: Identifier) -> Int64 {
            let bought = all.filter { $0.account == account }
            return 100 - (spent[account] ?? 0) + bought.reduce(0) { $0 + 100 - $1.refunded }
        }
        for step in 0..<60 {
            let number = Int.random(in: 0..<all.count, using: &random)
            let account = accounts[Int.random(in: 0..<2, using: &random)]
            let moment = Int.random(in: 1..<250, using: &random)
            var transaction = world.store.transaction("\(number)", of: "tokens")
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                let refusal = await problem { () async throws(Problem) in
                    try await world.purchase(account, transaction, key: "buy \(step)")
                }
                let isTaken = all[number].account.map { $0 != account } ?? false
                #expect(refusal?.code == (isTaken ? .purchaseTaken : nil), "seed \(seed)")
                if !isTaken { all[number].account = account }
            case 1:
                let amount = Int64.random(in: 1...90, using: &random)
                let refusal = await problem { () async throws(Problem) in
                    try await world.authority.spend(
                        account,
                        Submission("spend \(step)", SpendRequest(amount: amount, reason: "tea"))
                    )
                }
                let isRefused = amount > expected(account)
                #expect(refusal?.code == (isRefused ? .insufficientTokens : nil), "seed \(seed)")
                if !isRefused { spent[account, default: 0] += amount }
            case let kind:
                let part: Int64 = kind == 2 ? Int64.random(in: 1...100_000, using: &random) : 0
                if kind == 2 {
                    transaction["revocationDate"] = world.milliseconds(after: 0)
                    transaction["revocationPercentage"] = .integer(part)
                }
                for _ in 0..<Int.random(in: 1...2, using: &random) {
                    try await world.notify(
                        kind == 2 ? "REFUND" : "REFUND_REVERSED",
                        "n\(step)",
                        transaction,
                        after: moment
                    )
                }
                if moment >= all[number].knownAt {
                    (all[number].part, all[number].knownAt) = (part, moment)
                }
            }
            for account in accounts {
                try #require(
                    await world.available(account) == expected(account),
                    "seed \(seed), step \(step)"
                )
            }
        }
        #expect(try await world.storage.verifyLedger().differences.isEmpty, "seed \(seed)")
    }
}
