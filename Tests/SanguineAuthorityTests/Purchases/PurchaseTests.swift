import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Signatures of the App Store, each refusal with its code.
@Suite("App Store signatures", .bounded)
struct AppStoreSignatureTests {
    @Test(arguments: TestAppStore.Flaw.allCases)
    func `a chain without the App Store's structure is refused`(
        flaw: TestAppStore.Flaw
    ) async throws {
        let world = try PurchaseWorld([flaw])
        let account = try await world.account()
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(account, world.store.transaction("1", of: "tokens"))
        }
        #expect(refusal?.code == .purchaseInvalid)
        #expect(try await world.available(account) == 100)
    }

    @Test func `a chain to another root is refused`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let other = try TestAppStore(at: ManualClock.start)
        let signed = try other.sign(other.transaction("1", of: "tokens"))
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(account, signed: signed)
        }
        #expect(refusal?.code == .purchaseInvalid)
    }

    @Test(arguments: [("none", 3), ("HS256", 3), ("ES384", 3), ("ES256", 2), ("ES256", 1)])
    func `another algorithm or length of the chain is refused`(
        algorithm: String,
        length: Int
    ) async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let payload = world.store.transaction("1", of: "tokens")
        let signed = try world.store.sign(payload, algorithm: algorithm, length: length)
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(account, signed: signed)
        }
        #expect(refusal?.code == .purchaseInvalid)
    }

    @Test func `a critical extension that is not understood is refused`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let signed = try world.store.sign(
            world.store.transaction("1", of: "tokens"),
            header: ["crit": .array([.string("b64")]), "b64": .bool(false)]
        )
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(account, signed: signed)
        }
        #expect(refusal?.code == .purchaseInvalid)
    }

    @Test func `a changed payload is refused`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let first = try world.store.sign(world.store.transaction("1", of: "tokens"))
        let second = try world.store.sign(world.store.transaction("2", of: "tokens"))
        let (own, other) = (first.split(separator: "."), second.split(separator: "."))
        let mixed = [own[0], other[1], own[2]].joined(separator: ".")
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(account, signed: mixed)
        }
        #expect(refusal?.code == .purchaseInvalid)
    }

    @Test(
        arguments: [
            ["bundleId": "com.example.other"], ["environment": "Sandbox"], ["environment": "Xcode"],
            ["inAppOwnershipType": "FAMILY_SHARED"],
        ] as [[String: JSONValue]]
    )
    func `a purchase of another app, environment or person is foreign`(
        change: [String: JSONValue]
    ) async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(account, world.store.transaction("1", of: "tokens", change))
        }
        #expect(refusal?.code == .purchaseForeign)
    }

    @Test(arguments: [nil, 1] as [Int64?])
    func `production refuses notifications and guests of another app, or without its Apple ID`(
        configured: Int64?
    ) async throws {
        let world = try PurchaseWorld { $0.appStore?.appAppleID = configured }
        let account = try await world.account()
        let transaction = world.store.transaction("1", of: "tokens")
        try await world.purchase(account, transaction)
        await #expect { try await world.notify("REFUND", "n1", transaction) } throws: { error in
            (error as? Problem)?.code == .purchaseForeign
        }
        let device = "1b671a64-40d5-491e-99b0-da01ff1f3341"
        let app = try world.store.appTransaction("a1", device: device, nonce: "N")
        await #expect {
            try await world.guest(2, app: app, device: device)
        } throws: { error in
            (error as? Problem)?.code == .purchaseForeign
        }
        #expect(try await world.available(account) == 200)
    }

    @Test func `a transaction stays valid after the certificates have expired`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        world.clock.advance(by: .seconds(1_000 * 86_400))
        let transaction = world.store.transaction("1", of: "tokens")
        #expect(try await world.purchase(account, transaction).credited == 100)
    }

    @Test func `a transaction from the future is refused`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let change = ["signedDate": world.milliseconds(after: 3_600)]
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(account, world.store.transaction("1", of: "tokens", change))
        }
        #expect(refusal?.code == .purchaseInvalid)
    }
}

