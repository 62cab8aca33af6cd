import SanguineModel

/// A transaction of the App Store that credits tokens.
struct StorePurchase: StoredDocument, Hashable {
    static let kind = DocumentKind.purchase
    /// The time for which news about a transaction is kept that no account has sent.
    static let unclaimedKept = Duration.seconds(400 * 86_400)

    /// The id of the transaction.
    var transaction: String
    /// The account that has the tokens; `nil` until it is known.
    var account: Identifier?
    /// The credited tokens, without refunds.
    var credited: Int64 = 0
    /// The tokens that refunds have taken back.
    var refunded: Int64 = 0
    /// The refunded part in milliunits of a percent, as of ``knownAt``.
    var refundedPart: Int64 = 0
    /// The time at which the App Store signed the newest news.
    var knownAt: Timestamp

    var documentID: String { Self.id(transaction) }
    var documentAccount: Identifier? { account }
    var documentExpiry: Timestamp? { account == nil ? knownAt + Self.unclaimedKept : nil }

    static func id(_ transaction: String) -> String { "appStore \(transaction)" }
}

/// A subscription or another product of the App Store that sets the plan.
struct StoreSubscription: StoredDocument, Hashable {
    static let kind = DocumentKind.purchase
    /// The number of transactions that are kept, those that end last.
    static let periodsLimit = 16

    /// The part of a subscription that one transaction pays for.
    struct Period: Codable, Hashable, Sendable {
        /// The end, for a pass without the account's other ones; `nil` for never.
        var endsAt: Timestamp?
        /// Whether it was refunded, revoked, or replaced by an upgrade.
        var isVoid: Bool
        /// The time at which the App Store signed the newest news.
        var knownAt: Timestamp
        /// The pass; `nil` for a subscription or a plan without an end, and in older documents.
        var pass: PlanPass?

        /// The refunded part in milliunits of a percent.
        var refundedPart: Int64 {
            isVoid ? AppStoreTransaction.wholePart : pass?.refundedPart ?? 0
        }
    }

    /// The id of the first transaction, which all renewals share.
    var original: String
    /// The account that has the plan; `nil` until it is known.
    var account: Identifier?
    /// The transactions by their ids.
    var periods: [String: Period] = [:]
    /// The end of the billing grace period; `nil` for none.
    var graceEndsAt: Timestamp?
    /// The transaction that the grace period follows; `nil` for none, and in older documents.
    var graceOf: String?
    /// The time at which the App Store signed the newest news about the grace period.
    var graceKnownAt: Timestamp
    /// The time at which the App Store signed the newest news.
    var knownAt: Timestamp

    var documentID: String { Self.id(original) }
    var documentAccount: Identifier? { account }
    var documentExpiry: Timestamp? {
        account == nil ? knownAt + StorePurchase.unclaimedKept : nil
    }

    static func id(_ original: String) -> String { "appStore subscription \(original)" }

    /// The time for which it pays, without passes; `nil` for none.
    var term: PlanTerm? {
        var term: PlanTerm?
        for period in periods.values where !period.isVoid && period.pass == nil {
            term = PlanTerm.longer(term, PlanTerm(endsAt: period.endsAt))
        }
        // A grace period extends a subscription, but does not replace a refunded one.
        guard let term, let graceEndsAt, graceOf.flatMap({ periods[$0] })?.isVoid != true else {
            return term
        }
        return PlanTerm.longer(term, PlanTerm(endsAt: graceEndsAt))
    }

    /// Adds a transaction, unless newer news about it is known.
    mutating func add(_ period: Period, of transaction: String) {
        knownAt = max(knownAt, period.knownAt)
        if let known = periods[transaction], known.knownAt > period.knownAt { return }
        periods[transaction] = period
        guard periods.count > Self.periodsLimit else { return }
        let first = periods.min { lhs, rhs in
            (lhs.value.endsAt ?? .distantFuture, lhs.key)
                < (rhs.value.endsAt ?? .distantFuture, rhs.key)
        }
        if let first { periods[first.key] = nil }
    }
}

/// The time for which an account has a plan.
struct PlanTerm: Codable, Hashable, Sendable {
    /// The end; `nil` for never.
    var endsAt: Timestamp?

    func isOver(at now: Timestamp) -> Bool { endsAt.map { $0 <= now } ?? false }

    /// Returns the one that ends later.
    static func longer(_ lhs: PlanTerm?, _ rhs: PlanTerm?) -> PlanTerm? {
        guard let lhs, let rhs else { return lhs ?? rhs }
        guard let left = lhs.endsAt, let right = rhs.endsAt else { return PlanTerm(endsAt: nil) }
        return PlanTerm(endsAt: max(left, right))
    }
}

