package import SanguineModel

/// The result of a notification of the App Store.
package struct StoreNotificationOutcome: Sendable {
    /// The id of the notification.
    package var id: String
    /// The type, and the subtype if there is one.
    package var type: String
    /// Whether it took effect, was repeated, or was only acknowledged.
    package var result: Result
    /// The answer to a request for consumption data; `nil` for other notifications.
    package var consumption: ConsumptionReport?

    /// The effect of a notification.
    package enum Result: String, Sendable {
        /// It took effect.
        case applied
        /// It was handled before.
        case repeated
        /// It has no effect: a test, a type or product that this version does not know, or a
        /// transaction of an account that was deleted.
        case acknowledged
    }
}

/// The answer to the App Store's request for consumption data: how much of a purchase was used.
public struct ConsumptionReport: Hashable, Codable, Sendable {
    /// The transaction that the customer wants to be refunded.
    public var transactionId: String
    /// The spent part of its tokens, in milliunits of a percent: 100,000 for all.
    ///
    /// Tokens that were granted or bought otherwise count as spent last. 0 for a plan, whose
    /// elapsed time the App Store knows.
    public var consumptionPercentage: Int64
    /// Whether the tokens were credited, or the plan was set.
    public var isDelivered: Bool
}

extension Authority {
    /// Credits a transaction that the App Store signed to the account.
    ///
    /// - Throws: in this order `not_found`, `idempotency_mismatch`, `idempotency_expired`,
    ///   `invalid_content`, `purchase_invalid`, `purchase_foreign`, `purchase_taken`.
    package func purchase(
        _ account: Identifier,
        _ submission: Submission<PurchaseRequest>
    ) async throws(Problem) -> Answer {
        let store = try storeVerifier()
        let content: Result<AppStoreTransaction, Problem>
        do throws(Problem) {
            let signed = try submission.content.get().signedTransaction
            let transaction = try await store.transaction(signed, now: clock.now())
            guard !transaction.isFamilyShared || store.settings.countsFamilySharing else {
                throw Problem(
                    .purchaseForeign,
                    "Buy the product with this Apple account: it was shared by a family member."
                )
            }
            content = .success(transaction)
        } catch {
            content = .failure(error)
        }
        return try await purchase(account, verified: submission.with(content), store.settings)
    }

    /// Credits a transaction whose signature was verified, or takes its refunded part back.
    ///
    /// - Throws: as ``purchase(_:_:)``.
    package func purchase(
        _ account: Identifier,
        verified submission: Submission<AppStoreTransaction>,
        _ settings: AppStoreSettings
    ) async throws(Problem) -> Answer {
        var refused: PurchaseCommands.Holder?
        return try await lookingAgain { () async throws(Problem) -> Answer? in
            var holder = PurchaseCommands.Holder(account: account, aliases: [])
            let content: Result<PurchaseCommands.Statement, Problem>
            do throws(Problem) {
                let statement = PurchaseCommands.Statement(try submission.content.get())
                holder = try await self.holder(of: statement, sentBy: account, settings)
                // Nothing has changed: the transaction belongs to another account.
                guard holder != refused else { throw .purchaseTaken }
                content = .success(statement)
            } catch {
                content = .failure(error)
            }
            refused = holder
            return try await perform(
                purchases(settings).credit(holder, submission.with(content))
            )
        }
    }

    /// Handles a server notification of the App Store, version 2.
    ///
    /// - Throws: `purchase_invalid`, `purchase_foreign`.
    package func storeNotification(
        _ signed: String
    ) async throws(Problem) -> StoreNotificationOutcome {
        let store = try storeVerifier()
        let now = clock.now()
        let notification = try await store.notification(signed, now: now)
        var outcome = StoreNotificationOutcome(
            id: notification.id,
            type: [notification.type, notification.subtype].compactMap(\.self)
                .joined(separator: " "),
            result: .acknowledged
        )
        guard let signedTransaction = notification.content?.signedTransactionInfo else {
            return outcome
        }
        let transaction = try await store.transaction(signedTransaction, now: now)
        var renewal: AppStoreRenewal?
        if let signed = notification.content?.signedRenewalInfo {
            renewal = try await store.renewal(signed, now: now)
        }
        guard !transaction.isFamilyShared || store.settings.countsFamilySharing else {
            return outcome
        }
        if notification.type == "CONSUMPTION_REQUEST" {
            let isDeclared = store.settings.products[transaction.product] != nil
            let report = try await consumption(of: transaction)
            guard report.isDelivered || isDeclared else { return outcome }
            outcome.consumption = report
            outcome.result = .applied
            return outcome
        }
        guard let statement = PurchaseCommands.Statement(notification, transaction, renewal) else {
            return outcome
        }
        outcome.result = try await apply(statement, notification.id, store.settings)
        return outcome
    }

    private func apply(
        _ statement: PurchaseCommands.Statement,
        _ id: String,
        _ settings: AppStoreSettings
    ) async throws(Problem) -> StoreNotificationOutcome.Result {
        // Another request may claim the transaction, or merge or delete its account, between the
        // look-up and the command.
        try await lookingAgain { () async throws(Problem) -> StoreNotificationOutcome.Result? in
            let owner = try await owner(of: statement)
            let holder = try await holder(of: statement, ownedBy: owner)
            // Nothing is left to change in an account that was deleted.
            if owner != nil, holder == nil { return .acknowledged }
            let command = purchases(settings).notify(id, statement, holder)
            switch try await perform(command, evenIfDeleted: true) {
            case .done: return .applied
            case .repeated: return .repeated
            case .unknown: return .acknowledged
            case .moved: return nil
            }
        }
    }

