import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Plans, by purchase and by an administrator.
@Suite("Plans", .bounded)
struct PlanTests {
    private static let day = 86_400

    private func month(
        _ id: String,
        _ world: PurchaseWorld,
        from first: Int,
        _ more: [String: JSONValue] = [:]
    ) -> [String: JSONValue] {
        world.store.transaction(
            id,
            of: "premium",
            [
                "originalTransactionId": "1",
                "expiresDate": world.milliseconds(after: (first + 30) * Self.day),
            ].merging(more) { $1 }
        )
    }

    @Test func `a subscription sets the plan until it expires`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let answer = try await world.purchase(account, month("1", world, from: 0))
        #expect(answer.plan == .premium)
        #expect(answer.planExpiresAt == world.store.now + .seconds(30 * Self.day))
        #expect(try await world.authority.quotas(account).0.items.first?.unlimited == true)

        world.clock.advance(by: .seconds(30 * Self.day))
        #expect(try await world.plan(account) == .free)
        #expect(try await world.authority.quotas(account).0.items.first?.unlimited == false)
        let pulled = try await world.authority.pull(account, .init(since: answer.balance.head))
        #expect(pulled.changes.map(\.collection).sorted() == ["$account", "$quotas"])
        #expect(pulled.changes.first { $0.collection == "$account" }?.value?["plan"] == "free")
    }

    @Test func `a renewal extends the plan, in any order`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        try await world.notify("DID_RENEW", "n1", month("2", world, from: 30), after: 5)
        try await world.purchase(account, month("1", world, from: 0))
        world.clock.advance(by: .seconds(45 * Self.day))
        #expect(try await world.plan(account) == .premium)
        world.clock.advance(by: .seconds(15 * Self.day))
        #expect(try await world.plan(account) == .free)
    }

    @Test func `a grace period keeps the plan until it ends`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let first = month("1", world, from: 0)
        try await world.purchase(account, first)
        let renewal: [String: JSONValue] = [
            "environment": "Production", "signedDate": world.milliseconds(after: 10),
            "gracePeriodExpiresDate": world.milliseconds(after: 40 * Self.day),
        ]
        try await world.notify(
            "DID_FAIL_TO_RENEW",
            "n1",
            first,
            subtype: "GRACE_PERIOD",
            renewal: renewal,
            after: 10
        )
        world.clock.advance(by: .seconds(35 * Self.day))
        #expect(try await world.plan(account) == .premium)
        try await world.notify("GRACE_PERIOD_EXPIRED", "n2", first, after: 35 * Self.day)
        #expect(try await world.plan(account) == .free)
    }

    @Test func `a refunded subscription ends at once, and a reversal restores it`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let first = month("1", world, from: 0)
        try await world.purchase(account, first)
        try await world.notify("REFUND", "n1", first, after: 10)
        #expect(try await world.plan(account) == .free)
        try await world.notify("REFUND_REVERSED", "n2", first, after: 20)
        #expect(try await world.plan(account) == .premium)
    }

    @Test func `an upgrade replaces the transaction before it`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        try await world.purchase(account, month("1", world, from: 100))
        try await world.purchase(account, month("2", world, from: 0))
        let old =
            ["isUpgraded": true, "signedDate": world.milliseconds(after: 60)]
            as [String: JSONValue]
        let answer = try await world.purchase(account, month("1", world, from: 100, old))
        #expect(answer.planExpiresAt == world.store.now + .seconds(30 * Self.day))
    }

    @Test func `an administrator's plan ends, and leaves a purchased one`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let end = world.store.now + .seconds(5 * Self.day)
        let given = try await world.authority.setPlan(.premium, until: end, of: account)
        #expect(given.0.plan == .premium)
        try await world.purchase(account, month("1", world, from: 0))
        _ = try await world.authority.setPlan(.free, of: account)
        #expect(try await world.plan(account) == .premium)
        world.clock.advance(by: .seconds(30 * Self.day))
        #expect(try await world.plan(account) == .free)
    }

    @Test(arguments: [0, 1])
    func `a plan without an end outlives a merge with one that ends`(endless: Int) async throws {
        let world = try PurchaseWorld()
        var who: [Identity] = []
        for number in 0..<2 {
            let session = try await world.guest(number).signedIn.session
            who.append(try await world.authority.tokens.verify(session.accessToken))
            let end = number == endless ? nil : world.store.now + .seconds(5 * Self.day)
            _ = try await world.authority.setPlan(.premium, until: end, of: who[number].account)
        }
        let email = "ana@example.org"
        _ = try await world.authority.register(.email(email), email: email, who[1])
        _ = try await world.authority.merge(who[0], into: who[1].account)
        // The next purchase recomputes the plan from its sources.
        try await world.purchase(who[1].account, month("1", world, from: 0))
        world.clock.advance(by: .seconds(40 * Self.day))
        #expect(try await world.plan(who[1].account) == .premium)
    }

    @Test func `a subscription of a deleted account continues in the buyer's next one`()
        async throws
    {
        let world = try PurchaseWorld()
        let (old, new) = (try await world.account(1), try await world.account(2))
        let tokens = world.store.transaction("9", of: "tokens")
        try await world.purchase(old, month("1", world, from: 0))
        try await world.purchase(old, tokens)
        let note = AuditNote(actor: "a", role: "owner", action: "b", account: nil, reason: "c")
        _ = try await world.authority.deleteAccount(old, by: note)

        #expect(try await world.purchase(new, month("1", world, from: 0)).plan == .premium)
        try await world.notify("REFUND", "n1", month("1", world, from: 0), after: 10)
        #expect(try await world.plan(new) == .free)
        let refusal = await problem { () async throws(Problem) in
            try await world.purchase(new, tokens)
        }
        #expect(refusal?.code == .purchaseTaken)
    }

    @Test func `an end in the past is refused`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let refusal = await problem { () async throws(Problem) in
            try await world.authority.setPlan(.premium, until: ManualClock.start, of: account)
        }
        #expect(refusal?.code == .invalidContent)
    }

    @Test func `quotas that were never used are in the first pull`() async throws {
        let world = try PurchaseWorld()
        let pulled = try await world.authority.pull(world.account(), .init(since: 0))
        let quota = pulled.changes.first { $0.collection == "$quotas" }
        #expect(quota?.value?["remaining"] == 3)
    }

    @Test func `weeks begin on Mondays, and months on their first days`() throws {
        let day = try #require(CalendarDay("2028-02-29"))  // A Tuesday.
        #expect(QuotaRule.Period.week.first(of: day).description == "2028-02-28")
        #expect(QuotaRule.Period.week.next(after: day).description == "2028-03-06")
        #expect(QuotaRule.Period.month.first(of: day).description == "2028-02-01")
        #expect(QuotaRule.Period.month.next(after: day).description == "2028-03-01")
    }

    @Test func `a monthly quota has a higher limit for premium`() async throws {
        let rule = QuotaRule(limit: 1, period: .month, plans: [.premium: 2])
        let world = try PurchaseWorld { $0.quotas = ["letters": rule] }
        let account = try await world.account()
        func consume(_ key: String) async -> Problem? {
            await problem { () async throws(Problem) in
                try await world.authority.consume(
                    "letters",
                    account,
                    Submission(key, ConsumeRequest())
                )
            }
        }
        #expect(await consume("1") == nil)
        let refusal = await consume("2")
        #expect(refusal?.lifts == ["premium"])
        #expect(refusal?.resetsAt == Timestamp("2026-12-01T00:00:00Z"))
        _ = try await world.authority.setPlan(.premium, of: account)
        #expect(await consume("3") == nil)
        #expect(await consume("4")?.lifts == [])
        world.clock.advance(by: .seconds(10 * Self.day))
        #expect(await consume("5") == nil)
    }
}

