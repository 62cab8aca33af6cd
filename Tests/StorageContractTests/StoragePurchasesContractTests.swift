import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Purchases over every storage driver.
@Suite("Storage contract: purchases", .bounded)
struct StoragePurchasesContractTests {
    private struct Shop {
        let clock = ManualWallClock()
        let store: TestAppStore
        let authority: Authority

        init(over storage: any Storage) throws {
            store = try TestAppStore(at: clock.now())
            var settings = AuthoritySettings()
            settings.appStore = AppStoreSettings(
                bundleID: TestAppStore.bundle,
                appAppleID: TestAppStore.appleID,
                roots: [try AppStoreRoot(store.root)],
                products: ["tokens": .tokens(100), "pass": .premium(days: 30)]
            )
            authority = Authority(
                storage: storage,
                keys: SigningKeys(),
                settings: settings,
                clock: clock
            )
        }

        func account(_ number: UInt8) async throws -> Identifier {
            try await authority.guest(
                GuestRequest(
                    deviceId: "device-number-\(number)-of-all",
                    deviceSecret: Base64URL.encode([UInt8](repeating: number, count: 32))
                )
            ).signedIn.account.id
        }

        @discardableResult
        func purchase(
            _ account: Identifier,
            _ transaction: [String: JSONValue],
            key: String
        ) async throws -> PurchaseAnswer {
            let request = PurchaseRequest(signedTransaction: try store.sign(transaction))
            let submission = Submission(
                key: key,
                fingerprint: Fingerprint(request.meaning),
                content: .success(request)
            )
            let answer = try await authority.purchase(account, submission)
            return try JSONDecoder().decode(PurchaseAnswer.self, from: Data(answer.stored.body))
        }

        func notify(
            _ type: String,
            _ id: String,
            _ transaction: [String: JSONValue],
            after seconds: Int
        ) async throws -> StoreNotificationOutcome {
            try await authority.storeNotification(
                try store.notification(
                    type,
                    id: id,
                    about: transaction,
                    at: store.now + .seconds(seconds)
                )
            )
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `of fifty simultaneous sends of a transaction, one is credited`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let shop = try Shop(over: storage)
            let account = try await shop.account(1)
            let transaction = shop.store.transaction("1", of: "tokens")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<50 {
                    group.addTask {
                        _ = try await shop.purchase(account, transaction, key: "k\(number)")
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await shop.authority.balance(account).available == 200)
            #expect(try await storage.verifyLedger().differences == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a refund and its reversal are each applied once, and the sums are right`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let shop = try Shop(over: storage)
            let account = try await shop.account(1)
            let transaction = shop.store.transaction("1", of: "tokens")
            try await shop.purchase(account, transaction, key: "k")
            for (type, left) in [("REFUND", 100), ("REFUND_REVERSED", 200)] {
                let seconds = left
                let first = try await shop.notify(type, type, transaction, after: seconds)
                let second = try await shop.notify(type, type, transaction, after: seconds)
                #expect(first.result == .applied && second.result == .repeated)
                #expect(try await shop.authority.balance(account).available == Int64(left))
            }
            #expect(try await storage.verifyLedger().differences == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a pass gives the plan until its end, and only to its buyer`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let shop = try Shop(over: storage)
            let (buyer, other) = (try await shop.account(1), try await shop.account(2))
            let pass = shop.store.transaction("1", of: "pass")
            let answer = try await shop.purchase(buyer, pass, key: "k")
            #expect(answer.planExpiresAt == shop.store.now + .seconds(30 * 86_400))
            let refusal = await #expect(throws: Problem.self) {
                try await shop.purchase(other, pass, key: "k")
            }
            #expect(refusal?.code == .purchaseTaken)

            shop.clock.advance(by: .seconds(30 * 86_400))
            #expect(try await PlanEnds(of: shop.authority).end() == 1)
            #expect(try await PlanEnds(of: shop.authority).end() == 0)
            let stored = try await storage.load([.account(buyer)]).account(buyer)
            #expect(stored?.profile.plan == .free && stored?.planExpiresAt == nil)
        }
    }
}
