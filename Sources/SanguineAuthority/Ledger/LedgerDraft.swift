import SanguineModel

/// The effect of one operation on one account's balance: transfers and the resulting balance.
///
/// Invariants, checked after every step in debug builds:
///
/// 1. `held` is never below zero. `available` is below zero only after a refund: no other transfer
///    takes it below zero, or, if it was below zero before the operation, below that amount.
/// 2. All transfers of an operation share one number of the feed: the owner sees all of them or
///    none.
/// 3. The running balances of the last transfer equal the balance.
/// 4. An amount of zero creates no transfer, unless it is a note.
/// 5. At most `available` expires, nothing of an amount below zero, and none of it has expired when
///    the draft begins and after each settlement of a hold.
struct LedgerDraft {
    private(set) var balance: BalanceRow
    private var transfers: [Transfer] = []
    private var hasNumber = false
    /// The minimum value of `available`: zero, except after a refund.
    private var floor: Int64
    private let now: Timestamp
    private let rules: SpendingRules?

    /// Creates a draft, which begins with the expiry of grants whose time has passed.
    ///
    /// - Parameters:
    ///   - balance: The balance before the operation.
    ///   - now: The time of the operation.
    ///   - rules: The rules for spends and holds. Default: no limit.
    init(_ balance: BalanceRow, now: Timestamp, rules: SpendingRules? = nil) {
        self.balance = balance
        floor = min(0, balance.available)
        // A wall clock may have been set back; the time of a balance never decreases.
        self.now = max(now, balance.changedAt)
        self.rules = rules
        expireGrants()
    }

    /// The rows to store: the transfers in order, then the balance.
    var changes: [Change] {
        hasNumber ? transfers.map(Change.append) + [.put(.balance(balance))] : []
    }

    /// Returns the operation's number of the feed, also for rows other than the balance.
    mutating func nextNumber() -> Int64 {
        if !hasNumber { balance.head += 1 }
        hasNumber = true
        return balance.head
    }

    mutating func grant(_ amount: Int64, reason: String, expiresAt: Timestamp? = nil) {
        let debt = debt
        move(amount, .grant, reason)
        guard let expiresAt else { return }
        var expiring = ExpiringGrants()
        expiring.add(amount, at: expiresAt)
        add(expiring, of: amount, covering: debt)
    }

    /// Takes an amount back, at most what can be spent; it does not count as spent.
    mutating func debit(_ amount: Int64, reason: String) throws(Problem) {
        guard amount <= 0 || balance.available >= amount else { throw insufficient(amount) }
        move(amount, .debit, reason)
    }

    mutating func purchase(_ amount: Int64, reason: String) {
        move(amount, .purchase, reason)
    }

    /// Takes back the tokens of a purchase, also those that were spent.
    mutating func refund(_ amount: Int64, reason: String) {
        floor = min(floor, balance.available - amount)
        move(amount, .refund, reason)
    }

    /// Sets the account's own spending limit per day.
    mutating func setSpendingLimit(_ perDay: Int64?) { balance.spending.perDay = perDay }

    /// Adds an entry for an administrator's change that does not move tokens.
    mutating func addEntry(_ reason: String) { append(0, .grant, reason) }

    /// Spends an amount, for the call of a function if one is named.
    mutating func spend(
        _ amount: Int64,
        reason: String,
        function: String? = nil,
        labels: ChargeLabels = ChargeLabels()
    ) throws(Problem) {
        _ = try require(amount)
        move(amount, .spend, reason, function, labels)
    }

    /// Holds the amount of the hold, which receives the grants that it takes.
    mutating func hold(_ hold: inout HoldRow) throws(Problem) {
        hold.spentOn = try require(hold.amount)
        hold.grants = balance.grants.spend(hold.amount)
        move(hold.amount, .hold, hold.reason)
    }

    /// Releases the whole hold, then charges the actual cost.
    mutating func capture(_ charged: Int64, of hold: HoldRow) {
        precondition(charged >= 0 && charged <= hold.amount, "A capture must not exceed its hold.")
        let debt = debt
        move(hold.amount, .release, hold.reason)
        add(hold.grants, of: hold.amount, covering: debt)
        let function = hold.operation == nil ? nil : hold.reason
        move(charged, .capture, hold.reason, function, hold.labels)
        settled(hold, charged: charged)
    }

    mutating func release(_ hold: HoldRow, as kind: LedgerEntry.Kind = .release) {
        let debt = debt
        move(hold.amount, kind, hold.reason)
        add(hold.grants, of: hold.amount, covering: debt)
        settled(hold, charged: 0)
    }

    /// What a merged guest brings.
    struct Moved {
        /// The amount, including the held one; below zero if the balance was.
        var amount: Int64
        /// The part of it that expires, without that of holds.
        var grants: ExpiringGrants
        /// The amount that counts towards the limit of the day.
        var spending: Spending
    }