/// Purchases of tokens: once each, with refunds.
@Suite("Purchases of tokens", .bounded)
struct TokenPurchaseTests {
    @Test func `a transaction is credited once, also if it is sent concurrently`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let transaction = world.store.transaction("1", of: "tokens", ["quantity": 2])
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let answer = try await world.purchase(account, transaction, key: "\(number)")
                    #expect(answer.credited == 200 && answer.balance.available == 300)
                }
            }
            try await group.waitForAll()
        }
        #expect(try await world.available(account) == 300)
        let entries = try await world.authority.ledger(of: account).items
        #expect(entries.map(\.kind) == [.purchase, .grant])
        #expect(entries.first?.reason == "App Store 1")
        #expect(try await world.storage.verifyLedger().differences.isEmpty)
    }

    @Test func `a transaction that StoreKit signed again gets the same answer`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let first = try await world.purchase(
            account,
            signed: world.store.sign(world.store.transaction("1", of: "tokens"))
        )
        let again = try await world.purchase(
            account,
            signed: world.store.sign(world.store.transaction("1", of: "tokens"))
        )
        #expect(first == again)
    }

    @Test func `a refund under the key of its purchase is refused, and takes effect under another`()
        async throws
    {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let bought = world.store.transaction("1", of: "tokens")
        let refund = bought.merging(["revocationDate": world.milliseconds(after: 0)]) { $1 }
        try await world.purchase(account, bought, key: "2000000123456789")
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(account, refund, key: "2000000123456789")
        }
        #expect(refusal?.code == .idempotencyMismatch)
        try await world.purchase(account, refund, key: "another")
        #expect(try await world.available(account) == 100)
    }

    @Test func `another account cannot take a credited transaction`() async throws {
        let world = try PurchaseWorld()
        let (first, second) = (try await world.account(1), try await world.account(2))
        let transaction = world.store.transaction("1", of: "tokens")
        try await world.purchase(first, transaction)
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(second, transaction)
        }
        #expect(refusal?.code == .purchaseTaken)
        #expect(try await world.available(second) == 100)
    }

    @Test func `a transaction that names another account is refused`() async throws {
        let world = try PurchaseWorld()
        let (first, second) = (try await world.account(1), try await world.account(2))
        let transaction = world.store.transaction(
            "1",
            of: "tokens",
            ["appAccountToken": .string(first.description.uppercased())]
        )
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(second, transaction)
        }
        #expect(refusal?.code == .purchaseTaken)
        #expect(try await world.purchase(first, transaction).credited == 100)
    }

    @Test func `a refund after spending blocks spending until it is covered`() async throws {
        let world = try PurchaseWorld { $0.grant = 0 }
        let account = try await world.account()
        let transaction = world.store.transaction("1", of: "tokens")
        try await world.purchase(account, transaction)
        _ = try await world.authority.spend(
            account,
            Submission("spend", SpendRequest(amount: 80, reason: "tea"))
        )
        try await world.notify("REFUND", "n1", transaction, after: 1)
        #expect(try await world.available(account) == -80)

        let refusal = await problem { () async throws(Problem) in
            try await world.authority.spend(
                account,
                Submission("more", SpendRequest(amount: 1, reason: "tea"))
            )
        }
        #expect(refusal?.code == .insufficientTokens && refusal?.available == -80)
        #expect(refusal?.detail.contains("at least 81 tokens") == true)
        try await world.purchase(account, world.store.transaction("2", of: "tokens"))
        #expect(try await world.available(account) == 20)
        #expect(try await world.storage.verifyLedger().differences.isEmpty)
    }

    @Test func `a hold that is older than a refund can be captured below zero`() async throws {
        let world = try PurchaseWorld { $0.grant = 0 }
        let account = try await world.account()
        let transaction = world.store.transaction("1", of: "tokens")
        try await world.purchase(account, transaction)
        let answer = try await world.authority.hold(
            account,
            Submission("hold", HoldRequest(amount: 60))
        )
        let hold = try answer.message(HoldAnswer.self).hold
        try await world.notify("REFUND", "n1", transaction, after: 1)
        #expect(try await world.available(account) == -60)
        _ = try await world.authority.capture(
            hold.id,
            account,
            Submission("capture", CaptureRequest(amount: 50))
        )
        #expect(try await world.available(account) == -50)
        #expect(try await world.storage.verifyLedger().differences.isEmpty)
    }

    /// What expires covers the debt first, so that less of it is left to expire.
    @Test(arguments: [(60, 10), (40, 0)] as [(Int64, Int64)])
    func `a hold that is released after a refund covers the debt with what expires`(
        expiring: Int64,
        left: Int64
    ) async throws {
        let world = try PurchaseWorld { $0.grant = 0 }
        let account = try await world.account()
        let transaction = world.store.transaction("1", of: "tokens")
        try await world.purchase(account, transaction)
        let end = world.clock.now() + .seconds(86_400)
        let grant = GrantRequest(amount: expiring, reason: "gift", expiresAt: end)
        _ = try await world.authority.grant(account, Submission("grant", grant))
        let answer = try await world.authority.hold(
            account,
            Submission("hold", HoldRequest(amount: 60))
        )
        let hold = try answer.message(HoldAnswer.self).hold
        let spend = SpendRequest(amount: expiring - 10, reason: "tea")
        _ = try await world.authority.spend(account, Submission("spend", spend))
        try await world.notify("REFUND", "n1", transaction, after: 1)
        #expect(try await world.available(account) == -50)

        _ = try await world.authority.release(hold.id, account, Submission("release"))
        let balance = try await world.authority.balance(account)
        #expect(balance.available == 10)
        #expect((balance.expiring ?? []).reduce(0) { $0 + $1.amount } == left)
        #expect(try await world.storage.verifyLedger().differences.isEmpty)
    }

    @Test func `refunds are pro rata, and reversed refunds are credited again`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let bought = world.store.transaction("1", of: "tokens")
        let refunded = bought.merging([
            "revocationDate": world.milliseconds(after: 0), "revocationPercentage": 33_333,
        ]) { $1 }
        try await world.purchase(account, bought)
        try await world.notify("REFUND", "n1", refunded, after: 10)
        #expect(try await world.available(account) == 167)
        try await world.notify("REFUND_REVERSED", "n2", bought, after: 20)
        #expect(try await world.available(account) == 200)
        // The older news comes again, under another id.
        try await world.notify("REFUND", "n3", refunded, after: 10)
        #expect(try await world.available(account) == 200)
    }

    @Test func `a notification takes effect once`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let transaction = world.store.transaction("1", of: "tokens")
        try await world.purchase(account, transaction)
        #expect(try await world.notify("REFUND", "n1", transaction, after: 1).result == .applied)
        #expect(try await world.notify("REFUND", "n1", transaction, after: 1).result == .repeated)
        #expect(try await world.notify("NEW_TYPE", "n2", transaction).result == .acknowledged)
        #expect(try await world.available(account) == 100)
    }

    @Test func `a notification about a purchase of a deleted account is acknowledged`()
        async throws
    {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let bought = world.store.transaction("1", of: "tokens")
        try await world.purchase(account, bought)
        let note = AuditNote(actor: "a", role: "owner", action: "b", account: nil, reason: "c")
        _ = try await world.authority.deleteAccount(account, by: note)
        let outcome = try await world.notify("REFUND", "n1", bought, after: 10)
        #expect(outcome.result == .acknowledged)
    }

    @Test func `a refund that comes before the purchase is kept for it`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let transaction = world.store.transaction("1", of: "tokens")
        try await world.notify("REFUND", "n1", transaction, after: 1)
        #expect(try await world.purchase(account, transaction).credited == 100)
        #expect(try await world.available(account) == 100)
        let kinds = try await world.authority.ledger(of: account).items.map(\.kind)
        #expect(kinds == [.refund, .purchase, .grant])
    }

    @Test func `a notification credits the account that the app named`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let transaction = world.store.transaction(
            "1",
            of: "tokens",
            ["appAccountToken": .string(account.description)]
        )
        try await world.notify("ONE_TIME_CHARGE", "n1", transaction)
        #expect(try await world.available(account) == 200)
        #expect(try await world.purchase(account, transaction).credited == 100)
        #expect(try await world.available(account) == 200)
    }

    @Test func `a purchase is credited in full, also above the limit of grants`() async throws {
        let world = try PurchaseWorld { $0.grant = WireLimits.amount }
        let account = try await world.account()
        let answer = try await world.purchase(account, world.store.transaction("1", of: "tokens"))
        #expect(answer.credited == 100)
        #expect(answer.balance.available == WireLimits.amount + 100)
        // A notification is not refused either: the App Store would send it again for days.
        let named = world.store.transaction(
            "2",
            of: "tokens",
            ["appAccountToken": .string(account.description)]
        )
        #expect(try await world.notify("ONE_TIME_CHARGE", "n1", named).result == .applied)
        #expect(try await world.notify("REFUND", "n2", named, after: 1).result == .applied)
        #expect(try await world.notify("REFUND_REVERSED", "n3", named, after: 2).result == .applied)
        #expect(try await world.available(account) == WireLimits.amount + 200)
        let granted = await problem { () async throws(Problem) in
            try await world.authority.grant(
                account,
                Submission("grant", GrantRequest(amount: 1, reason: "a gift"))
            )
        }
        #expect(granted?.code == .invalidContent)
        #expect(try await world.storage.verifyLedger().differences.isEmpty)
    }

    @Test func `a request for consumption data is answered from the ledger`() async throws {
        let world = try PurchaseWorld { $0.grant = 0 }
        let account = try await world.account()
        let transaction = world.store.transaction("1", of: "tokens")
        try await world.purchase(account, transaction)
        _ = try await world.authority.spend(
            account,
            Submission("spend", SpendRequest(amount: 25, reason: "tea"))
        )
        let outcome = try await world.notify("CONSUMPTION_REQUEST", "n1", transaction)
        #expect(outcome.consumption?.consumptionPercentage == 25_000)
        #expect(outcome.consumption?.isDelivered == true)
    }
}
