import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The parts of a guest that a merge moves into an account.
@Suite("Merging a guest", .bounded)
struct MergeTests {
    private func withWorld(
        _ driver: StorageDriver,
        _ change: @escaping (inout AuthoritySettings) -> Void = { _ in },
        _ body: (MergeWorld) async throws -> Void
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await body(MergeWorld(over: storage, change))
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `records with different ids are both kept, with numbers after both feeds`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            for number in 1...30 { try await world.write(guest, "notes", "g\(number)", ["n": 1]) }
            try await world.write(guest, "posts", "p", ["tag": "t"])
            try await world.write(guest, "notes", "gone", ["n": 1])
            try await world.write(guest, "notes", "gone", nil)
            try await world.write(account, "notes", "a", ["n": 2])
            let heads = (
                try await world.authority.balance(guest.account).head,
                try await world.authority.balance(account.account).head
            )

            let merged = try await world.authority.merge(guest, into: account.account).0.merged
            #expect(merged?.records == 31 && merged?.from == guest.account)
            let new = try await world.records(account, since: max(heads.0, heads.1))
            #expect(new.count == 31 && new["notes/g30"]?["n"] == 1)
            #expect(try await world.records(account).count == 32)
            try await world.checkCounts(account)
            #expect(try await world.feed(guest.account) == nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `moved records are found by their indexes, by their new owner only`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            try await world.write(guest, "notes", "n", ["day": "monday"])
            try await world.write(account, "notes", "n", ["day": "sunday"])
            world.clock.advance(by: .seconds(1))
            try await world.write(guest, "notes", "n", ["day": "tuesday"])
            try await world.write(guest, "posts", "p", ["tag": "t"])
            _ = try await world.authority.merge(guest, into: account.account)

            func ids(
                _ collection: String,
                _ field: String,
                _ scope: Identifier?,
                _ value: String
            ) async throws -> [String] {
                let list = IndexList(collection, in: scope, by: field)
                let command = Command<[String]>(keys: []) { _, reader throws(Problem) in
                    let key = IndexKey(ofStored: .string(value))
                    let found = try? reader.ids(in: list, at: key, limit: 9)
                    return Decision((found ?? []).map(\.text))
                }
                return try await world.storage.perform(command).get()
            }
            #expect(try await ids("notes", "day", account.account, "tuesday") == ["n"])
            #expect(try await ids("notes", "day", account.account, "sunday") == [])
            #expect(try await ids("notes", "day", guest.account, "tuesday") == [])
            #expect(try await ids("posts", "tag", account.account, "t") == ["p"])
            #expect(try await ids("posts", "tag", guest.account, "t") == [])
            #expect(try await ids("posts", "tag", nil, "t") == ["p"])
            // The new owner may change it.
            try await world.write(account, "posts", "p", ["tag": "u"])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `of two records with one id, the collection's rule decides`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            for (first, second) in [(guest, account), (account, guest)] {
                let id = first == guest ? "account-newer" : "guest-newer"
                for who in [first, second] {
                    world.clock.advance(by: .seconds(1))
                    for collection in ["notes", "theirs", "ours"] {
                        let side: JSONValue = who == guest ? "guest" : "account"
                        try await world.write(who, collection, id, ["side": side])
                    }
                }
            }
            let offer = try await world.authority.previewMerge(of: guest, into: account.account)
            #expect(offer.preview.conflictCount == 6 && offer.preview.records == 3)
            let kept = offer.preview.conflicts.map { "\($0.collection) \($0.id) \($0.kept)" }
            #expect(kept.contains("notes account-newer account"))
            #expect(kept.contains("notes guest-newer guest"))

            _ = try await world.authority.merge(guest, into: account.account)
            let records = try await world.records(account)
            #expect(records["notes/account-newer"]?["side"] == "account")
            #expect(records["notes/guest-newer"]?["side"] == "guest")
            #expect(records["theirs/account-newer"]?["side"] == "guest")
            #expect(records["ours/guest-newer"]?["side"] == "account")
            #expect(records.count == 6)
            try await world.checkCounts(account)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a deletion by the guest deletes no record of the account`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            try await world.write(account, "notes", "n", ["n": 1])
            try await world.write(guest, "notes", "n", ["n": 2])
            world.clock.advance(by: .seconds(1))
            try await world.write(guest, "notes", "n", nil)
            _ = try await world.authority.merge(guest, into: account.account)
            #expect(try await world.records(account) == ["notes/n": ["n": 1]])
            try await world.checkCounts(account)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a deletion by the account lasts unless the guest's record is newer`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            try await world.write(guest, "notes", "old", ["n": 1])
            for id in ["old", "new"] {
                try await world.write(account, "notes", id, ["n": 2])
                world.clock.advance(by: .seconds(1))
                try await world.write(account, "notes", id, nil)
            }
            world.clock.advance(by: .seconds(1))
            try await world.write(guest, "notes", "new", ["n": 3])
            _ = try await world.authority.merge(guest, into: account.account)
            #expect(try await world.records(account) == ["notes/new": ["n": 3]])
            try await world.checkCounts(account)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `balances and open holds are added, and every account sums up`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            _ = try await world.spend(guest, 30, "g")
            let held = try await world.hold(guest, 20, "gh")
            _ = try await world.hold(account, 5, "ah")

            let merged = try await world.authority.merge(guest, into: account.account).0.merged
            #expect(merged?.balances == 70)
            let balance = try await world.authority.balance(account.account)
            #expect((balance.available, balance.held) == (145, 25))
            try await world.checkSums()

            // The hold belongs to the account.
            let id = try JSONDecoder().decode(HoldAnswer.self, from: Data(held.stored.body)).hold.id
            let capture = Submission(
                key: "capture",
                fingerprint: Fingerprint("capture"),
                content: .success(CaptureRequest(amount: 7))
            )
            _ = try await world.authority.capture(id, account.account, capture)
            let after = try await world.authority.balance(account.account)
            #expect((after.available, after.held) == (158, 5))
            try await world.checkSums()
        }
    }

    @Test(arguments: StorageDriver.allCases, [30, 120] as [Int64])
    func `a guest with less than its holds after a refund is merged with both`(
        driver: StorageDriver,
        refunded: Int64
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            _ = try await world.spend(account, 100, "a")
            let held = try await world.hold(guest, 80, "gh")
            try await world.refund(guest, refunded)
            let debt = 20 - refunded

            let merged = try await world.authority.merge(guest, into: account.account).0.merged
            #expect(merged?.balances == 100 - refunded)
            let balance = try await world.authority.balance(account.account)
            #expect((balance.available, balance.held) == (debt, 80))
            try await world.checkSums()

            let id = try JSONDecoder().decode(HoldAnswer.self, from: Data(held.stored.body)).hold.id
            _ = try await world.authority.release(id, account.account, Self.release)
            let after = try await world.authority.balance(account.account)
            #expect((after.available, after.held) == (debt + 80, 0))
            try await world.checkSums()
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a released hold of a guest returns nothing that the account has spent of its limit`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver, { $0.spendingPerDay = 100 }) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            _ = try await world.spend(account, 60, "a")
            let held = try await world.hold(guest, 80, "gh")
            _ = try await world.authority.merge(guest, into: account.account)
            func refusal(of amount: Int64, _ key: String) async -> ProblemCode? {
                await world.refusal { () async throws(Problem) in
                    try await world.spend(account, amount, key)
                }?.code
            }
            #expect(await refusal(of: 1, "b") == .spendingLimitReached)

            let id = try JSONDecoder().decode(HoldAnswer.self, from: Data(held.stored.body)).hold.id
            _ = try await world.authority.release(id, account.account, Self.release)
            #expect(await refusal(of: 41, "c") == .spendingLimitReached)
            #expect(await refusal(of: 40, "d") == nil)
        }
    }

    private static let release = Submission(
        key: "release",
        fingerprint: Fingerprint("release"),
        content: .success(())
    )

    @Test(arguments: StorageDriver.allCases)
    func `the ledger pages through the entries of the account and its guests`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let account = try await world.registered(1)
            for number in 1...3 {
                let guest = try await world.guest(number)
                _ = try await world.spend(guest, Int64(number), "g\(number)")
                _ = try await world.spend(account, Int64(number), "a\(number)")
                _ = try await world.authority.merge(guest, into: account.account)
            }
            var (items, cursor, pages) = ([LedgerEntry](), String?.none, 0)
            repeat {
                let page = try await world.authority.ledger(
                    of: account.account,
                    limit: 4,
                    cursor: cursor
                )
                (items, cursor, pages) = (items + page.items, page.nextCursor, pages + 1)
            } while cursor != nil
            // A grant for each of four accounts, and for each guest: two spends and two moves.
            #expect(items.count == 16 && pages == 4)
            #expect(Set(items.map(\.id)).count == 16)
            #expect(items.map(\.at) == items.map(\.at).sorted(by: >))
            let sum = items.reduce(0) { $0 + $1.amount }
            #expect(sum == (try await world.authority.balance(account.account).available))
            #expect(items.first?.kind == .mergeIn && items.first?.amount == 97)

            let stranger = try await world.registered(2)
            let first = try await world.authority.ledger(of: account.account, limit: 1)
            let refusal = await world.refusal { () async throws(Problem) in
                try await world.authority.ledger(of: stranger.account, cursor: first.nextCursor)
            }
            #expect(refusal?.code == .malformedRequest)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `of two uses of a daily quota, the larger one counts`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            for (theirs, own) in [(2, 1), (1, 2), (3, 0), (0, 3), (0, 0)] as [(Int64, Int64)] {
                let number = Int(10 + 4 * theirs + own)
                let guest = try await world.guest(number)
                let account = try await world.registered(number)
                if theirs > 0 { try await world.consume(guest, theirs) }
                if own > 0 { try await world.consume(account, own) }
                _ = try await world.authority.merge(guest, into: account.account)
                #expect(try await world.used(account) == max(theirs, own))
                let left = 3 - max(theirs, own)
                let refusal = await world.refusal { () async throws(Problem) in
                    try await world.consume(account, left + 1)
                }
                #expect(refusal?.code == .quotaExhausted)
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a zone in which it is tomorrow already grants no second quota`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let guest = try await world.guest(1, timeZone: "Pacific/Kiritimati")
            let account = try await world.registered(1)
            try await world.consume(guest, 3)
            _ = try await world.authority.merge(guest, into: account.account)
            #expect(try await world.used(account) == 3)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `files are moved, and one that both have is counted once`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            for number in 1...3 { try await world.addFile(number, size: 10, to: guest) }
            try await world.addFile(3, size: 10, to: account)
            let merged = try await world.authority.merge(guest, into: account.account).0.merged
            #expect(merged?.blobs == 2)
            let ids = (1...3).map { BlobID.sample($0) }
            #expect(try await world.authority.blobs(ids, of: account.account).count == 3)
            #expect(try await world.authority.blobs(ids, of: guest.account).isEmpty)
            try await world.write(account, "notes", "n", ["n": 1])
            try await world.checkCounts(account, files: 3, fileBytes: 30)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a merge may pass the storage limit, after which nothing is added until there is room`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver, { $0.recordsPerAccount = 3 }) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            for id in ["a", "b", "c"] {
                try await world.write(account, "notes", id, ["n": 1])
                try await world.write(guest, "notes", "g\(id)", ["n": 1])
            }
            _ = try await world.authority.merge(guest, into: account.account)
            #expect(try await world.records(account).count == 6)
            func add() async throws -> ProblemCode? {
                let now = world.clock.now()
                let operation = MergeWorld.operation("notes", "more", ["n": 1], at: now)
                return try await world.push(account, [operation]).results.first?.problem?.code
            }
            #expect(try await add() == .storageFull)
            for id in ["a", "b", "c", "ga"] { try await world.write(account, "notes", id, nil) }
            #expect(try await add() == nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `documents of the guest become those of the account, with every mention of its id`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            func document(
                _ kind: DocumentKind,
                _ id: String,
                _ who: Identity,
                _ body: String
            ) -> Change {
                let row = DocumentRow(
                    kind: kind,
                    id: id,
                    account: who.account,
                    body: Array(body.utf8)
                )
                return .put(.document(row))
            }
            try await world.storage.store(
                document(.purchase, "one", guest, #"{"account":"\#(guest.account)"}"#),
                document(.purchase, "plan \(guest.account)", guest, #"{"p":{"a":1},"x":2}"#),
                document(.purchase, "plan \(account.account)", account, #"{"p":{"b":1},"x":3}"#),
                document(.verification, "code", guest, "{}"),
                document(.upload, "\(guest.account) 0", guest, "{}")
            )
            _ = try await world.authority.merge(guest, into: account.account)
            let query = DocumentQuery(.purchase, of: account.account, limit: 9)
            let found = try await world.storage.documents(query)
            #expect(found.map(\.id) == ["one", "plan \(account.account)"])
            let bodies = found.map { String(decoding: $0.body, as: UTF8.self) }
            #expect(bodies[0] == #"{"account":"\#(account.account)"}"#)
            #expect(bodies[1] == #"{"p":{"a":1,"b":1},"x":3}"#)
            #expect(try await world.storage.row(.document(.verification, id: "code")) == nil)
            // An unfinished upload counts for the guest, and begins again.
            let upload = Key.document(.upload, id: "\(guest.account) 0")
            #expect(try await world.storage.row(upload) == nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a guest's plan is kept if it ends later`(driver: StorageDriver) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            _ = try await world.authority.setPlan(.premium, of: guest.account)
            let offer = try await world.authority.previewMerge(of: guest, into: account.account)
            #expect(offer.preview.account.plan == .premium)
            let signedIn = try await world.authority.merge(guest, into: account.account).0
            #expect(signedIn.account.plan == .premium)
            #expect(try await world.authority.quotas(account.account).0.items[0].unlimited)
        }
    }
}
