import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Previews and their tokens, and repetitions of a merge.
@Suite("Consent to a merge", .bounded)
struct MergeConsentTests {
    private func withWorld(
        _ driver: StorageDriver,
        _ body: (MergeWorld, _ guest: Identity, _ account: Identity) async throws -> Void
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage)
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            try await world.write(guest, "notes", "g", ["n": 1])
            try await world.write(guest, "notes", "both", ["n": 1])
            try await world.write(account, "notes", "both", ["n": 2])
            try await body(world, guest, account)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a preview changes nothing, and the merge does what it said`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world, guest, account in
            _ = try await world.hold(guest, 5, "hold")
            try await world.consume(guest, 2)
            try await world.addFile(1, size: 10, to: guest)
            let before = try await world.records(guest)
            let preview = try await world.authority.previewMerge(of: guest, into: account.account)
            let offer = try await world.authority.previewMerge(of: guest, into: account.account)
            #expect(offer == preview)
            #expect(try await world.records(guest) == before)
            #expect(try await world.spend(guest, 95, "all").stored.status == 200)

            let fresh = try await world.authority.previewMerge(of: guest, into: account.account)
            let said = fresh.preview
            let request = MergeRequest(mergeToken: fresh.mergeToken)
            let (signedIn, head) = try await world.authority.merge(guest, request)
            #expect(signedIn.account == said.account)
            #expect(
                signedIn.merged
                    == MergedGuest(
                        from: guest.account,
                        records: said.records,
                        balances: said.tokens.moved + said.tokens.held,
                        blobs: said.blobs
                    )
            )
            let balance = try await world.authority.balance(account.account)
            #expect((balance.available, balance.held) == (said.tokens.available, said.tokens.held))
            #expect(balance.head == head && head > max(said.guestHead, said.accountHead))
            #expect(try await world.authority.quotas(account.account).0.items == said.quotas)
            #expect(try await world.feed(account.account)?.bytes == said.bytes)
            let session = try await world.authority.tokens.verify(signedIn.session.accessToken)
            #expect(session.account == account.account)
        }
    }

    /// A change of either side, in its feed or not.
    enum Change: CaseIterable {
        case guestRecord, accountRecord, guestSpend, accountProfile, guestFile, midnight, time
    }

    @Test(arguments: StorageDriver.allCases, Change.allCases)
    func `a merge with a stale preview is refused and changes nothing`(
        driver: StorageDriver,
        change: Change
    ) async throws {
        try await withWorld(driver) { world, guest, account in
            try await world.consume(account)
            world.clock.advance(by: .seconds(12 * 3_600 - 300))
            let offer = try await world.authority.previewMerge(of: guest, into: account.account)
            switch change {
            case .guestRecord: try await world.write(guest, "notes", "new", ["n": 1])
            case .accountRecord: try await world.write(account, "notes", "new", ["n": 1])
            case .guestSpend: _ = try await world.spend(guest, 1, "k")
            case .accountProfile:
                _ = try await world.authority.patchAccount(account.account, ["displayName": "A"])
            case .guestFile: try await world.addFile(1, size: 10, to: guest)
            case .midnight: world.clock.advance(by: .seconds(301))
            case .time: world.clock.advance(by: .seconds(600))
            }
            let refusal = await world.refusal { () async throws(Problem) in
                try await world.authority.merge(guest, MergeRequest(mergeToken: offer.mergeToken))
            }
            #expect(refusal?.code == .mergeStale && refusal?.status == 409)
            #expect(try await world.records(guest).count >= 2)
            let fresh = try await world.authority.previewMerge(of: guest, into: account.account)
            let request = MergeRequest(mergeToken: fresh.mergeToken)
            #expect(try await world.authority.merge(guest, request).0.merged != nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a token of another guest, or an altered one, is refused`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world, guest, account in
            let stranger = try await world.guest(2)
            let token = try await world.authority.previewMerge(of: guest, into: account.account)
                .mergeToken
            for (who, text) in [(stranger, token), (guest, token + "A"), (guest, "")] {
                let refusal = await world.refusal { () async throws(Problem) in
                    try await world.authority.merge(who, MergeRequest(mergeToken: text))
                }
                #expect(refusal?.code == .invalidContent)
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the repetition of a merge whose answer was lost has the same result`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world, guest, account in
            let offer = try await world.authority.previewMerge(of: guest, into: account.account)
            let request = MergeRequest(mergeToken: offer.mergeToken)
            let first = try await world.authority.merge(guest, request)
            _ = try await world.spend(account, 1, "meanwhile")
            let second = try await world.authority.merge(guest, request)
            #expect(first.0.merged == second.0.merged && first.head == second.head)
            let tokens = world.authority.tokens
            let opened = try await tokens.verify(first.0.session.accessToken)
            #expect(try await tokens.verify(second.0.session.accessToken) == opened)
            let third = try await world.authority.enter(account.account, as: guest)
            #expect(third.merged == first.0.merged)
            #expect(try await world.authority.balance(account.account).available == 199)

            // Another session of the guest did not merge it.
            let other = Identity(account: guest.account, session: account.session)
            let refusal = await world.refusal { () async throws(Problem) in
                try await world.authority.merge(other, request)
            }
            #expect(refusal?.code == .sessionEnded)
            try await world.checkSums()
        }
    }

    /// The token of the preview proves only the credentials of that time.
    @Test(arguments: StorageDriver.allCases)
    func `the repetition of a merge opens no session after a sign-out everywhere`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world, guest, account in
            let offer = try await world.authority.previewMerge(of: guest, into: account.account)
            let request = MergeRequest(mergeToken: offer.mergeToken)
            _ = try await world.authority.merge(guest, request)
            try await world.authority.endSessions(of: account.account)
            let refusal = await world.refusal { () async throws(Problem) in
                try await world.authority.merge(guest, request)
            }
            #expect(refusal?.code == .sessionEnded)
            let live = try await world.authority.sessions(of: account.account)
            #expect(live.items.isEmpty)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `at most the set number of guests is merged into an account`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage) { $0.mergedGuestsPerAccount = 2 }
            let account = try await world.registered(1)
            for number in 1...2 {
                let guest = try await world.guest(number)
                _ = try await world.authority.merge(guest, into: account.account)
            }
            let third = try await world.guest(3)
            let refusal = await world.refusal { () async throws(Problem) in
                try await world.authority.merge(third, into: account.account)
            }
            #expect(refusal?.code == .invalidContent)
            #expect(try await world.authority.balance(third.account).available == 100)
        }
    }
}
