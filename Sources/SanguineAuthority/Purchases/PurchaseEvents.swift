import SanguineModel

/// The events for analytics that news about a transaction causes.
struct PurchaseEvents: Sendable {
    private let news: PurchaseCommands.News
    private let account: Identifier
    private let now: Timestamp

    init(_ news: PurchaseCommands.News, of account: Identifier, at now: Timestamp) {
        self.news = news
        self.account = account
        self.now = now
    }

    /// Returns the event of tokens.
    func change(_ kind: AnalyticsEvent.Kind, tokens: Int64) -> Change {
        change(kind, ["tokens": .integer(tokens)])
    }

    /// Returns the events of a subscription's transaction.
    ///
    /// A transaction that an upgrade replaced is no refund.
    func changes(from before: StoreSubscription, to after: StoreSubscription) -> [Change] {
        // Of the many transactions of a long subscription, old ones are not kept.
        guard let period = after.periods[news.transaction.id] else { return [] }
        let plan: [String: JSONValue] = ["plan": .string(Account.Plan.premium.rawValue)]
        let known = before.account == nil ? nil : before.periods[news.transaction.id]
        var changes: [Change] = []
        if known == nil { changes.append(change(.purchase, plan)) }
        let (earlier, refunded) = (known?.refundedPart ?? 0, period.refundedPart)
        guard earlier != refunded, !news.transaction.isUpgraded else { return changes }
        changes.append(change(earlier < refunded ? .refund : .refundReversed, plan))
        return changes
    }

    private func change(_ kind: AnalyticsEvent.Kind, _ facts: [String: JSONValue]) -> Change {
        let product = ["product": JSONValue.string(news.transaction.product)]
        let data = product.merging(facts) { $1 }
        return .event(AnalyticsEvent(kind, of: account, at: now, data: data))
    }
}
