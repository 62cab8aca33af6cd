import Foundation
import SanguineModel

/// Hands a transaction that a store signed to the server, which credits it once.
///
/// The key of its requests is the operation's id. The transaction's id would not do: after two days
/// the server forgets the answers of keys, and would refuse the key of a transaction that it has
/// credited, and the news of its refund would get the answer to the purchase. The server
/// recognizes the transaction itself.
struct PurchaseCredit: RemoteMutation {
    static let name = "$purchase.credit"
    private static let path = "/v1/purchases"

    let signedTransaction: String
    /// The id of the transaction, as the store has signed it.
    let transaction: String
    /// Whether the store has taken it back; `nil` for no.
    private let isRevoked: Bool?

    /// Creates the operation; `nil` if the text is not a signed transaction.
    init?(_ signedTransaction: String) {
        guard let payload = Self.payload(of: signedTransaction) else { return nil }
        self.signedTransaction = signedTransaction
        transaction = payload.transactionId
        isRevoked = payload.revocationDate == nil ? nil : true
    }

    /// Each transaction has its own lane, so that no other one waits for it.
    ///
    /// So has its refund: a purchase that waits in the outbox does not tell the server of it. The
    /// order does not matter, because what the store signed last decides.
    var lane: String { "$purchase \(transaction)" + (isRevoked == true ? " refund" : "") }

    // Only the server knows the value of a product.
    func effects(on view: inout MutationEffects) {}

    func send(_ request: MutationContext) async throws {
        do throws(SanguineError) {
            try await post(request)
        } catch {
            guard case .problem(let problem) = error, problem.code == .idempotencyExpired else {
                throw error
            }
            // The server has credited it and forgotten its answer: another key gets it again.
            try await post(request)
        }
    }

    private func post(_ request: MutationContext) async throws(SanguineError) {
        let body = PurchaseRequest(signedTransaction: signedTransaction)
        let response = try await request.serverResponse(
            Self.path,
            method: "POST",
            json: try WireCoding.encode(body, as: "the purchase")
        )
        let answer = try WireCoding.decode(PurchaseAnswer.self, from: response)
        request.credited(CreditedPurchase(answer, response))
    }

    /// The members of a transaction that the client reads.
    private struct Payload: Decodable {
        var transactionId: String
        var revocationDate: Double?
    }

    /// Returns the payload of a JWS; `nil` if there is none.
    ///
    /// The signature is checked by the server only.
    private static func payload(of signed: String) -> Payload? {
        let parts = signed.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3 else { return nil }
        var text = parts[1].replacing("-", with: "+").replacing("_", with: "/")
        text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        return Data(base64Encoded: String(text))
            .flatMap { try? JSONDecoder().decode(Payload.self, from: $0) }
    }
}

/// The server's answer to a purchase.
struct CreditedPurchase: Sendable {
    let answer: PurchaseAnswer
    /// The number of the account's feed that contains the purchase.
    let mark: FeedMark
    /// Whether the answer is that of an earlier request, so that its balance may be old.
    let isReplayed: Bool

    init(_ answer: PurchaseAnswer, _ response: TransportResponse) {
        self.answer = answer
        mark = FeedMark(epoch: response.epoch, number: answer.balance.head)
        isReplayed = response.header("idempotency-replayed") == "true"
    }
}
