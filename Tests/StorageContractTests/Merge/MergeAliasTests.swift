import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The guest's id, keys, calls and sessions after a merge.
@Suite("After the merge of a guest", .bounded)
struct MergeAliasTests {
    private func withWorld(
        _ driver: StorageDriver,
        _ body: (MergeWorld) async throws -> Void
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await body(MergeWorld(over: storage))
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the sessions of the guest end, and its device signs in to the account`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let first = try await world.authority.guest(world.device(1)).signedIn.session
            let guest = try await world.authority.tokens.verify(first.accessToken)
            // More sessions than one command of a sign-in ends.
            for _ in 1...20 { _ = try await world.guest(1) }
            let account = try await world.registered(1)
            _ = try await world.authority.merge(guest, into: account.account)

            let access = await world.refusal { () async throws(Problem) in
                try await world.authority.tokens.verify(first.accessToken)
            }
            #expect(access?.code == .sessionEnded)
            let refresh = await world.refusal { () async throws(Problem) in
                try await world.authority.refresh(
                    RefreshRequest(refreshToken: first.refreshToken)
                )
            }
            #expect(refresh?.code == .sessionEnded)
            let live = SurplusSessions(of: guest.account, kept: 0)
            let left = Command<Int>(keys: [], surplus: live) { loaded in
                Decision(loaded.surplusSessions.count)
            }
            #expect(try await world.storage.perform(left).get() == 0)

            let again = try await world.authority.guest(world.device(1))
            #expect(again.signedIn.account.id == account.account && !again.isNew)
            var stranger = world.device(1)
            stranger.deviceSecret = world.device(2).deviceSecret
            let wrong = await world.refusal { [stranger] () async throws(Problem) in
                try await world.authority.guest(stranger)
            }
            #expect(wrong?.code == .deviceSecretMismatch)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a request to the merged guest is refused as one of an account that is gone`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            let other = try await world.registered(2)
            _ = try await world.authority.merge(guest, into: account.account)
            let authority = world.authority
            let refusals: [Problem?] = [
                await world.refusal { () async throws(Problem) in
                    try await world.spend(guest, 1, "late")
                },
                await world.refusal { () async throws(Problem) in
                    try await world.hold(guest, 1, "late hold")
                },
                await world.refusal { () async throws(Problem) in try await world.consume(guest) },
                await world.refusal { () async throws(Problem) in
                    let now = world.clock.now()
                    return try await world.push(
                        guest,
                        [MergeWorld.operation("notes", "late", [:], at: now)]
                    )
                },
                await world.refusal { () async throws(Problem) in
                    try await authority.balance(guest.account)
                },
                await world.refusal { () async throws(Problem) in
                    try await authority.account(guest.account)
                },
                await world.refusal { () async throws(Problem) in
                    try await authority.patchAccount(guest.account, ["language": "es"])
                },
                await world.refusal { () async throws(Problem) in
                    try await authority.pull(guest.account, Authority.PullRequest(since: 0))
                },
            ]
            #expect(refusals.map { $0?.code } == [ProblemCode?](repeating: .notFound, count: 8))
            let merge = await world.refusal { () async throws(Problem) in
                try await authority.merge(guest, into: other.account)
            }
            #expect(merge?.code == .sessionEnded)
            try await world.checkSums()
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `only guests are merged, and only into registered accounts`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            let (other, second) = (try await world.registered(2), try await world.guest(2))
            for (from, into, code) in [
                (other, account, ProblemCode.invalidContent), (guest, second, .notFound),
            ] {
                let refusal = await world.refusal { () async throws(Problem) in
                    try await world.authority.merge(from, into: into.account)
                }
                #expect(refusal?.code == code)
            }
            // Signing in again to one's own account merges nothing.
            let own = try await world.authority.enter(account.account, as: account)
            #expect(own.merged == nil && own.account.id == account.account)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the account's repetition of the guest's operations takes effect once`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            for number in 1...50 { try await world.write(guest, "notes", "\(number)", [:]) }
            let pushed = try await world.write(guest, "notes", "n", ["n": 1])
            let spent = try await world.spend(guest, 10, "key")
            _ = try await world.authority.merge(guest, into: account.account)

            let again = try await world.spend(account, 10, "key")
            #expect(again.replayed && again.stored.body == spent.stored.body)
            let result = try await world.push(account, [pushed]).results[0]
            #expect(result.status == .replayed)
            // Both heads are numbers of the account's feed that contain the changes.
            let head = try await world.authority.balance(account.account).head
            #expect(again.stored.head == head && result.head == head)
            let states = try await world.authority.balance(account.account, operations: ["key"])
            #expect(states.operations?["key"]?.phase == .settled)
            #expect(states.available == 190)
            // No balance in a repeated answer looks newer than the account's.
            let old = try JSONDecoder().decode(BalanceAnswer.self, from: Data(spent.stored.body))
            #expect(old.balance.head < head)
            try await world.checkSums()
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a key that both have used replays the account's operation`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            _ = try await world.spend(guest, 10, "key")
            let own = try await world.spend(account, 20, "key")
            _ = try await world.authority.merge(guest, into: account.account)
            #expect(try await world.spend(account, 20, "key").stored == own.stored)
            #expect(try await world.authority.balance(account.account).available == 170)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a running call of the guest settles once, into the account`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            let call = try await world.call(guest, "call", hold: 40)
            #expect(try await world.authority.markSent(call))
            _ = try await world.authority.merge(guest, into: account.account)
            let during = try await world.authority.balance(account.account, operations: ["call"])
            #expect((during.available, during.held) == (160, 40))
            #expect(during.operations?["call"]?.held == 40)
            #expect(try await world.authority.markSent(call))

            let end = CallEnd.succeeded(charge: 15) { balance, _ in
                Array("{\"head\":\(balance.head)}".utf8)
            }
            let answer = try await world.authority.settle(call, end)
            let again = try await world.authority.settle(call, end)
            #expect(answer.stored == again.stored)
            let after = try await world.authority.balance(account.account)
            #expect((after.available, after.held) == (185, 0))
            let position = OperationPosition(account: account.account, key: "call")
            let row = try await world.authority.operation(position)
            #expect(row?.state == .done(answer.stored))
            try await world.checkSums()
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a call of the guest that is withdrawn or expires after the merge is released once`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            let withdrawn = try await world.call(guest, "withdrawn", hold: 10)
            _ = try await world.call(guest, "expired", hold: 20)
            let listed = try await world.storage.openHolds(
                expiringBy: world.clock.now() + .seconds(600),
                limit: 9
            )
            _ = try await world.authority.merge(guest, into: account.account)
            try await world.authority.withdraw(withdrawn)
            try await world.authority.withdraw(withdrawn)
            world.clock.advance(by: .seconds(601))
            // The holds may have been listed before the merge.
            let commands = CallCommands(
                now: world.clock.now(),
                quotas: QuotaCommands(limits: [:], now: world.clock.now())
            )
            for hold in listed {
                #expect(try await !world.storage.perform(commands.expire(hold)).get())
            }
            #expect(try await world.authority.expireHolds() == 1)
            let balance = try await world.authority.balance(account.account)
            #expect((balance.available, balance.held) == (200, 0))
            try await world.checkSums()
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a merge waits for a running call whose key the account has used`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            let call = try await world.call(guest, "key", hold: 10)
            _ = try await world.spend(account, 1, "key")
            let refusal = await world.refusal { () async throws(Problem) in
                try await world.authority.merge(guest, into: account.account)
            }
            #expect(refusal?.code == .operationInProgress && refusal?.retryAfter == 1)
            _ = try await world.authority.settle(call, .failed(Problem(.upstreamFailed, "No.")))
            _ = try await world.authority.merge(guest, into: account.account)
            #expect(try await world.authority.balance(account.account).available == 199)
            try await world.checkSums()
        }
    }

    /// The use of a merge is the larger one, so a failed call must not make it smaller than the use
    /// of the other side.
    @Test(arguments: StorageDriver.allCases)
    func `a failed call returns only units that the merge has counted`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            for (index, use) in [(0, 2), (1, 1), (2, 1), (2, 0), (0, 1)].enumerated() {
                let (theirs, own) = (Int64(use.0), Int64(use.1))
                let guest = try await world.guest(20 + index)
                let account = try await world.registered(20 + index)
                if theirs > 0 { try await world.consume(guest, theirs) }
                if own > 0 { try await world.consume(account, own) }
                let key = "call \(index)"
                let call = try await world.call(guest, key, hold: 1, units: 1)
                let ownCall = try await world.call(account, "own", hold: 1, units: 1)
                _ = try await world.authority.merge(guest, into: account.account)
                #expect(try await world.used(account) == max(theirs, own) + 1)
                for call in [call, ownCall] {
                    let failure = CallEnd.failed(Problem(.upstreamFailed, "No."))
                    _ = try await world.authority.settle(call, failure)
                }
                let used = try await world.used(account) ?? -1
                #expect(used >= max(theirs, own), "Used \(theirs) and \(own)")
                #expect(used <= max(theirs, own) + 1)
            }
        }
    }
}
