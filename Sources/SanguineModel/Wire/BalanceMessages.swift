/// What an account may spend, as the ledger has it at one number of the account's feed.
public struct Balance: Hashable, Codable, Sendable {
    /// What is counted; `tokens` by default.
    public var unit: String
    /// What may be spent; never below zero.
    public var available: Int64
    /// What is set aside for operations that are not settled yet.
    public var held: Int64
    /// The number in the account's feed at which this is true.
    public var head: Int64
    /// When the balance last changed.
    public var asOf: Timestamp
    /// What became of the operations that the reader asked about, or `nil` if it asked about none.
    ///
    /// See ``OperationState``; asked with `?operations=<key>,<key>`, at most 100.
    public var operations: [String: OperationState]?

    /// Creates a balance from its parts.
    public init(
        unit: String,
        available: Int64,
        held: Int64,
        head: Int64,
        asOf: Timestamp,
        operations: [String: OperationState]? = nil
    ) {
        self.unit = unit
        self.available = available
        self.held = held
        self.head = head
        self.asOf = asOf
        self.operations = operations
    }
}

/// Whether a balance contains the effect of an operation that its client still waits for.
///
/// Without it a client that fetches a balance while a call is in flight cannot tell whether the
/// number has that call's charge in it already, and would deduct it twice or not at all.
public struct OperationState: Hashable, Codable, Sendable {
    /// Where the operation stands.
    public enum Phase: String, Codable, Sendable {
        /// The server has never seen it: the balance does not contain it.
        case unknown
        /// It runs: the balance has its hold, of ``OperationState/held``.
        case running
        /// It is settled: the balance contains its charge, or none if it was refused.
        case settled
    }

    /// Where the operation stands.
    public var phase: Phase
    /// How much is held for it in this balance; zero unless it runs.
    public var held: Int64

    /// Creates a state.
    public init(_ phase: Phase, held: Int64 = 0) {
        self.phase = phase
        self.held = held
    }
}

/// An answer that carries a balance.
public struct BalanceAnswer: Hashable, Codable, Sendable {
    /// The balance after the change.
    public var balance: Balance

    /// Creates the answer.
    public init(balance: Balance) { self.balance = balance }
}

/// A daily allowance, as an account has it now.
public struct Quota: Hashable, Codable, Sendable {
    /// The quota's name in the configuration.
    public var name: String
    /// How much a period allows.
    public var limit: Int64
    /// How much of it is used.
    public var used: Int64
    /// How much is left, zero and more; `nil` where the account's plan lifts the limit.
    public var remaining: Int64?
    /// When the next period begins: the user's next midnight.
    public var resetsAt: Timestamp
    /// Whether the account's plan lifts the limit.
    public var unlimited: Bool

    /// Creates a quota; what remains follows.
    public init(name: String, limit: Int64, used: Int64, resetsAt: Timestamp, unlimited: Bool) {
        self.name = name
        self.limit = limit
        self.used = used
        self.remaining = unlimited ? nil : max(0, limit - used)
        self.resetsAt = resetsAt
        self.unlimited = unlimited
    }

    /// Reads a quota; one that an earlier version has stored or sent says that nothing remains of
    /// an unlimited quota.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            name: try members.decode(String.self, forKey: .name),
            limit: try members.decode(Int64.self, forKey: .limit),
            used: try members.decode(Int64.self, forKey: .used),
            resetsAt: try members.decode(Timestamp.self, forKey: .resetsAt),
            unlimited: try members.decode(Bool.self, forKey: .unlimited)
        )
    }

    /// Whether a call may take so many units now.
    package func allows(_ units: Int64) -> Bool { remaining.map { units <= $0 } ?? true }
}

/// The answer of an administrator's request that gives units of a quota back.
public struct QuotaAnswer: Hashable, Codable, Sendable {
    /// The balance, which is as before.
    public var balance: Balance
    /// The quota after the change.
    public var quota: Quota

    /// Creates the answer.
    public init(balance: Balance, quota: Quota) {
        self.balance = balance
        self.quota = quota
    }
}

/// The body of `POST /v1/quotas/{name}/consume`.
public struct ConsumeRequest: Hashable, Codable, Sendable {
    /// How much to consume, 1 and more.
    ///
    /// Default: 1.
    public var amount: Int64?

    /// Creates the body.
    public init(amount: Int64? = nil) { self.amount = amount }
}

