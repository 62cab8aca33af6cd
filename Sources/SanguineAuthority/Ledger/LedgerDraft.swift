import SanguineModel

/// What one operation does to one account's balance: transfers, and the balance that they lead to.
///
/// Invariants, checked after every step in debug builds:
///
/// 1. Neither `available` nor `held` is below zero.
/// 2. However many transfers an operation makes, it takes one number of the feed: the owner sees
///    all of them or none.
/// 3. The last transfer's running balances are the balance's.
/// 4. Nothing moves nothing: an amount of zero makes no transfer, unless it is a note.
struct LedgerDraft {
    private(set) var balance: BalanceRow
    private var transfers: [Transfer] = []
    private var hasNumber = false
    private let now: Timestamp

    init(_ balance: BalanceRow, now: Timestamp) {
        self.balance = balance
        // A wall clock may have been set back; a balance's time never runs backwards.
        self.now = max(now, balance.changedAt)
    }

    /// What must be stored: the transfers in order, then the balance.
    var changes: [Change] {
        hasNumber ? transfers.map(Change.append) + [.put(.balance(balance))] : []
    }

    /// The operation's number of the feed, for what it changes beside the balance.
    mutating func takeNumber() -> Int64 {
        if !hasNumber { balance.head += 1 }
        hasNumber = true
        return balance.head
    }

    mutating func grant(_ amount: Int64, reason: String) {
        move(amount, .grant, reason)
    }

    /// Adds an entry for a change of an administrator that does not move the balance.
    mutating func note(_ reason: String) { append(0, .grant, reason) }

    mutating func spend(_ amount: Int64, reason: String) throws(Problem) {
        try require(amount)
        move(amount, .spend, reason)
    }

    mutating func hold(_ amount: Int64, reason: String) throws(Problem) {
        try require(amount)
        move(amount, .hold, reason)
    }

    /// Gives a hold back whole, then charges what it turned out to cost.
    mutating func capture(_ charged: Int64, of hold: HoldRow) {
        precondition(charged >= 0 && charged <= hold.amount, "A capture is at most its hold.")
        move(hold.amount, .release, hold.reason)
        move(charged, .capture, hold.reason)
    }

    mutating func release(_ hold: HoldRow, as kind: LedgerEntry.Kind = .release) {
        move(hold.amount, kind, hold.reason)
    }

    private func require(_ amount: Int64) throws(Problem) {
        guard balance.available >= amount else {
            var problem = Problem(
                .insufficientTokens,
                "Get more tokens, or wait until operations in flight give back what they hold."
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
            balance.seq = takeNumber()
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
        assert(balance.available >= 0 && balance.held >= 0)
        assert(transfers.allSatisfy { $0.seq == balance.seq && $0.amount >= 0 })
        assert(transfers.last?.availableAfter == balance.available)
        assert(transfers.last?.heldAfter == balance.held)
    }
}
