public import SanguineModel

/// An account in double-entry bookkeeping.
///
/// Every user has ``available`` and ``held``. The others belong to the system and may go below
/// zero.
public enum Book: Int, Hashable, Sendable, CaseIterable {
    /// The source of granted and purchased tokens, to which refunds return them.
    case grants = 0
    /// The tokens that a user may spend.
    case available = 1
    /// The tokens in a user's open holds.
    case held = 2
    /// The destination of charged tokens.
    case revenue = 3
    /// The tokens on their way from a merged guest to its account; empty after every command.
    case merges = 4
}

/// One movement of the ledger: the same amount leaves one book and enters another.
///
/// One row holds both sides, so they cannot disagree, and the ledger sums to zero by construction.
/// A book's balance is the amount that entered it minus the amount that left. Rows are append-only.
public struct Transfer: Hashable, Sendable {
    /// The transfer's id.
    public var id: Identifier
    /// The owner of the books ``Book/available`` and ``Book/held``.
    public var account: Identifier
    /// The number in the account's feed that includes the transfer.
    public var seq: Int64
    /// The kind of movement.
    public var kind: LedgerEntry.Kind
    /// The amount; zero or more.
    public var amount: Int64
    /// The tokens that the owner may spend after the transfer.
    public var availableAfter: Int64
    /// The tokens that are held after the transfer.
    public var heldAfter: Int64
    /// The reason that the owner sees.
    public var reason: String
    /// The time of the transfer.
    public var at: Timestamp
    /// The function whose call was charged; `nil` for other transfers.
    public var function: String?
    /// The labels of a charge; empty for other transfers.
    public var labels: ChargeLabels

    /// Creates a transfer.
    public init(
        id: Identifier,
        account: Identifier,
        seq: Int64,
        kind: LedgerEntry.Kind,
        amount: Int64,
        availableAfter: Int64,
        heldAfter: Int64,
        reason: String,
        at: Timestamp,
        function: String? = nil,
        labels: ChargeLabels = ChargeLabels()
    ) {
        self.id = id
        self.account = account
        self.seq = seq
        self.kind = kind
        self.amount = amount
        self.availableAfter = availableAfter
        self.heldAfter = heldAfter
        self.reason = reason
        self.at = at
        self.function = function
        self.labels = labels
    }

    /// The book that the amount leaves.
    public var debit: Book { Self.books(of: kind).debit }

    /// The book that the amount enters.
    public var credit: Book { Self.books(of: kind).credit }

    /// Returns the books that a kind of transfer debits and credits.
    public static func books(of kind: LedgerEntry.Kind) -> (debit: Book, credit: Book) {
        switch kind {
        case .grant, .purchase: (.grants, .available)
        case .refund: (.available, .grants)
        case .spend, .capture: (.available, .revenue)
        case .hold: (.available, .held)
        case .release, .expire: (.held, .available)
        case .debit: (.available, .grants)
        case .mergeOut: (.available, .merges)
        case .mergeIn: (.merges, .available)
        // A server makes no transfer of another kind.
        case .expireGrant, .other: (.available, .grants)
        }
    }

    /// The change of the tokens that the owner may spend.
    public var availableChange: Int64 {
        (credit == .available ? amount : 0) &- (debit == .available ? amount : 0)
    }

    /// The change of the held tokens.
    public var heldChange: Int64 {
        (credit == .held ? amount : 0) &- (debit == .held ? amount : 0)
    }

    /// The ledger entry that the owner sees.
    public var entry: LedgerEntry {
        LedgerEntry(
            id: id,
            kind: kind,
            amount: availableChange,
            balanceAfter: availableAfter,
            reason: reason,
            at: at
        )
    }
}

/// A transfer with its position in the ledger.
public struct NumberedTransfer: Hashable, Sendable {
    /// The position: later transfers have larger numbers.
    public var number: Int64
    /// The transfer.
    public var transfer: Transfer

    /// Creates a transfer with its position.
    public init(number: Int64, transfer: Transfer) {
        self.number = number
        self.transfer = transfer
    }
}