/// Everything that gives an account its plan.
struct PlanSources: StoredDocument, Hashable {
    static let kind = DocumentKind.purchase

    var account: Identifier
    /// The term that an administrator has set; `nil` for none.
    var administrator: PlanTerm?
    /// The terms of purchases without passes, by the id of the first transaction.
    var purchases: [String: PlanTerm] = [:]
    /// The passes by the ids of their transactions; `nil` for none, and in older documents.
    var passes: [String: PlanPass]?

    var documentID: String { Self.id(account) }
    var documentAccount: Identifier? { account }

    static let prefix = "plan "
    static func id(_ account: Identifier) -> String { prefix + account.description }

    /// Creates the sources of an account that has none stored: a plan that it has nevertheless was
    /// set by an administrator.
    init(of row: AccountRow) {
        account = row.id
        if row.profile.plan == .premium {
            administrator = PlanTerm(endsAt: row.planExpiresAt)
        }
    }

    /// The plan at a time, and its end; `nil` for never.
    func plan(at now: Timestamp) -> (plan: Account.Plan, endsAt: Timestamp?) {
        let terms =
            [administrator, PlanPass.term(of: passes ?? [:])]
            + purchases.values.map(Optional.some)
        let longest = terms.reduce(nil, PlanTerm.longer)
        guard let longest, !longest.isOver(at: now) else { return (.free, nil) }
        return (.premium, longest.endsAt)
    }

    /// Returns all passes in those of some documents that are sources of a plan and readable.
    static func passes(in rows: [DocumentRow]) -> [String: PlanPass] {
        var passes: [String: PlanPass] = [:]
        for row in rows where row.kind == kind && row.id.hasPrefix(prefix) {
            passes.merge((try? PlanSources(row))?.passes ?? [:]) { own, _ in own }
        }
        return passes
    }

    /// Adds the terms of a merged guest.
    mutating func merge(_ other: PlanSources) {
        administrator = PlanTerm.longer(administrator, other.administrator)
        purchases.merge(other.purchases) { PlanTerm.longer($0, $1) ?? $0 }
        for (id, pass) in (other.passes ?? [:]).sorted(by: { $0.key < $1.key }) {
            let rest = add(pass, of: id) ? nil : PlanTerm(endsAt: pass.ownEnd)
            purchases[id] = PlanTerm.longer(purchases[id], rest)
        }
    }

    /// Sets the term and the passes that a subscription gives now.
    mutating func set(_ subscription: StoreSubscription) {
        var term = subscription.term
        for (id, period) in subscription.periods.sorted(by: { $0.key < $1.key }) {
            guard let pass = period.pass else { continue }
            if period.isVoid {
                passes?[id] = nil
            } else if !add(pass, of: id) {
                term = PlanTerm.longer(term, PlanTerm(endsAt: pass.ownEnd))
            }
        }
        purchases[subscription.original] = term
    }

    /// Adds a pass, or changes a known one; returns false if there are too many.
    private mutating func add(_ pass: PlanPass, of id: String) -> Bool {
        var passes = passes ?? [:]
        guard passes[id] != nil || passes.count < PlanPass.limit else { return false }
        passes[id] = pass
        self.passes = passes
        return true
    }

    /// Removes terms that are over, so that the document stays small.
    mutating func drop(before now: Timestamp) {
        purchases = purchases.filter { !$0.value.isOver(at: now) }
        passes = passes.map { PlanPass.current($0, at: now) }
    }
}

/// A notification that was handled.
struct HandledNotification: StoredDocument, Hashable {
    static let kind = DocumentKind.purchase
    /// The time for which it is kept; the App Store repeats notifications for three days.
    static let kept = Duration.seconds(40 * 86_400)

    var id: String
    var at: Timestamp

    var documentID: String { Self.id(id) }
    var documentAccount: Identifier? { nil }
    var documentExpiry: Timestamp? { at + Self.kept }

    static func id(_ id: String) -> String { "appStore notification \(id)" }
}

/// The guest of an Apple account that has the app.
struct AppTransactionGuest: StoredDocument, Hashable {
    static let kind = DocumentKind.purchase

    /// Apple's `appTransactionId`.
    var id: String
    /// The account that a reinstalled app finds.
    var account: Identifier

    var documentID: String { Self.id(id) }
    /// The document survives the account: otherwise its deletion would give a new grant.
    var documentAccount: Identifier? { nil }

    static func id(_ id: String) -> String { "appStore app \(id)" }
}

extension Timestamp {
    /// Later than every time that the App Store states.
    fileprivate static var distantFuture: Timestamp { Timestamp(millisecondsSince1970: .max) }
}
