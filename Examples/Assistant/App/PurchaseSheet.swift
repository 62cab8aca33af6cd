public import Observation
public import Sanguine

/// The state of the sheet on which users buy tokens.
@MainActor
@Observable
public final class PurchaseSheet {
    private let client: SanguineClient
    private let shown: ValueModel<Balance>
    /// Whether a purchase is on its way to the server.
    public private(set) var isCrediting = false

    public init(_ client: SanguineClient) {
        self.client = client
        shown = client.model(AssistantScreen.balanceQuery)
    }

    /// The real balance, with running calls deducted.
    public var balance: Balance? { shown.value }

    /// Credits a purchase, which is in ``balance`` when this returns.
    ///
    /// Finish StoreKit's transaction then, and not before.
    ///
    /// - Parameter signedTransaction: StoreKit's `jwsRepresentation`.
    /// - Throws: The server's refusal, such as `purchase_invalid`.
    public func credit(_ signedTransaction: String) async throws {
        isCrediting = true
        defer { isCrediting = false }
        try await client.purchases.credit(signedTransaction: signedTransaction)
    }
}

extension SanguineClient.Configuration {
    /// Sets what every client of the app needs: the timer of an observed balance.
    public mutating func prepareForAssistant() { balancePolling = .minutes(10) }
}