/// Guests that reinstall the app.
@Suite("App transactions", .bounded)
struct AppTransactionTests {
    private static let device = "5C4B2A10-0000-4000-8000-000000000001"

    @Test func `a thousand reinstalls find one guest and one grant`() async throws {
        let world = try PurchaseWorld()
        let app = try world.store.appTransaction("a1", device: Self.device, nonce: "N")
        let first = try await world.guest(0, app: app, device: Self.device)
        for number in 1..<1_000 {
            let next = try await world.guest(number, app: app, device: Self.device)
            try #require(next.signedIn.account.id == first.signedIn.account.id)
        }
        #expect(try await world.available(first.signedIn.account.id) == 100)
    }

    @Test func `an app transaction of another device is refused`() async throws {
        let world = try PurchaseWorld()
        let app = try world.store.appTransaction("a1", device: Self.device, nonce: "N")
        await #expect { try await world.guest(1, app: app, device: "another") } throws: { error in
            (error as? Problem)?.code == .purchaseInvalid
        }
        await #expect { try await world.guest(1, app: app) } throws: { error in
            (error as? Problem)?.code == .invalidContent
        }
    }

    @Test func `a registered account is not entered, and gives no second grant`() async throws {
        let world = try PurchaseWorld()
        let app = try world.store.appTransaction("a1", device: Self.device, nonce: "N")
        let first = try await world.guest(0, app: app, device: Self.device).signedIn.account.id
        let loaded = try await world.storage.load([.account(first)])
        var row = try #require(loaded.account(first))
        row.profile.kind = .registered
        let stored = row
        _ = try await world.storage.perform(
            Command(keys: []) { _ in Decision((), changes: [.put(.account(stored))]) }
        )
        let second = try await world.guest(1, app: app, device: Self.device)
        #expect(second.isNew && second.signedIn.account.id != first)
        #expect(try await world.available(second.signedIn.account.id) == 0)
        let third = try await world.guest(2, app: app, device: Self.device)
        #expect(third.signedIn.account.id == second.signedIn.account.id)
    }
}
