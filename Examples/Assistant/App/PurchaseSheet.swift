public import Observation
public import Sanguine

/// Credits a transaction that the App Store signed.
///
/// It is sent until the server has it, by a later process if necessary. The server credits it once,
/// whichever of the user's devices sends it.
public struct CreditPurchase: RemoteMutation {
    private struct Body: Encodable, Sendable {
        let provider = "appStore"
        let signedTransaction: String
    }

    public static let name = "assistant.credit-purchase"
    let signedTransaction: String
    public var lane: String { "purchases" }

    public init(_ signedTransaction: String) { self.signedTransaction = signedTransaction }

    // Only the server knows what a product is worth.
    public func effects(on view: inout MutationEffects) {}

    public func send(_ request: MutationContext) async throws {
        try await request.post("/v1/purchases", Body(signedTransaction: signedTransaction))
    }
}

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
        let receipt = try client.perform(CreditPurchase(signedTransaction))
        if case .refused(let problem) = try await receipt.outcome {
            throw SanguineError.problem(problem)
        }
        await shown.refresh()
    }
}

extension SanguineClient.Configuration {
    /// Sets what every client of the app needs: the timer of an observed balance, and the app's
    /// mutations.
    public mutating func prepareForAssistant() {
        balancePolling = .minutes(10)
        register(CreditPurchase.self)
    }
}
