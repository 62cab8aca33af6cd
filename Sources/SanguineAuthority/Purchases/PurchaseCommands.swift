import SanguineModel

/// The commands of purchases.
///
/// All of them bring the stored state to what the App Store states about a transaction, and credit
/// or take back the difference. Repeated and late statements do not change the result, because the
/// one that was signed last decides.
struct PurchaseCommands: Sendable {
    let settings: AppStoreSettings
    let identity: IdentityCommands
    let encoder: ResponseEncoder

    private var now: Timestamp { identity.now }

    /// A statement of the App Store about a transaction.
    struct Statement: Sendable {
        /// The state of the grace period.
        enum Grace: Hashable, Sendable {
            case until(Timestamp)
            case over
        }

        var transaction: AppStoreTransaction
        /// The refunded part in milliunits of a percent.
        var refundedPart: Int64
        /// Whether a plan that it pays for is void.
        var isVoid: Bool
        /// The state of the grace period; `nil` if the statement does not contain it.
        var grace: Grace?
        /// The time at which the App Store signed the statement.
        var knownAt: Timestamp

        init(_ transaction: AppStoreTransaction) {
            self.transaction = transaction
            refundedPart = transaction.refundedPart
            isVoid = transaction.revokedAt != nil || transaction.isUpgraded
            knownAt = transaction.signedAt
        }
    }

    /// The account of a purchase, with the guests that were merged into it.
    struct Holder: Hashable, Sendable {
        var account: Identifier
        var aliases: Set<Identifier>

        func owns(_ other: Identifier?) -> Bool {
            other.map { $0 == account || aliases.contains($0) } ?? true
        }
    }

    /// Credits a transaction to the account that sends it, once.
    ///
    /// - Returns: The command; `nil` as its result if the transaction belongs to another account,
    ///   so that the caller looks again.
    /// - Throws: in this order `not_found`, `idempotency_mismatch`, `idempotency_expired`,
    ///   the problem of the content.
    func credit(_ holder: Holder, _ submission: Submission<Statement>) -> Command<Answer?> {
        let account = holder.account
        let statement = try? submission.content.get()
        let operation = Key.operation(account, key: submission.key)
        let keys = identity.profileKeys(account) + (statement.map { Self.keys($0, account) } ?? [])
        return Command(keys: keys + [operation]) { loaded throws(Problem) in
            guard loaded.account(account)?.state == .active, loaded.balance(account) != nil else {
                throw .noAccount
            }
            let row = loaded.operation(account, key: submission.key)
            if let answer = try Idempotency.replay(row, fingerprint: submission.fingerprint) {
                return Decision(Answer(answer, replayed: true))
            }
            let statement = try submission.content.get()
            guard let effect = try apply(statement, to: holder, loaded) else {
                return Decision(nil)
            }
            let answer = encoder.answer(
                200,
                PurchaseAnswer(
                    balance: encoder.message(effect.balance),
                    plan: effect.account.profile(at: now).plan,
                    planExpiresAt: effect.account.planExpiresAt,
                    transactionId: statement.transaction.id,
                    credited: effect.credited
                ),
                head: effect.balance.head
            )
            let done = OperationRow(
                account: account,
                key: submission.key,
                fingerprint: submission.fingerprint.bytes,
                state: .done(answer),
                at: now
            )
            return Decision(Answer(answer), changes: effect.changes + [.put(.operation(done))])
        }
    }

    /// The result of a notification.
    enum Handled: Hashable, Sendable {
        /// It took effect.
        case done
        /// It was handled before.
        case repeated
        /// The transaction belongs to another account by now, or the account has been merged or
        /// deleted: the caller looks again.
        case moved
        /// The product is unknown, and so is the transaction.
        case unknown
    }

