import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Many merges and writes at the same time.
@Suite("Concurrent merges", .bounded(.seconds(300)))
struct MergeStormTests {
    private static let guests = environmentNumber("MERGES", or: 1_000)
    private static let accounts = 20

    /// What became of one guest's requests.
    private struct Sent: Sendable {
        var account = 0
        var operations: [PushedOperation] = []
        /// The guest's spends that succeeded before the merge.
        var spent: Int64 = 0
        var merged: [MergedGuest] = []
    }

    @Test(arguments: StorageDriver.allCases)
    func `a thousand concurrent merges and writes lose nothing, and all sums are right`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage) { $0.mergedGuestsPerAccount = 1_000 }
            var accounts: [Identity] = []
            for number in 0..<Self.accounts { accounts.append(try await world.registered(number)) }
            let all = accounts
            // As many at a time as one account may have waiting.
            let sent = try await withThrowingTaskGroup(of: Sent.self) { group in
                var all: [Sent] = []
                for number in 0..<Self.guests {
                    if number >= 64, let one = try await group.next() { all.append(one) }
                    let account = accounts[number % Self.accounts]
                    group.addTask { try await play(world, number, account) }
                }
                for try await one in group { all.append(one) }
                return all
            }

            var spent = [Int64](repeating: 0, count: Self.accounts)
            var expected = [Int64](repeating: 100, count: Self.accounts)
            var ids = [Set<String>](repeating: [], count: Self.accounts)
            for one in sent {
                #expect(Set(one.merged).count == 1)
                spent[one.account] += one.spent
                expected[one.account] += 100 - one.spent
                for operation in one.operations { ids[one.account].insert(operation.lane) }
            }
            for (number, account) in all.enumerated() {
                let balance = try await world.authority.balance(account.account)
                #expect(balance.available == expected[number])
                #expect(Set(try await world.records(account).keys) == ids[number])
                try await world.checkCounts(account)
            }
            try await world.checkSums()
        }
    }

    /// Writes and spends as the guest while two requests merge it, and repeats everything as the
    /// account, as a client does that follows the merge.
    private func play(
        _ world: MergeWorld,
        _ number: Int,
        _ account: Identity
    ) async throws -> Sent {
        let guest = try await world.guest(number)
        var sent = Sent(account: number % Self.accounts)
        let now = world.clock.now()
        sent.operations = (0..<4).map {
            MergeWorld.operation("notes", "\(number)-\($0)", ["n": 1], at: now)
        }
        let operations = sent.operations
        async let merges = merge(world, guest, account, times: 2)
        for operation in operations {
            _ = try? await world.push(guest, [operation])
        }
        let asGuest = try? await world.spend(guest, 10, "spend \(number)")
        sent.merged = try await merges
        // The key of a spend that the guest made is replayed to the account.
        let again = try await world.spend(account, 10, "spend \(number)")
        #expect(again.replayed == (asGuest != nil))
        sent.spent = 10
        for operation in operations {
            let results = try await world.push(account, [operation]).results
            #expect(results[0].status == .applied || results[0].status == .replayed)
        }
        return sent
    }

    private func merge(
        _ world: MergeWorld,
        _ guest: Identity,
        _ account: Identity,
        times: Int
    ) async throws -> [MergedGuest] {
        try await withThrowingTaskGroup { group in
            for _ in 0..<times {
                group.addTask {
                    try await world.authority.merge(guest, into: account.account).0.merged
                }
            }
            return try await group.reduce(into: []) { found, one in
                if let one { found.append(one) }
            }
        }
    }
}