    /// Moves the whole balance of a merged guest out, with the amount of its open holds.
    ///
    /// Nothing is left. The last transfer is always a ``LedgerEntry/Kind/mergeOut``.
    mutating func moveOut(reason: String) -> Moved {
        let moved = (balance.grants, balance.spending)
        move(balance.held, .release, reason)
        let amount = balance.available
        if amount < 0 { append(-amount, .mergeIn, reason) }
        append(max(0, amount), .mergeOut, reason)
        return Moved(amount: amount, grants: moved.0, spending: moved.1)
    }

    /// Receives what ``moveOut(reason:)`` has returned, and holds a part of it.
    ///
    /// Open holds keep what expires of them. If a refund has left the guest less than its holds,
    /// the missing amount leaves last, because only it may take `available` below zero.
    ///
    /// The amounts that both have spent today count towards the limit.
    mutating func moveIn(_ moved: Moved, holding held: Int64, reason: String) {
        let missing = max(0, held - moved.amount)
        let debt = debt
        append(moved.amount + missing, .mergeIn, reason)
        move(held, .hold, reason)
        if missing > 0 {
            floor = min(floor, balance.available - missing)
            append(missing, .mergeOut, reason)
        }
        add(moved.grants, of: max(0, moved.amount - held), covering: debt)
        balance.spending.merge(moved.spending)
    }

    /// The transfers in order.
    var appended: [Change] { transfers.map(Change.append) }

    /// The amount below zero; zero if there is none.
    private var debt: Int64 { max(0, -balance.available) }

    /// Adds what expires of an amount that was received, after it has covered the debt that there
    /// was before.
    private mutating func add(
        _ expiring: ExpiringGrants,
        of amount: Int64,
        covering debt: Int64
    ) {
        // While there is a debt, nothing else expires.
        balance.grants.add(expiring)
        balance.grants.spend(min(debt, amount))
        checkInvariants()
    }

    private mutating func settled(_ hold: HoldRow, charged: Int64) {
        balance.spending.settle(hold, charged: charged)
        expireGrants()
    }

    private mutating func expireGrants() {
        guard let next = balance.grants.next, next <= now else { return }
        move(balance.grants.removeDue(by: now), .expireGrant, "expired")
    }

    /// Checks that an amount can be paid, and counts it towards the limit of the day.
    ///
    /// The limit comes first: more tokens do not lift it.
    private mutating func require(_ amount: Int64) throws(Problem) -> CalendarDay? {
        let day = amount > 0 ? try rules?.count(amount, in: &balance.spending) : nil
        guard amount <= 0 || balance.available >= amount else { throw insufficient(amount) }
        return day
    }

    private func insufficient(_ amount: Int64) -> Problem {
        var problem = Problem(
            .insufficientTokens,
            balance.available < 0
                ? """
                Get at least \(amount - balance.available) tokens: a refunded purchase took the \
                balance below zero, which must be covered before anything can be spent.
                """
                : "Get more tokens, or wait until operations in progress release their holds."
        )
        problem.available = balance.available
        problem.held = balance.held
        problem.required = amount
        return problem
    }

    private mutating func move(
        _ amount: Int64,
        _ kind: LedgerEntry.Kind,
        _ reason: String,
        _ function: String? = nil,
        _ labels: ChargeLabels = ChargeLabels()
    ) {
        if amount > 0 { append(amount, kind, reason, function, labels) }
    }

    private mutating func append(
        _ amount: Int64,
        _ kind: LedgerEntry.Kind,
        _ reason: String,
        _ function: String? = nil,
        _ labels: ChargeLabels = ChargeLabels()
    ) {
        if transfers.isEmpty {
            balance.seq = nextNumber()
            balance.changedAt = now
        }
        var transfer = Transfer(
            id: Identifier(at: now),
            account: balance.account,
            seq: balance.seq,
            kind: kind,
            amount: amount,
            availableAfter: 0,
            heldAfter: 0,
            reason: reason,
            at: now,
            function: function,
            labels: labels
        )
        // A hold has taken its grants, and expired ones are removed already.
        if transfer.availableChange < 0, kind != .hold, kind != .expireGrant {
            balance.grants.spend(amount)
        }
        balance.available += transfer.availableChange
        balance.held += transfer.heldChange
        transfer.availableAfter = balance.available
        transfer.heldAfter = balance.held
        transfers.append(transfer)
        checkInvariants()
    }

    private func checkInvariants() {
        assert(balance.available >= floor && balance.held >= 0)
        assert(balance.grants.total <= max(0, balance.available))
        assert(transfers.allSatisfy { $0.seq == balance.seq && $0.amount >= 0 })
        guard let last = transfers.last else { return }
        assert(last.availableAfter == balance.available && last.heldAfter == balance.held)
    }
}
