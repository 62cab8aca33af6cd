public import SanguineModel

/// A ledger account of double entry.
///
/// Every user has the two in the middle; the outer two are the world's, and may go below zero.
public enum Book: Int, Hashable, Sendable, CaseIterable {
    /// Where what is granted comes from.
    case grants = 0
    /// What a user may spend.
    case available = 1
    /// What is set aside for a user's open holds.
    case held = 2
    /// Where what is charged goes.
    case revenue = 3
}

/// One movement of the ledger: the same amount leaves one book and enters another.
///
/// Both sides stand in one row, so they cannot disagree; the ledger sums to zero by construction,
/// and a balance is what entered its book minus what left it. Rows are only ever appended.
public struct Transfer: Hashable, Sendable {
    /// The transfer's id.
    public var id: Identifier
    /// Whose books are meant by ``Book/available`` and ``Book/held``.
    public var account: Identifier
    /// The number in the account's feed at which the transfer is contained.
    public var seq: Int64
    /// Why.
    public var kind: LedgerEntry.Kind
    /// How much; zero and more.
    public var amount: Int64
    /// What the owner may spend after the transfer.
    public var availableAfter: Int64
    /// What is set aside after the transfer.
    public var heldAfter: Int64
    /// What for.
    public var reason: String
    /// When.
    public var at: Timestamp

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
        at: Timestamp
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
    }

    /// The book that the amount leaves.
    public var debit: Book { Self.books(of: kind).debit }

    /// The book that the amount enters.
    public var credit: Book { Self.books(of: kind).credit }

    /// Which books a kind moves between.
    public static func books(of kind: LedgerEntry.Kind) -> (debit: Book, credit: Book) {
        switch kind {
        case .grant: (.grants, .available)
        case .spend, .capture: (.available, .revenue)
        case .hold: (.available, .held)
        case .release, .expire: (.held, .available)
        }
    }

    /// How the transfer moved what the owner may spend.
    public var availableChange: Int64 {
        (credit == .available ? amount : 0) &- (debit == .available ? amount : 0)
    }

    /// How the transfer moved what is set aside.
    public var heldChange: Int64 {
        (credit == .held ? amount : 0) &- (debit == .held ? amount : 0)
    }

    /// The line as its owner sees it.
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

/// A transfer with its place in the ledger.
public struct NumberedTransfer: Hashable, Sendable {
    /// The place: later transfers have larger numbers.
    public var number: Int64
    /// The transfer.
    public var transfer: Transfer

    /// Creates the pair.
    public init(number: Int64, transfer: Transfer) {
        self.number = number
        self.transfer = transfer
    }
}