/// The body of `POST /v1/spend` and of the administrator's grant.
public struct SpendRequest: Hashable, Codable, Sendable {
    /// How much, 1 and more.
    public var amount: Int64
    /// What for, 1 to 200 characters; it stands in the ledger.
    public var reason: String

    /// Creates the body.
    public init(amount: Int64, reason: String) {
        self.amount = amount
        self.reason = reason
    }
}

/// The body of `POST /v1/holds`.
public struct HoldRequest: Hashable, Codable, Sendable {
    /// How much to set aside, 1 and more.
    public var amount: Int64
    /// After how many whole seconds the hold is released by itself.
    ///
    /// Default: 600.
    public var expiresIn: Int?

    /// Creates the body.
    public init(amount: Int64, expiresIn: Int? = nil) {
        self.amount = amount
        self.expiresIn = expiresIn
    }
}

/// An amount that is set aside.
public struct Hold: Hashable, Codable, Sendable {
    /// The hold's id.
    public var id: Identifier
    /// How much is set aside.
    public var amount: Int64
    /// When it is released by itself.
    public var expiresAt: Timestamp

    /// Creates a hold.
    public init(id: Identifier, amount: Int64, expiresAt: Timestamp) {
        self.id = id
        self.amount = amount
        self.expiresAt = expiresAt
    }
}

/// The answer to `POST /v1/holds`.
public struct HoldAnswer: Hashable, Codable, Sendable {
    /// The new hold.
    public var hold: Hold
    /// The balance after it.
    public var balance: Balance

    /// Creates the answer.
    public init(hold: Hold, balance: Balance) {
        self.hold = hold
        self.balance = balance
    }
}

/// The body of `POST /v1/holds/{id}/capture`.
public struct CaptureRequest: Hashable, Codable, Sendable {
    /// How much to charge: zero up to the hold.
    ///
    /// The rest is released.
    public var amount: Int64

    /// Creates the body.
    public init(amount: Int64) { self.amount = amount }
}

/// One line of an account's ledger.
///
/// The amounts of all lines add up to `available`.
public struct LedgerEntry: Hashable, Codable, Sendable {
    /// Why the balance moved.
    public enum Kind: String, Codable, Sendable, CaseIterable {
        /// Given: at the account's start, by support, by a purchase.
        case grant
        /// Spent at once.
        case spend
        /// Set aside.
        case hold
        /// Given back from a hold, whole; a capture's charge follows as a line of its own.
        case release
        /// Charged from what a hold had set aside.
        case capture
        /// Given back because the hold expired.
        case expire
    }

    /// The entry's id.
    public var id: Identifier
    /// Why the balance moved.
    public var kind: Kind
    /// How `available` moved: positive is up.
    public var amount: Int64
    /// `available` after the entry.
    public var balanceAfter: Int64
    /// What for, as the one who moved it said.
    public var reason: String
    /// When.
    public var at: Timestamp

    /// Creates an entry.
    public init(
        id: Identifier,
        kind: Kind,
        amount: Int64,
        balanceAfter: Int64,
        reason: String,
        at: Timestamp
    ) {
        self.id = id
        self.kind = kind
        self.amount = amount
        self.balanceAfter = balanceAfter
        self.reason = reason
        self.at = at
    }
}

/// A page of a list.
public struct ListPage<Item: Codable & Sendable>: Codable, Sendable {
    /// The items, in the list's order.
    public var items: [Item]
    /// Whether more follow.
    public var hasMore: Bool
    /// What to pass as `cursor` for the next page; `nil` or empty on the last.
    public var nextCursor: String?

    /// The cursor of the next page, if there is one.
    package var following: String? {
        guard hasMore, let nextCursor, !nextCursor.isEmpty else { return nil }
        return nextCursor
    }

    /// Creates a page.
    ///
    /// - Parameters:
    ///   - items: The items.
    ///   - hasMore: Whether more follow. Default: whether there is a cursor for more.
    ///   - nextCursor: The cursor for more; an empty one counts as none. Default: none.
    public init(items: [Item], hasMore: Bool? = nil, nextCursor: String? = nil) {
        self.items = items
        self.hasMore = hasMore ?? (nextCursor?.isEmpty == false)
        self.nextCursor = nextCursor
    }
}

extension ListPage: Equatable where Item: Equatable {}

extension ListPage: Hashable where Item: Hashable {}

/// A list that is always whole.
public struct Items<Item: Hashable & Codable & Sendable>: Hashable, Codable, Sendable {
    /// The items.
    public var items: [Item]

    /// Creates the list.
    public init(items: [Item]) { self.items = items }
}
