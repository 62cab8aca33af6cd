import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Concurrent spends, some of them sent twice (trap 25).
    @Suite("Spending", .bounded(.seconds(120)))
    struct SpendingTests {
        private struct Spend: Sendable {
            let account: Int
            let key: String
            let amount: Int64
        }

        private typealias Sent = (spend: Spend, answer: API.Answer)

        private static let accounts = 10
        private static let grant: Int64 = 100

        @Test(arguments: [1, 2] as [UInt64])
        func `concurrent spends with repeated keys leave exact balances`(
            seed: UInt64
        )
            async throws
        {
            try await LocalServer.with { server in
                let api = server.api
                let guests = try await concurrently(Self.accounts) { number in
                    try await api.guest("a-device-that-spends-\(number)")
                }
                let plan = Self.plan(seed: seed)
                let answers = try await concurrently(plan.count) { number in
                    let spend = plan[number]
                    return try await api.spend(
                        spend.amount,
                        spend.key,
                        key: spend.key,
                        as: guests[spend.account]
                    )
                }
                let sent = Array(zip(plan, answers)).map { (spend: $0, answer: $1) }
                for (number, guest) in guests.enumerated() {
                    let mine = sent.filter { $0.spend.account == number }
                    let balance = try await api.balance(of: guest)
                    let ledger = try await api.ledger(of: guest, page: 7)
                    try Self.expectExact(mine, balance, ledger)
                    Self.expectOneAnswerForEachKey(mine)
                    try await Self.expectReplays(mine, guest, api)
                    #expect(try await api.balance(of: guest) == balance)
                }
                let report = try await server.audit()
                #expect(report.accounts == Self.accounts)
                #expect(report.differences.isEmpty)
            }
        }

        /// 450 spends of 1 to 5, more than the accounts can pay, and 50 of them again.
        private static func plan(seed: UInt64) -> [Spend] {
            var random = SplitMix64(seed: seed)
            let first = (0..<450).map { number in
                Spend(
                    account: number % accounts,
                    key: "spend-\(seed)-\(number)",
                    amount: Int64.random(in: 1...5, using: &random)
                )
            }
            let again = first.shuffled(using: &random).prefix(50)
            return (first + again).shuffled(using: &random)
        }

        private static func expectExact(
            _ sent: [Sent],
            _ balance: Balance,
            _ ledger: [LedgerEntry]
        ) throws {
            #expect(balance.held == 0)
            #expect(ledger.map(\.amount).reduce(0, +) == balance.available)
            #expect(ledger.first?.kind == .grant)
            var paid: [String: Int64] = [:]
            for (spend, answer) in sent {
                if answer.status == 402 {
                    let problem = try answer.decode(Problem.self)
                    #expect(problem.code == .insufficientTokens)
                    #expect(problem.required == spend.amount)
                    #expect(problem.available ?? .max < spend.amount)
                    #expect(balance.available < spend.amount, "The balance would have covered it.")
                    continue
                }
                #expect(answer.status == 200)
                let answered = try answer.decode(BalanceAnswer.self).balance
                #expect(answer.header("Sanguine-Head") == "\(answered.head)")
                // Number 2 of the feed is the grant, and each spend has the next number.
                let entry = try #require(ledger.dropFirst(Int(answered.head) - 2).first)
                #expect(entry.balanceAfter == answered.available)
                #expect(entry.reason == spend.key)
                #expect(entry.amount == -spend.amount)
                paid[spend.key] = spend.amount
            }
            #expect(balance.available == grant - paid.values.reduce(0, +))
            #expect(ledger.count == 1 + paid.count)
            #expect(balance.head == Int64(2 + paid.count))
        }

        private static func expectOneAnswerForEachKey(_ sent: [Sent]) {
            for (key, all) in Dictionary(grouping: sent, by: \.spend.key) {
                #expect(Set(all.map(\.answer.status)).count == 1, "\(key)")
                guard all[0].answer.status == 200 else { continue }
                #expect(Set(all.map(\.answer.body)).count == 1, "\(key)")
                #expect(all.count { !$0.answer.isReplayed } == 1, "\(key)")
            }
        }

        private static func expectReplays(
            _ sent: [Sent],
            _ guest: API.Guest,
            _ api: API
        ) async throws {
            let replays = try await concurrently(sent.count) { number in
                let spend = sent[number].spend
                return try await api.spend(spend.amount, spend.key, key: spend.key, as: guest)
            }
            for (first, replay) in zip(sent, replays) {
                #expect(replay.status == first.answer.status)
                guard replay.status == 200 else { continue }
                #expect(replay.body == first.answer.body)
                #expect(replay.isReplayed)
            }
        }

        @Test func `a key with another amount changes nothing`() async throws {
            try await LocalServer.with { server in
                let guest = try await server.api.guest()
                _ = try await server.api.spend(3, "tea", key: "the-key", as: guest)
                let other = try await server.api.spend(4, "tea", key: "the-key", as: guest)
                #expect(other.status == 422)
                #expect(other.code == .idempotencyMismatch)
                #expect(try await server.api.balance(of: guest).available == 97)
            }
        }
    }
}
