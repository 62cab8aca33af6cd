import Foundation
import SanguineModel

// `/v1/purchases`.
extension Endpoints {
    /// Observes the notifications of a store.
    package typealias StoreNotificationObserver =
        @Sendable (StoreNotificationOutcome) async -> Void

    var purchases: [Endpoint] {
        [
            Endpoint("POST", "purchases", purchase),
            Endpoint("POST", "purchases/appStore/notifications", notification),
        ]
    }

    @Sendable
    private func purchase(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let admitted = try await admission.submit(
            request,
            as: PurchaseRequest.self,
            meaning: \.meaning
        )
        return .answer(try await authority.purchase(admitted.identity.account, admitted.submission))
    }

    /// The body of a notification, as the App Store sends it.
    private struct Notification: Decodable, Sendable {
        var signedPayload: String
    }

    @Sendable
    private func notification(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let body = try await admission.anonymous(request, as: Notification.self)
        // A notification, its transaction and its renewal: three chains of three signatures.
        request.charge(ProcessorTime.signature * 9)
        let outcome = try await authority.storeNotification(body.signedPayload)
        await onStoreNotification?(outcome)
        return WireResponse(status: 204)
    }
}

extension PurchaseRequest {
    /// The text for the fingerprint: StoreKit signs a transaction again from time to time, and that
    /// is the same request.
    ///
    /// A refund is another one. Otherwise, under the key of the purchase, it would get the answer
    /// to the purchase and take no effect.
    var meaning: String {
        struct Transaction: Decodable {
            var transactionId: String
            var revocationDate: JSONValue?
        }
        let parts = signedTransaction.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = Base64URL.decode(String(parts[1])),
            let transaction = try? JSONDecoder().decode(Transaction.self, from: Data(bytes))
        else { return "\(provider.rawValue) \(signedTransaction)" }
        let state = transaction.revocationDate == nil ? "transaction" : "refund of"
        return "\(provider.rawValue) \(state) \(transaction.transactionId)"
    }
}
