#if canImport(StoreKit)
import Foundation
public import SanguineModel
public import StoreKit

// Only the calls of StoreKit: what is sent, finished, retried and reported is decided by
// `TransactionDesk`, which is tested on every platform.

/// The App Store, for ``Purchases/follow(_:report:)``.
public struct AppStorePurchases: PurchaseStore {
    /// Creates the store.
    public init() {}

    /// See ``PurchaseStore/unfinished()``.
    public func unfinished() -> AsyncStream<StoreTransaction> {
        Self.stream(of: StoreKit.Transaction.unfinished)
    }

    /// See ``PurchaseStore/updates()``.
    public func updates() -> AsyncStream<StoreTransaction> {
        Self.stream(of: StoreKit.Transaction.updates)
    }

    private static func stream(
        of transactions: StoreKit.Transaction.Transactions
    ) -> AsyncStream<StoreTransaction> {
        AsyncStream { continuation in
            let reader = Task {
                for await result in transactions { continuation.yield(StoreTransaction(result)) }
                continuation.finish()
            }
            continuation.onTermination = { _ in reader.cancel() }
        }
    }
}

extension PurchaseStore where Self == AppStorePurchases {
    /// The App Store.
    public static var appStore: AppStorePurchases { AppStorePurchases() }
}

extension StoreTransaction {
    /// Creates the transaction of StoreKit's result.
    ///
    /// The server verifies the signature, so StoreKit's own verification does not matter.
    public init(_ result: VerificationResult<StoreKit.Transaction>) {
        let transaction = result.unsafePayloadValue
        self.init(
            id: String(transaction.id),
            signed: result.jwsRepresentation,
            isRevoked: transaction.revocationDate != nil
        ) {
            await transaction.finish()
        }
    }
}

extension Purchases {
    #if !os(visionOS)
    /// Lets the user buy a product, and credits it.
    ///
    /// The purchase carries the account's id, so that the server can assign it even if this
    /// device never sends it.
    ///
    /// - Parameters:
    ///   - product: The product.
    ///   - options: Further options of StoreKit. Default: none.
    /// - Returns: The balance and the plan after the purchase; `nil` if the user has cancelled, or
    ///   if it waits for an approval: then ``follow(_:report:)`` credits it later.
    /// - Throws: StoreKit's error; ``SanguineError``, as ``credit(signedTransaction:)`` does, and
    ///   without a connection to the server before anything is bought.
    @discardableResult
    public nonisolated(nonsending) func purchase(
        _ product: Product,
        options: Set<Product.PurchaseOption> = []
    ) async throws -> PurchaseAnswer? {
        try await purchase { try await product.purchase(options: options.union($0)) }
    }
    #endif

    /// Lets the user buy a product in the app's own way, such as SwiftUI's `PurchaseAction`, and
    /// credits it.
    ///
    /// - Parameter buy: Buys the product with the options, which name the account.
    /// - Returns: As ``purchase(_:options:)``.
    /// - Throws: As ``purchase(_:options:)``.
    @discardableResult
    public nonisolated(nonsending) func purchase(
        _ buy: (Set<Product.PurchaseOption>) async throws -> Product.PurchaseResult
    ) async throws -> PurchaseAnswer? {
        var options: Set<Product.PurchaseOption> = []
        let account = try await UserAccount(users: users).value().id
        if let token = account.flatMap({ UUID(uuidString: $0.description) }) {
            options.insert(.appAccountToken(token))
        }
        guard case .success(let result) = try await buy(options) else { return nil }
        return try await deliver(StoreTransaction(result))
    }
}

extension AppTransactionProof {
    /// Returns the proof of the App Store; `nil` if there is none.
    ///
    /// StoreKit may ask the user of a development build to sign in to the App Store.
    public static func appStore() async -> AppTransactionProof? {
        guard let device = AppStore.deviceVerificationID,
            let transaction = try? await AppTransaction.shared
        else { return nil }
        return AppTransactionProof(
            signedAppTransaction: transaction.jwsRepresentation,
            deviceVerificationId: device.uuidString.lowercased()
        )
    }
}
#endif
