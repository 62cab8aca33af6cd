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
struct LedgerDraft {
    private(set) var balance: BalanceRow
    private var transfers: [Transfer] = []
    private var hasNumber = false
    /// The least amount that `available` may have: zero, except after a refund.
    private var floor: Int64
    private let now: Timestamp

    init(_ balance: BalanceRow, now: Timestamp) {
        self.balance = balance
        floor = min(0, balance.available)
        // A wall clock may have been set back; the time of a balance never decreases.
        self.now = max(now, balance.changedAt)
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

    mutating func grant(_ amount: Int64, reason: String) {
        move(amount, .grant, reason)
    }

    /// Takes an amount back, at most what can be spent.
    mutating func debit(_ amount: Int64, reason: String) throws(Problem) {
        try require(amount)
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

    /// Adds an entry for an administrator's change that does not move tokens.
    mutating func addEntry(_ reason: String) { append(0, .grant, reason) }

    mutating func spend(_ amount: Int64, reason: String) throws(Problem) {
        try require(amount)
        move(amount, .spend, reason)
    }

    mutating func hold(_ amount: Int64, reason: String) throws(Problem) {
        try require(amount)
        move(amount, .hold, reason)
    }

    /// Releases the whole hold, then charges the actual cost.
    mutating func capture(_ charged: Int64, of hold: HoldRow) {
        precondition(charged >= 0 && charged <= hold.amount, "A capture must not exceed its hold.")
        move(hold.amount, .release, hold.reason)
        move(charged, .capture, hold.reason)
    }

    mutating func release(_ hold: HoldRow, as kind: LedgerEntry.Kind = .release) {
        move(hold.amount, kind, hold.reason)
    }

    /// Moves the whole balance of a merged guest out, with the amount of its open holds.
    ///
    /// Nothing is left. The last transfer is always a ``LedgerEntry/Kind/mergeOut``.
    ///
    /// - Returns: The amount, including the held one; below zero if the balance was.
    mutating func moveOut(reason: String) -> Int64 {
        move(balance.held, .release, reason)
        let amount = balance.available
        if amount < 0 { append(-amount, .mergeIn, reason) }
        append(max(0, amount), .mergeOut, reason)
        return amount
    }

    /// Receives the amount of ``moveOut(reason:)``, and holds a part of it.
    mutating func moveIn(_ amount: Int64, holding held: Int64, reason: String) {
        append(max(0, amount), .mergeIn, reason)
        if amount < 0 {
            floor = min(floor, balance.available + amount)
            append(-amount, .mergeOut, reason)
        }
        move(held, .hold, reason)
    }

    /// The transfers in order.
    var appended: [Change] { transfers.map(Change.append) }

    private func require(_ amount: Int64) throws(Problem) {
        guard amount <= 0 || balance.available >= amount else {
            var problem = Problem(
                .insufficientTokens,
                balance.available < 0
                    ? """
                    Get at least \(amount - balance.available) tokens: a refunded purchase took \
                    the balance below zero, which must be covered before anything can be spent.
                    """
                    : "Get more tokens, or wait until operations in progress release their holds."
            )
            problem.available = balance.available
            problem.held = balance.held
            problem.required = amount
            throw problem
        }
    }

    private mutating func move(_ amount: Int64, _ kind: LedgerEntry.Kind, _ reason: String) {
        if amount > 0 { append(amount, kind, reason) }
    }

    private mutating func append(_ amount: Int64, _ kind: LedgerEntry.Kind, _ reason: String) {
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
            at: now
        )
        balance.available += transfer.availableChange
        balance.held += transfer.heldChange
        transfer.availableAfter = balance.available
        transfer.heldAfter = balance.held
        transfers.append(transfer)
        checkInvariants()
    }

    private func checkInvariants() {
        assert(balance.available >= floor && balance.held >= 0)
        assert(transfers.allSatisfy { $0.seq == balance.seq && $0.amount >= 0 })
        assert(transfers.last?.availableAfter == balance.available)
        assert(transfers.last?.heldAfter == balance.held)
    }
}