    /// Applies a notification's statement to the account, or stores it until the account is known.
    func notify(_ id: String, _ statement: Statement, _ holder: Holder?) -> Command<Handled> {
        var keys = [HandledNotification.key(HandledNotification.id(id))]
        if let account = holder?.account {
            keys += identity.profileKeys(account) + Self.keys(statement, account)
        } else {
            keys += Self.keys(statement)
        }
        return Command(keys: keys) { loaded throws(Problem) in
            if loaded.document(.purchase, HandledNotification.id(id)) != nil {
                return Decision(.repeated)
            }
            guard try product(of: statement, loaded) != nil else { return Decision(.unknown) }
            if let holder, loaded.account(holder.account)?.state != .active {
                return Decision(.moved)
            }
            let handled = Change.put(HandledNotification(id: id, at: now))
            guard let holder else {
                guard let changes = try store(statement, loaded) else { return Decision(.moved) }
                return Decision(.done, changes: changes + [handled])
            }
            guard let effect = try apply(statement, to: holder, loaded) else {
                return Decision(.moved)
            }
            return Decision(.done, changes: effect.changes + [handled])
        }
    }

    private static func keys(_ statement: Statement) -> [Key] {
        [
            StorePurchase.key(StorePurchase.id(statement.transaction.id)),
            StoreSubscription.key(StoreSubscription.id(statement.transaction.originalID)),
        ]
    }

    private static func keys(_ statement: Statement, _ account: Identifier) -> [Key] {
        keys(statement) + [PlanSources.key(PlanSources.id(account))]
    }

    /// The effect of a statement on an account.
    private struct Effect {
        var account: AccountRow
        var balance: BalanceRow
        var changes: [Change]
        /// The tokens that the transaction credited, now or earlier.
        var credited: Int64
    }

    /// Applies a statement to an account; `nil` if the transaction belongs to another one.
    private func apply(
        _ statement: Statement,
        to holder: Holder,
        _ loaded: Loaded
    ) throws(Problem) -> Effect? {
        let id = holder.account
        guard let account = loaded.account(id), let balance = loaded.balance(id) else {
            throw .noAccount
        }
        switch try product(of: statement, loaded) {
        case .tokens(let tokens):
            var purchase = try purchase(statement, loaded)
            guard holder.owns(purchase.account) else { return nil }
            return credit(tokens, statement, &purchase, account, balance)
        case .premium(let days):
            var subscription = try subscription(statement, loaded)
            guard holder.owns(subscription.account) else { return nil }
            let before = subscription
            subscription.account = id
            add(statement, days: days, to: &subscription)
            var sources =
                try loaded.document(PlanSources.self, PlanSources.id(id))
                ?? PlanSources(of: account)
            sources.set(subscription)
            let (row, feed, changes) = identity.applyPlan(account, balance, to: &sources, loaded)
            return Effect(
                account: row,
                balance: feed,
                changes: changes + [.put(subscription)]
                    + PurchaseEvents(statement, of: id, at: now).events(
                        from: before,
                        to: subscription
                    ),
                credited: 0
            )
        case nil:
            throw Problem(
                .purchaseInvalid,
                "Declare the product in 'appStore.products': this server does not know it."
            )
        }
    }

    /// The effect of a transaction: the one that it had, or else that of its product.
    ///
    /// A product that is no longer sold may be removed from the settings, but its purchases can
    /// still be refunded.
    ///
    /// - Returns: `nil` for an unknown product.
    private func product(of statement: Statement, _ loaded: Loaded) throws(Problem) -> StoreProduct?
    {
        let credited = try loaded.document(
            StorePurchase.self,
            StorePurchase.id(statement.transaction.id)
        )
        let declared = settings.products[statement.transaction.product]
        if credited?.account != nil {
            // The number of credited tokens is stored.
            if case .tokens? = declared { return declared }
            return .tokens(0)
        }
        if let declared { return declared }
        let id = StoreSubscription.id(statement.transaction.originalID)
        let known = try loaded.document(StoreSubscription.self, id)
        return known == nil ? nil : .premium(days: nil)
    }

