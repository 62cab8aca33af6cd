public import SanguineModel

/// Recomputes the balance of one account from its transfers, in order.
///
/// A driver passes one account at a time, so that an audit of any ledger needs constant memory.
///
/// The audit checks that the running balances of each transfer follow from the previous one, that
/// no balance exceeded 64 bits or fell below zero other than by a refund, that the stored balance
/// matches the last transfer, that the held amount is the sum of the open holds, and that no
/// transfer is past the feed's head.
public struct LedgerAudit: Sendable {
    private let account: Identifier
    private var available: Int64 = 0
    private var held: Int64 = 0
    private var seq: Int64 = 0
    /// Whether the last transfer moved the balance of a merged guest out.
    private var hasLeft = false
    /// The minimum value of `available`: zero, or what a refund left before the operation.
    private var floor: Int64 = 0
    private var finding: String?

    /// Creates an audit of one account.
    public init(account: Identifier) { self.account = account }

    /// Adds the next transfer, in the order of the ledger.
    public mutating func add(_ transfer: Transfer) {
        guard transfer.amount >= 0 else {
            return find("transfer \(transfer.id) has the negative amount \(transfer.amount)")
        }
        // A capture releases its hold first, both with one feed number: so it may return to the
        // amount that `available` had before them, but not fall below.
        if transfer.seq != seq { floor = min(0, self.available) }
        let available = self.available.addingReportingOverflow(transfer.availableChange)
        let held = self.held.addingReportingOverflow(transfer.heldChange)
        guard !available.overflow, !held.overflow else {
            return find("transfer \(transfer.id) of \(transfer.amount) overflows 64 bits")
        }
        self.available = available.partialValue
        self.held = held.partialValue
        if [.refund, .mergeOut].contains(transfer.kind) { floor = min(floor, self.available) }
        check(transfer)
        seq = transfer.seq
        hasLeft = transfer.kind == .mergeOut
    }

    private mutating func check(_ transfer: Transfer) {
        if available < floor || held < 0 {
            find("transfer \(transfer.id) takes the balance to \(available), held \(held)")
        }
        if transfer.availableAfter != available || transfer.heldAfter != held {
            find(
                """
                transfer \(transfer.id) states \(transfer.availableAfter), held \
                \(transfer.heldAfter); the entries up to it sum to \(available), held \(held)
                """
            )
        }
        if transfer.seq < seq {
            find("transfer \(transfer.id) has feed number \(transfer.seq) after \(seq)")
        }
    }

    /// Ends the audit.
    ///
    /// - Parameters:
    ///   - balance: The stored balance, or `nil` if there is none, as for a merged guest.
    ///   - openHolds: The sum of the account's open holds.
    /// - Returns: The first difference found, or `nil`.
    public mutating func finish(
        balance: BalanceRow?,
        openHolds: Int64
    ) -> LedgerReport.Difference? {
        guard let balance else {
            if hasLeft, available == 0, held == 0, openHolds == 0 { return difference }
            find("there is no balance for entries that sum to \(available), held \(held)")
            return difference
        }
        if balance.available != available || balance.held != held {
            find(
                """
                the balance is \(balance.available), held \(balance.held); its entries sum to \
                \(available), held \(held)
                """
            )
        }
        if balance.grants.total > max(0, balance.available) {
            find("\(balance.grants.total) tokens expire, of \(balance.available) available ones")
        }
        if openHolds != balance.held {
            find("held is \(balance.held); the open holds sum to \(openHolds)")
        }
        if seq > balance.head {
            find("the last transfer has feed number \(seq), beyond the head \(balance.head)")
        }
        return difference
    }

    private mutating func find(_ finding: String) {
        if self.finding == nil { self.finding = finding }
    }

    private var difference: LedgerReport.Difference? {
        finding.map { LedgerReport.Difference(account: account, finding: $0) }
    }
}

/// Adds up the tokens that all merges moved out of guests and into accounts.
///
/// Both are equal, so that the books of all accounts and of the system sum to zero.
public struct MergeAudit: Sendable {
    private var onTheirWay: Int64 = 0

    /// Creates an audit of a whole ledger.
    public init() {}

    /// Adds the next transfer of any account.
    public mutating func add(_ transfer: Transfer) {
        // A damaged amount is reported instead of crashing on it.
        if transfer.credit == .merges { onTheirWay &+= transfer.amount }
        if transfer.debit == .merges { onTheirWay &-= transfer.amount }
    }

    /// The difference between both; `nil` if they are equal.
    ///
    /// It belongs to the system and not to an account, so it has the id of 16 zero bytes.
    public var difference: LedgerReport.Difference? {
        guard onTheirWay != 0, let system = Identifier(bytes: [UInt8](repeating: 0, count: 16))
        else { return nil }
        return LedgerReport.Difference(
            account: system,
            finding: "merges moved \(onTheirWay) more tokens out of guests than into accounts"
        )
    }
}

extension LedgerReport {
    /// Adds the difference, if there is one and the report has room for it.
    public mutating func add(_ difference: Difference?) {
        guard let difference, differences.count < Self.limit else { return }
        differences.append(difference)
    }
}
