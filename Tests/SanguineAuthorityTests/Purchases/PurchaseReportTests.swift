import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Notifications as other servers got them wrong, and what receivers of events see of them.
@Suite("Reported faults of purchases", .bounded)
struct PurchaseReportTests {
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

    /// Returns the same data under settings that no longer declare any product.
    private func withoutProducts(_ world: PurchaseWorld) throws -> Authority {
        var settings = AuthoritySettings()
        settings.appStore = AppStoreSettings(
            bundleID: TestAppStore.bundle,
            appAppleID: TestAppStore.appleID,
            roots: [try AppStoreRoot(world.store.root)]
        )
        return Authority(
            storage: world.storage,
            keys: SigningKeys(),
            settings: settings,
            clock: world.clock
        )
    }

    private func notice(
        _ type: String,
        _ id: String,
        _ transaction: [String: JSONValue],
        _ world: PurchaseWorld,
        after seconds: Int
    ) throws -> String {
        try world.store.notification(
            type,
            id: id,
            about: transaction,
            at: world.store.now + .seconds(seconds)
        )
    }

    @Test func `a product that is no longer declared is still refunded`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let tokens = world.store.transaction("9", of: "tokens")
        let first = month("1", world, from: 0)
        try await world.purchase(account, tokens)
        try await world.purchase(account, first)
        let later = try withoutProducts(world)

        let refunds = [
            try notice("REFUND", "n1", tokens, world, after: 10),
            try notice("REFUND", "n2", first, world, after: 10),
        ]
        for refund in refunds {
            #expect(try await later.storeNotification(refund).result == .applied)
        }
        #expect(try await world.available(account) == 100)
        #expect(try await world.plan(account) == .free)

        let reversals = [
            try notice("REFUND_REVERSED", "n3", tokens, world, after: 20),
            try notice("REFUND_REVERSED", "n4", first, world, after: 20),
        ]
        for reversal in reversals { _ = try await later.storeNotification(reversal) }
        #expect(try await world.available(account) == 200)
        #expect(try await world.plan(account) == .premium)
    }

    @Test func `an unknown transaction of an undeclared product is acknowledged`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let named: [String: JSONValue] = ["appAccountToken": .string(account.description)]
        let tokens = world.store.transaction("9", of: "tokens", named)
        let later = try withoutProducts(world)

        let charge = try notice("ONE_TIME_CHARGE", "n1", tokens, world, after: 10)
        #expect(try await later.storeNotification(charge).result == .acknowledged)
        let request = try notice("CONSUMPTION_REQUEST", "n2", tokens, world, after: 10)
        #expect(try await later.storeNotification(request).consumption == nil)
        #expect(try await world.available(account) == 100)
    }

    @Test func `a pass keeps its end when its product changes`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let pass = world.store.transaction("1", of: "pass")
        let end = try await world.purchase(account, pass).planExpiresAt
        let later = try withoutProducts(world)
        _ = try await later.storeNotification(
            try notice("REFUND", "n1", pass, world, after: 10)
        )
        _ = try await later.storeNotification(
            try notice("REFUND_REVERSED", "n2", pass, world, after: 20)
        )

        #expect(end != nil)
        #expect(try await later.overview(of: account).planExpiresAt == end)
    }

    @Test func `a refund in the grace period ends the plan, though earlier periods were paid`()
        async throws
    {
        let world = try PurchaseWorld()
        let account = try await world.account()
        try await world.purchase(account, month("1", world, from: 0))
        let second = month("2", world, from: 30)
        try await world.notify("DID_RENEW", "n1", second, after: 1)
        let renewal: [String: JSONValue] = [
            "environment": "Production", "signedDate": world.milliseconds(after: 10),
            "gracePeriodExpiresDate": world.milliseconds(after: 76 * Self.day),
        ]
        try await world.notify(
            "DID_FAIL_TO_RENEW",
            "n2",
            second,
            subtype: "GRACE_PERIOD",
            renewal: renewal,
            after: 10
        )
        world.clock.advance(by: .seconds(61 * Self.day))
        #expect(try await world.plan(account) == .premium)

        try await world.notify("REFUND", "n3", second, after: 61 * Self.day)
        #expect(try await world.plan(account) == .free)
    }

    @Test func `a refund of an earlier period keeps the grace period`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let first = month("1", world, from: 0)
        try await world.purchase(account, first)
        let second = month("2", world, from: 30)
        let renewal: [String: JSONValue] = [
            "environment": "Production", "signedDate": world.milliseconds(after: 10),
            "gracePeriodExpiresDate": world.milliseconds(after: 76 * Self.day),
        ]
        try await world.notify(
            "DID_FAIL_TO_RENEW",
            "n1",
            second,
            subtype: "GRACE_PERIOD",
            renewal: renewal,
            after: 10
        )
        try await world.notify("REFUND", "n2", first, after: 20)
        world.clock.advance(by: .seconds(61 * Self.day))
        #expect(try await world.plan(account) == .premium)
    }

    @Test func `a request for consumption data says that a plan was delivered`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let first = month("1", world, from: 0)
        try await world.purchase(account, first)

        let outcome = try await world.notify("CONSUMPTION_REQUEST", "n1", first, after: 10)
        #expect(outcome.consumption?.isDelivered == true)
        let other = month("7", world, from: 0, ["originalTransactionId": "7"])
        let unknown = try await world.notify("CONSUMPTION_REQUEST", "n2", other, after: 10)
        #expect(unknown.consumption?.isDelivered == false)
    }

    @Test func `each purchase, refund and reversal is one event, also of a plan`() async throws {
        let world = try PurchaseWorld { $0.recordsEvents = true }
        let account = try await world.account()
        let tokens = world.store.transaction("9", of: "tokens")
        let first = month("1", world, from: 0)
        for (number, transaction) in [tokens, first].enumerated() {
            let ids = (1...4).map { "n\(number)\($0)" }
            try await world.purchase(account, transaction)
            try await world.purchase(account, transaction, key: "again \(number)")
            try await world.notify("REFUND", ids[0], transaction, after: 10)
            try await world.notify("REFUND", ids[1], transaction, after: 11)
            try await world.notify("REFUND_REVERSED", ids[2], transaction, after: 20)
            try await world.notify("REFUND_DECLINED", ids[3], transaction, after: 30)
        }
        try await world.notify("DID_RENEW", "m1", month("2", world, from: 30), after: 40)
        let replaced = month("2", world, from: 30, ["isUpgraded": true])
        try await world.notify("DID_CHANGE_RENEWAL_PREF", "m2", replaced, after: 50)

        let events = try await world.authority.waitingEvents(limit: 20)
        let types = try events.map { event in
            try JSONDecoder().decode([String: JSONValue].self, from: Data(event.body))["type"]
        }
        let life: [JSONValue] = [
            "sanguine.purchase.credited", "sanguine.purchase.refunded",
            "sanguine.purchase.restored",
        ]
        #expect(
            types == ["sanguine.account.created"] + life + life + ["sanguine.purchase.credited"]
        )
    }
}
