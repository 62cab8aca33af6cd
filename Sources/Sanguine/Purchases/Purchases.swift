import Foundation
public import SanguineModel

/// Purchases in a store, which the server verifies and credits.
///
/// ```swift
/// let answer = try await client.purchases.credit(signedTransaction: result.jwsRepresentation)
/// await transaction.finish()
/// ```
///
/// An app that sells with StoreKit needs only ``follow(_:report:)`` and a button, see
/// <doc:Purchases-In-The-App>.
public struct Purchases: Sendable {
    // No mutable state: the parts of the client guard their own.
    let users: UserSwitcher

    /// Hands a signed transaction to the server, and returns when the server has it.
    ///
    /// The transaction is stored on disk before this suspends, and sent until the server has
    /// answered, by a later process if necessary. It is credited once, whichever device sends it
    /// and however often. A device without an account gets a guest for it. When this returns, the
    /// balance and the plan on this device contain the purchase.
    ///
    /// Finish the store's transaction then, and not before. Cancelling the task ends the wait, but
    /// not the sending.
    ///
    /// - Parameter signedTransaction: StoreKit's `jwsRepresentation`.
    /// - Returns: The balance and the plan after the purchase.
    /// - Throws: ``SanguineError``: a problem with `purchase_invalid`, `purchase_foreign` for
    ///   another app or environment, or `purchase_taken` if another account has it;
    ///   ``SanguineError/userChanged`` after a sign-out, ``SanguineError/closed`` and
    ///   ``SanguineError/cancelled`` while it waits, and it is sent later; `outboxFull`, or `store`
    ///   if the disk failed, and then it is not.
    @discardableResult
    public nonisolated(nonsending) func credit(
        signedTransaction: String
    ) async throws(SanguineError) -> PurchaseAnswer {
        guard let credit = PurchaseCredit(signedTransaction) else { throw .problem(.notSigned) }
        guard users.services.configuration.server != nil else { throw .notConfigured("'server'") }
        let (user, receipt) = try users.perform {
            user throws(SanguineError) -> (UserScope, Receipt) in
            user.authorizer.allowSignIn()
            // A transaction that waits is not added again, for example at each launch.
            if let waiting = try user.outbox.receipt(of: PurchaseCredit.name, in: credit.lane) {
                return (user, waiting)
            }
            return (user, try user.mutations.perform(credit))
        }
        switch try await receipt.outcome {
        case .applied: break
        case .withdrawn: throw .cancelled
        case .refused(let problem):
            // The caller knows it now; the store still has the transaction.
            try? user.outbox.discard(receipt.id)
            throw .problem(problem)
        }
        guard let answer = user.purchaseAnswers.answer(to: receipt.id) else {
            throw .decoding("The server has the purchase, but its answer could not be read")
        }
        await user.showsPurchase(answer)
        return answer
    }
}

extension Purchases {
    /// Hands a transaction to the server, and finishes it once the server has it, for this account
    /// or for another one.
    ///
    /// ``follow(_:report:)`` does this for all transactions of a store.
    ///
    /// - Returns: The balance and the plan after the purchase.
    /// - Throws: The errors of ``credit(signedTransaction:)``.
    @discardableResult
    public nonisolated(nonsending) func deliver(
        _ transaction: StoreTransaction
    ) async throws(SanguineError) -> PurchaseAnswer {
        do throws(SanguineError) {
            let answer = try await credit(signedTransaction: transaction.signed)
            await transaction.finish()
            return answer
        } catch {
            if case .problem(let problem) = error, problem.code == .purchaseTaken {
                await transaction.finish()
            }
            throw error
        }
    }
}

extension UserScope {
    /// Applies the answer to a purchase, before callers that wait for it continue.
    func purchased(_ purchase: CreditedPurchase, _ operation: Identifier) {
        if !purchase.isReplayed { feedUpdater.purchased(purchase) }
        if purchaseAnswers.received(purchase.answer, for: operation) {
            services.metrics.analytics.post(.purchased)
        }
    }

    /// Waits until the shown balance contains a purchase.
    ///
    /// While calls run, the server's number does not show which of them it contains. So the balance
    /// is fetched, which asks about each of them.
    nonisolated(nonsending) func showsPurchase(_ answer: PurchaseAnswer) async {
        if !balance.contains(answer.balance.head) {
            services.queries.invalidate(.balance)
            _ = try? await services.queries.value(of: .balance)
        }
        let models = services.models
        await MainActor.run {
            models.applyNewest(Array(FeedCacheUpdater.keys) + [AccountModel.key])
        }
    }
}

extension BalanceKeeper {
    /// Whether the shown balance contains the change with a number of the feed.
    func contains(_ head: Int64) -> Bool { shownHead.map { $0 >= head } ?? false }
}