    /// Credits a transaction that has no account yet, and the difference of its refunds.
    ///
    /// A purchase is credited in full, also if the balance then exceeds the limit of grants: it was
    /// paid for, and the App Store would send a refused notification again for days.
    private func credit(
        _ tokens: Int64,
        _ statement: Statement,
        _ purchase: inout StorePurchase,
        _ account: AccountRow,
        _ balance: BalanceRow
    ) -> Effect {
        var draft = LedgerDraft(balance, now: now)
        let reason = "App Store \(purchase.transaction)"
        let source = PurchaseEvents(statement, of: account.id, at: now)
        var events: [Change] = []
        if purchase.account == nil {
            purchase.credited = tokens * statement.transaction.quantity
            draft.purchase(purchase.credited, reason: reason)
            events.append(source.event(.purchase, tokens: purchase.credited))
        }
        purchase.account = account.id
        if statement.knownAt >= purchase.knownAt {
            (purchase.refundedPart, purchase.knownAt) = (statement.refundedPart, statement.knownAt)
        }
        // Rounded in the buyer's favor.
        let refunded = purchase.credited * purchase.refundedPart / AppStoreTransaction.wholePart
        let more = refunded - purchase.refunded
        purchase.refunded = refunded
        if more > 0 {
            draft.refund(more, reason: reason)
            events.append(source.event(.refund, tokens: more))
        }
        if more < 0 {
            draft.purchase(-more, reason: "\(reason), refund reversed")
            events.append(source.event(.refundReversed, tokens: -more))
        }
        return Effect(
            account: account,
            balance: draft.balance,
            changes: draft.changes + [.put(purchase)] + events,
            credited: purchase.credited
        )
    }

    /// Stores a statement about a transaction without a known account; `nil` if it has one by now.
    private func store(_ statement: Statement, _ loaded: Loaded) throws(Problem) -> [Change]? {
        switch try product(of: statement, loaded) {
        case .tokens:
            var purchase = try purchase(statement, loaded)
            guard purchase.account == nil else { return nil }
            if statement.knownAt >= purchase.knownAt {
                (purchase.refundedPart, purchase.knownAt) = (
                    statement.refundedPart, statement.knownAt
                )
            }
            return [.put(purchase)]
        case .premium(let days):
            var subscription = try subscription(statement, loaded)
            guard subscription.account == nil else { return nil }
            add(statement, days: days, to: &subscription)
            return [.put(subscription)]
        case nil: return []
        }
    }

    private func add(_ statement: Statement, days: Int?, to subscription: inout StoreSubscription) {
        let transaction = statement.transaction
        let pass = pass(of: statement, days: days, subscription.periods[transaction.id])
        let isRefunded = statement.refundedPart >= AppStoreTransaction.wholePart
        let period = StoreSubscription.Period(
            endsAt: transaction.expiresAt ?? pass?.ownEnd,
            isVoid: pass == nil ? statement.isVoid : isRefunded,
            knownAt: statement.knownAt,
            pass: pass
        )
        subscription.add(period, of: transaction.id)
        guard let grace = statement.grace, statement.knownAt >= subscription.graceKnownAt else {
            return
        }
        subscription.graceKnownAt = statement.knownAt
        if case .until(let end) = grace {
            (subscription.graceEndsAt, subscription.graceOf) = (end, transaction.id)
        } else {
            (subscription.graceEndsAt, subscription.graceOf) = (nil, nil)
        }
    }

    /// Returns the pass that a transaction pays for; `nil` for a subscription, and for a plan
    /// without an end.
    private func pass(
        of statement: Statement,
        days: Int?,
        _ known: StoreSubscription.Period?
    ) -> PlanPass? {
        let transaction = statement.transaction
        guard transaction.expiresAt == nil else { return nil }
        let seconds: Int64? =
            if let known {
                // As it was at the purchase, even if the product has another duration now.
                known.pass?.seconds
                    ?? known.endsAt.map { ($0 - transaction.purchasedAt).components.seconds }
            } else {
                days.map { Int64($0) * 86_400 * transaction.quantity }
            }
        return seconds.map {
            PlanPass(
                boughtAt: transaction.purchasedAt,
                seconds: max(0, $0),
                refundedPart: statement.refundedPart
            )
        }
    }