    private func purchases(_ settings: AppStoreSettings) -> PurchaseCommands {
        PurchaseCommands(settings: settings, identity: identity, encoder: encoder)
    }

    func storeVerifier() throws(Problem) -> AppStoreVerifier {
        guard let store else {
            throw Problem(
                .notFound,
                "Configure 'appStore' on the server: it does not accept purchases."
            )
        }
        return store
    }

    /// Returns the account that sends a transaction, with the guests that were merged into it if
    /// one of them has the transaction.
    ///
    /// A subscription of an account that was deleted continues in the account that sends it,
    /// because its buyer still pays. Tokens were credited once and for all.
    ///
    /// - Throws: `purchase_taken` if the transaction names another account.
    private func holder(
        of statement: PurchaseCommands.Statement,
        sentBy account: Identifier,
        _ settings: AppStoreSettings
    ) async throws(Problem) -> PurchaseCommands.Holder {
        let sender = PurchaseCommands.Holder(account: account, aliases: [])
        if let named = statement.transaction.account, named != account,
            let other = try await holder(named), other.account != account
        {
            throw .purchaseTaken
        }
        guard let owner = try await owner(of: statement), owner != account else { return sender }
        guard let holder = try await holder(owner) else {
            guard case .premium? = settings.products[statement.transaction.product] else {
                return sender
            }
            return PurchaseCommands.Holder(account: account, aliases: [owner])
        }
        return holder.account == account ? holder : sender
    }

    /// Returns the account for a notification's statement; `nil` if it is not known yet.
    private func holder(
        of statement: PurchaseCommands.Statement,
        ownedBy owner: Identifier?
    ) async throws(Problem) -> PurchaseCommands.Holder? {
        if let owner { return try await holder(owner) }
        guard let named = statement.transaction.account else { return nil }
        return try await holder(named)
    }

    private func owner(
        of statement: PurchaseCommands.Statement
    ) async throws(Problem) -> Identifier? {
        let purchase = StorePurchase.id(statement.transaction.id)
        let subscription = StoreSubscription.id(statement.transaction.originalID)
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([
                StorePurchase.key(purchase), StoreSubscription.key(subscription),
            ])
        }
        if let known = try loaded.document(StorePurchase.self, purchase)?.account { return known }
        return try loaded.document(StoreSubscription.self, subscription)?.account
    }

    /// Follows the merges of an account; `nil` if it does not exist or was deleted.
    private func holder(
        _ account: Identifier
    ) async throws(Problem) -> PurchaseCommands.Holder? {
        var (account, aliases) = (account, Set<Identifier>())
        for _ in 0...Self.aliasSteps {
            let id = account
            let loaded = try await read { storage throws(StorageError) in
                try await storage.load([.account(id)])
            }
            switch loaded.account(id)?.state {
            case .active: return PurchaseCommands.Holder(account: id, aliases: aliases)
            case .merged(let target):
                aliases.insert(id)
                account = target
            case .deleted, nil: return nil
            }
        }
        return nil
    }

    /// Returns how much of a transaction's tokens was spent until now.
    private func consumption(
        of transaction: AppStoreTransaction
    ) async throws(Problem) -> ConsumptionReport {
        let id = StorePurchase.id(transaction.id)
        let plan = StoreSubscription.id(transaction.originalID)
        let found = try await read { storage throws(StorageError) in
            try await storage.load([StorePurchase.key(id), StoreSubscription.key(plan)])
        }
        var report = ConsumptionReport(
            transactionId: transaction.id,
            consumptionPercentage: 0,
            isDelivered: false
        )
        if let known = try found.document(StoreSubscription.self, plan), known.account != nil {
            report.isDelivered = known.periods[transaction.id] != nil
        }
        guard let purchase = try found.document(StorePurchase.self, id),
            let owner = purchase.account, purchase.credited > 0,
            let holder = try await holder(owner)
        else { return report }
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([.balance(holder.account)])
        }
        report.isDelivered = true
        guard let balance = loaded.balance(holder.account) else { return report }
        let left = min(max(0, balance.available + balance.held), purchase.credited)
        report.consumptionPercentage =
            (purchase.credited - left) * AppStoreTransaction.wholePart / purchase.credited
        return report
    }
}

extension PurchaseCommands.Statement {
    /// Creates the statement of a notification; returns `nil` for a type without an effect.
    init?(
        _ notification: AppStoreNotification,
        _ transaction: AppStoreTransaction,
        _ renewal: AppStoreRenewal?
    ) {
        self.init(transaction)
        knownAt = notification.signedAt
        switch notification.type {
        case "REFUND", "REVOKE":
            isVoid = true
            // Also if the transaction does not say so itself.
            if transaction.revokedAt == nil { refundedPart = AppStoreTransaction.wholePart }
        case "REFUND_REVERSED":
            (refundedPart, isVoid) = (0, transaction.isUpgraded)
        case "DID_FAIL_TO_RENEW":
            guard notification.subtype == "GRACE_PERIOD", let end = renewal?.graceEndsAt else {
                grace = .over
                return
            }
            grace = .until(end)
        case "DID_RENEW", "EXPIRED", "GRACE_PERIOD_EXPIRED", "SUBSCRIBED", "OFFER_REDEEMED":
            grace = .over
        case "ONE_TIME_CHARGE", "DID_CHANGE_RENEWAL_PREF", "DID_CHANGE_RENEWAL_STATUS",
            "RENEWAL_EXTENDED", "REFUND_DECLINED":
            break
        default:
            return nil
        }
    }
}
