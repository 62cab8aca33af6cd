public import SanguineModel

/// A store that sells an app's products, as the client sees it.
///
/// On Apple's platforms it is `AppStorePurchases`; in a test, a scripted one.
public protocol PurchaseStore: Sendable {
    /// The transactions that the app has not finished, one after the other.
    ///
    /// The sequence ends with the last one.
    func unfinished() -> AsyncStream<StoreTransaction>

    /// Transactions that arrive while the app runs: purchases that were approved later or made on
    /// another device, renewals and refunds.
    ///
    /// The sequence ends only with the app.
    func updates() -> AsyncStream<StoreTransaction>
}

/// A transaction of a store.
public struct StoreTransaction: Sendable {
    /// The id of the transaction.
    public let id: String
    /// The transaction as the store signed it: StoreKit's `jwsRepresentation`.
    public let signed: String
    /// Whether the store has taken it back, by a refund or by the end of family sharing.
    public let isRevoked: Bool
    /// Tells the store that the app has delivered the transaction, so that it is not returned
    /// again.
    public let finish: @Sendable () async -> Void

    /// Creates a transaction.
    public init(
        id: String,
        signed: String,
        isRevoked: Bool = false,
        finish: @escaping @Sendable () async -> Void
    ) {
        self.id = id
        self.signed = signed
        self.isRevoked = isRevoked
        self.finish = finish
    }
}

/// The end of a transaction that was handed to the server.
public enum PurchaseReport: Hashable, Sendable {
    /// The server has it; the balance and the plan contain it.
    case credited(PurchaseAnswer)
    /// Another account has it: offer to sign in there.
    case taken(transaction: String)
    /// The server does not accept it, for example because it does not know the product.
    ///
    /// The transaction stays unfinished, and is sent again at the next launch.
    case refused(transaction: String, Problem)
    /// It could not be stored on this device; it is tried again, at the latest at the next launch.
    case postponed(transaction: String, SanguineError)
}