    private func purchase(_ statement: Statement, _ loaded: Loaded) throws(Problem) -> StorePurchase
    {
        let id = statement.transaction.id
        return try loaded.document(StorePurchase.self, StorePurchase.id(id))
            ?? StorePurchase(transaction: id, knownAt: Self.beginning)
    }

    private func subscription(
        _ statement: Statement,
        _ loaded: Loaded
    ) throws(Problem) -> StoreSubscription {
        let id = statement.transaction.originalID
        return try loaded.document(StoreSubscription.self, StoreSubscription.id(id))
            ?? StoreSubscription(
                original: id,
                graceKnownAt: Self.beginning,
                knownAt: Self.beginning
            )
    }

    private static let beginning = Timestamp(millisecondsSince1970: 0)
}

extension IdentityCommands {
    /// Sets the plan that the sources give the account now.
    ///
    /// - Returns: The changed rows, and the changes with the sources.
    func applyPlan(
        _ row: AccountRow,
        _ feed: BalanceRow,
        to sources: inout PlanSources,
        _ loaded: Loaded
    ) -> (AccountRow, BalanceRow, [Change]) {
        var (row, feed) = (row, feed)
        sources.drop(before: now)
        let (plan, endsAt) = sources.plan(at: now)
        let before = row
        row.profile.plan = plan
        row.planExpiresAt = endsAt
        var changes = [Change.put(sources)]
        if before.profile.plan != plan || before.profile(at: now).plan != plan {
            changes += store(&row, &feed, loaded, quotas: true)
        } else if row != before {
            // The end is not a part of the profile, so that no device needs to know.
            changes.append(.put(.account(row)))
        }
        return (row, feed, changes)
    }

    /// Sets or removes the plan that an administrator gives the account.
    ///
    /// A plan that a purchase pays for stays until it ends.
    func setPlan(
        _ plan: Account.Plan,
        until end: Timestamp? = nil,
        of account: Identifier
    ) -> Command<(Account, head: Int64)> {
        let keys = profileKeys(account) + [PlanSources.key(PlanSources.id(account))]
        return Command(keys: keys) { loaded throws(Problem) in
            guard let row = loaded.account(account), row.state != .deleted,
                let feed = loaded.balance(account)
            else { throw .noAccount }
            if plan == .free, end != nil {
                throw Problem(.invalidContent, "Set 'expiresAt' only for the plan 'premium'.")
            }
            if let end, end <= now {
                throw Problem(.invalidContent, "Set 'expiresAt' to a time in the future.")
            }
            var sources =
                try loaded.document(PlanSources.self, PlanSources.id(account))
                ?? PlanSources(of: row)
            sources.administrator = plan == .free ? nil : PlanTerm(endsAt: end)
            let (changed, head, changes) = applyPlan(row, feed, to: &sources, loaded)
            return Decision((changed.profile(at: now), head.head), changes: changes)
        }
    }

    /// Puts the end of a plan into the feed.
    ///
    /// - Returns: Whether the plan is over.
    func endPlan(of account: Identifier) -> Command<Bool> {
        Command(keys: profileKeys(account)) { loaded in
            guard var row = loaded.account(account), var feed = loaded.balance(account),
                row.isPlanOver(at: now)
            else { return Decision(false) }
            row.profile.plan = .free
            row.planExpiresAt = nil
            return Decision(true, changes: store(&row, &feed, loaded, quotas: true))
        }
    }
}

extension AccountRow {
    /// Whether the plan has ended, but the profile does not show it yet.
    func isPlanOver(at now: Timestamp) -> Bool {
        profile.plan != .free && planExpiresAt.map { $0 <= now } ?? false
    }

    /// The profile at a time: a plan that has ended is `free`.
    func profile(at now: Timestamp) -> Account {
        guard isPlanOver(at: now) else { return profile }
        var profile = profile
        profile.plan = .free
        return profile
    }
}
