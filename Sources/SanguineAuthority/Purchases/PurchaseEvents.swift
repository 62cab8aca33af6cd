import SanguineModel

/// The events for analytics that a statement about a transaction causes.
struct PurchaseEvents: Sendable {
    private let statement: PurchaseCommands.Statement
    private let account: Identifier
    private let now: Timestamp

    init(_ statement: PurchaseCommands.Statement, of account: Identifier, at now: Timestamp) {
        self.statement = statement
        self.account = account
        self.now = now
    }

    /// Returns the event of a purchase or refund of tokens.
    func event(_ kind: AnalyticsEvent.Kind, tokens: Int64) -> Change {
        event(kind, ["tokens": .integer(tokens)])
    }

    /// Returns the events of a subscription's transaction.
    ///
    /// A transaction that an upgrade replaced is no refund.
    func events(from before: StoreSubscription, to after: StoreSubscription) -> [Change] {
        // Of the many transactions of a long subscription, old ones are not kept.
        guard let period = after.periods[statement.transaction.id] else { return [] }
        let plan: [String: JSONValue] = ["plan": .string(Account.Plan.premium.rawValue)]
        let known = before.account == nil ? nil : before.periods[statement.transaction.id]
        var changes: [Change] = []
        if known == nil { changes.append(event(.purchase, plan)) }
        let (earlier, refunded) = (known?.refundedPart ?? 0, period.refundedPart)
        guard earlier != refunded, !statement.transaction.isUpgraded else { return changes }
        changes.append(event(earlier < refunded ? .refund : .refundReversed, plan))
        return changes
    }

    private func event(_ kind: AnalyticsEvent.Kind, _ facts: [String: JSONValue]) -> Change {
        let product = ["product": JSONValue.string(statement.transaction.product)]
        let data = product.merging(facts) { $1 }
        return .event(AnalyticsEvent(kind, of: account, at: now, data: data))
    }
}
