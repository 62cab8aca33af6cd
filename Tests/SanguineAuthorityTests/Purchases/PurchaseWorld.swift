import Foundation
import SanguineModel
import TestSupport

@testable import SanguineAuthority

/// An authority that accepts the purchases of a made App Store.
struct PurchaseWorld: Sendable {
    let store: TestAppStore
    let clock = ManualClock()
    let storage = InterruptedStorage()
    let authority: Authority

    init(
        _ flaws: Set<TestAppStore.Flaw> = [],
        _ change: (inout AuthoritySettings) -> Void = { _ in }
    ) throws {
        store = try TestAppStore(at: ManualClock.start, flaws)
        var settings = AuthoritySettings()
        settings.appStore = AppStoreSettings(
            bundleID: TestAppStore.bundle,
            appAppleID: TestAppStore.appleID,
            roots: [try AppStoreRoot(store.root)],
            products: [
                "tokens": .tokens(100), "premium": .premium(days: nil),
                "pass": .premium(days: 30),
            ]
        )
        change(&settings)
        authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            settings: settings,
            clock: clock
        )
    }

    /// Opens the account of a new device.
    func guest(
        _ number: Int,
        app: String? = nil,
        device: String? = nil
    ) async throws -> GuestOutcome {
        try await authority.guest(
            GuestRequest(
                deviceId: "device-number-\(100_000 + number)",
                deviceSecret: Base64URL.encode(
                    (0..<32).map { UInt8(truncatingIfNeeded: number >> ($0 % 4 * 8)) }
                ),
                signedAppTransaction: app,
                deviceVerificationId: device
            )
        )
    }

    func account(_ number: Int = 1) async throws -> Identifier {
        try await guest(number).signedIn.account.id
    }

    /// Sends a transaction; the id is its idempotency key unless there is another one.
    @discardableResult
    func purchase(
        _ account: Identifier,
        _ transaction: [String: JSONValue],
        key: String? = nil
    ) async throws(Problem) -> PurchaseAnswer {
        guard let signed = try? store.sign(transaction) else {
            throw Problem(.internalFault, "The test cannot sign.")
        }
        return try await purchase(account, signed: signed, key: key ?? "\(transaction)")
    }

    @discardableResult
    func purchase(
        _ account: Identifier,
        signed: String,
        key: String = "key"
    ) async throws(Problem) -> PurchaseAnswer {
        let request = PurchaseRequest(signedTransaction: signed)
        let submission = Submission(
            key: key,
            fingerprint: Fingerprint(request.meaning),
            content: .success(request)
        )
        let answer = try await authority.purchase(account, submission)
        guard let message = try? answer.message(PurchaseAnswer.self) else {
            throw Problem(.internalFault, "The answer is no PurchaseAnswer.")
        }
        return message
    }

    @discardableResult
    func notify(
        _ type: String,
        _ id: String,
        _ transaction: [String: JSONValue],
        subtype: String? = nil,
        renewal: [String: JSONValue]? = nil,
        after seconds: Int = 0
    ) async throws -> StoreNotificationOutcome {
        let signed = try store.notification(
            type,
            id: id,
            about: transaction,
            subtype: subtype,
            renewal: renewal,
            at: store.now + .seconds(seconds)
        )
        return try await authority.storeNotification(signed)
    }

    func available(_ account: Identifier) async throws -> Int64 {
        try await authority.balance(account).available
    }

    func plan(_ account: Identifier) async throws -> Account.Plan {
        try await authority.account(account).0.plan
    }

    /// The time in milliseconds, as the App Store writes it.
    func milliseconds(after seconds: Int) -> JSONValue {
        .integer((store.now + .seconds(seconds)).millisecondsSince1970)
    }
}
