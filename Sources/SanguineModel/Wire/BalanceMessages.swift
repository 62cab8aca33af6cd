/// The amount that an account may spend, according to the ledger at one number of its feed.
public struct Balance: Hashable, Codable, Sendable {
    /// The unit; `tokens` by default.
    public var unit: String
    /// The amount that can be spent.
    ///
    /// It is below zero only after a purchase was refunded whose tokens had been spent; nothing can
    /// be spent then until it is covered.
    public var available: Int64
    /// The amount by which ``available`` is below zero; zero if it is not.
    public var debt: Int64 { max(0, 0 &- available) }
    /// The amount that is held for operations that are not settled yet.
    public var held: Int64
    /// The number in the account's feed for which the balance is valid.
    public var head: Int64
    /// The time at which the balance last changed.
    public var asOf: Timestamp
    /// The states of the operations that the request asked about, or `nil` if it asked about none.
    ///
    /// See ``OperationState``. The query is `?operations=<key>,<key>`, with at most 100 keys.
    public var operations: [String: OperationState]?
    /// The parts of ``available`` that expire, the soonest first, or `nil` if none does.
    ///
    /// Spends and captures use the soonest to expire first.
    public var expiring: [ExpiringAmount]?

    /// Creates a balance from its parts.
    public init(
        unit: String,
        available: Int64,
        held: Int64,
        head: Int64,
        asOf: Timestamp,
        operations: [String: OperationState]? = nil,
        expiring: [ExpiringAmount]? = nil
    ) {
        self.unit = unit
        self.available = available
        self.held = held
        self.head = head
        self.asOf = asOf
        self.operations = operations
        self.expiring = expiring
    }
}

/// An amount that expires unless it is spent before.
public struct ExpiringAmount: Hashable, Codable, Sendable {
    /// The amount.
    public var amount: Int64
    /// The time at which it expires.
    public var at: Timestamp

    /// Creates an amount.
    public init(amount: Int64, at: Timestamp) {
        self.amount = amount
        self.at = at
    }
}

/// Whether a balance contains the effect of an operation that its client is waiting for.
///
/// Without this state, a client that fetches a balance during a call cannot tell whether the
/// balance includes that call's charge, and would deduct it twice or not at all.
public struct OperationState: Hashable, Codable, Sendable {
    /// The progress of an operation.
    public enum Phase: String, Codable, Sendable {
        /// The server has never received it: the balance does not contain it.
        case unknown
        /// It is running: the balance contains its hold, ``OperationState/held``.
        case running
        /// It is settled: the balance contains its charge, or none if it was refused.
        case settled
    }

    /// The progress of the operation.
    public var phase: Phase
    /// The amount that is held for it in this balance; zero unless it is running.
    public var held: Int64

    /// Creates a state.
    public init(_ phase: Phase, held: Int64 = 0) {
        self.phase = phase
        self.held = held
    }
}

/// A response that contains a balance.
public struct BalanceAnswer: Hashable, Codable, Sendable {
    /// The balance after the change.
    public var balance: Balance

    /// Creates the response.
    public init(balance: Balance) { self.balance = balance }
}

/// An account's allowance for a day, a week or a month.
public struct Quota: Hashable, Codable, Sendable {
    /// The quota's name in the configuration.
    public var name: String
    /// The amount that a period allows.
    public var limit: Int64
    /// The amount that is used.
    public var used: Int64
    /// The amount that is left, at least zero, or `nil` if the account's plan lifts the limit.
    public var remaining: Int64?
    /// The start of the next period, a midnight of the user.
    public var resetsAt: Timestamp
    /// Whether the account's plan lifts the limit.
    public var unlimited: Bool
    /// The plans that lift or raise the limit, by name; empty if none does, `nil` from a server
    /// that does not state them.
    public var lifts: [String]?
    /// The period; `nil` for a day.
    public var period: Period?

    /// Creates a quota and computes the remaining amount.
    public init(
        name: String,
        limit: Int64,
        used: Int64,
        resetsAt: Timestamp,
        unlimited: Bool,
        lifts: [String]? = nil,
        period: Period? = nil
    ) {
        self.name = name
        self.limit = limit
        self.used = used
        self.remaining = unlimited ? nil : max(0, limit - used)
        self.resetsAt = resetsAt
        self.unlimited = unlimited
        self.lifts = lifts
        self.period = period
    }

    /// Decodes a quota.
    ///
    /// A quota that an earlier version stored or sent has no remaining amount if it is unlimited.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            name: try members.decode(String.self, forKey: .name),
            limit: try members.decode(Int64.self, forKey: .limit),
            used: try members.decode(Int64.self, forKey: .used),
            resetsAt: try members.decode(Timestamp.self, forKey: .resetsAt),
            unlimited: try members.decode(Bool.self, forKey: .unlimited),
            lifts: try members.decodeIfPresent([String].self, forKey: .lifts),
            // A period of a later version counts as a day.
            period: try members.decodeIfPresent(String.self, forKey: .period)
                .flatMap(Period.init(rawValue:))
        )
    }

    /// Returns whether a call may use the number of units now.
    package func allows(_ units: Int64) -> Bool { remaining.map { units <= $0 } ?? true }
}

/// The response to an administrator's request that returns units of a quota.
public struct QuotaAnswer: Hashable, Codable, Sendable {
    /// The unchanged balance.
    public var balance: Balance
    /// The quota after the change.
    public var quota: Quota

    /// Creates the response.
    public init(balance: Balance, quota: Quota) {
        self.balance = balance
        self.quota = quota
    }
}

/// The body of `POST /v1/quotas/{name}/consume`.
public struct ConsumeRequest: Hashable, Codable, Sendable {
    /// The amount to consume, at least 1.
    ///
    /// Default: 1.
    public var amount: Int64?

    /// Creates the body.
    public init(amount: Int64? = nil) { self.amount = amount }
}

/// The body of `POST /v1/spend` and of the administrator's grant.
public struct SpendRequest: Hashable, Codable, Sendable {
    /// The amount, at least 1.
    public var amount: Int64
    /// The purpose, 1 to 200 characters, which appears in the ledger.
    public var reason: String

    /// Creates the body.
    public init(amount: Int64, reason: String) {
        self.amount = amount
        self.reason = reason
    }
}

/// The body of `POST /v1/holds`.
public struct HoldRequest: Hashable, Codable, Sendable {
    /// The amount to hold, at least 1.
    public var amount: Int64
    /// The number of whole seconds after which the hold expires.
    ///
    /// Default: 600.
    public var expiresIn: Int?

    /// Creates the body.
    public init(amount: Int64, expiresIn: Int? = nil) {
        self.amount = amount
        self.expiresIn = expiresIn
    }
}

/// The body of the administrator's grant.
public struct GrantRequest: Hashable, Codable, Sendable {
    /// The amount, at least 1.
    public var amount: Int64
    /// The purpose, 1 to 200 characters, which appears in the ledger.
    public var reason: String
    /// The time at which the amount expires, as far as it is not spent; `nil` for never.
    public var expiresAt: Timestamp?

    /// Creates the body.
    public init(amount: Int64, reason: String, expiresAt: Timestamp? = nil) {
        self.amount = amount
        self.reason = reason
        self.expiresAt = expiresAt
    }
}

/// The body of the administrator's request that sets the spending limit of an account.
public struct SpendingLimitRequest: Hashable, Codable, Sendable {
    /// The amount that the account may spend per day, at least 0; `nil` for the server's limit.
    public var perDay: Int64?
    /// The reason, 1 to 200 characters, which appears in the ledger.
    public var reason: String

    /// Creates the body.
    public init(perDay: Int64?, reason: String) {
        self.perDay = perDay
        self.reason = reason
    }
}

/// An amount that is held.
public struct Hold: Hashable, Codable, Sendable {
    /// The hold's id.
    public var id: Identifier
    /// The amount that is held.
    public var amount: Int64
    /// The time at which the hold expires.
    public var expiresAt: Timestamp

    /// Creates a hold.
    public init(id: Identifier, amount: Int64, expiresAt: Timestamp) {
        self.id = id
        self.amount = amount
        self.expiresAt = expiresAt
    }
}

/// The response to `POST /v1/holds`.
public struct HoldAnswer: Hashable, Codable, Sendable {
    /// The new hold.
    public var hold: Hold
    /// The balance after it.
    public var balance: Balance

    /// Creates the response.
    public init(hold: Hold, balance: Balance) {
        self.hold = hold
        self.balance = balance
    }
}

/// The body of `POST /v1/holds/{id}/capture`.
public struct CaptureRequest: Hashable, Codable, Sendable {
    /// The amount to charge, from zero to the held amount.
    ///
    /// The rest is released.
    public var amount: Int64

    /// Creates the body.
    public init(amount: Int64) { self.amount = amount }
}

/// The body of `POST /v1/purchases`.
public struct PurchaseRequest: Hashable, Codable, Sendable {
    /// A store whose purchases a server can verify.
    public enum Provider: String, Codable, Sendable {
        /// Apple's App Store.
        case appStore
    }

    /// The store.
    public var provider: Provider
    /// The transaction as the store signed it: StoreKit's `jwsRepresentation`.
    public var signedTransaction: String

    /// Creates the body.
    public init(provider: Provider = .appStore, signedTransaction: String) {
        self.provider = provider
        self.signedTransaction = signedTransaction
    }
}

/// The response to `POST /v1/purchases`.
public struct PurchaseAnswer: Hashable, Codable, Sendable {
    /// The balance after the purchase.
    public var balance: Balance
    /// The plan after the purchase.
    public var plan: Account.Plan
    /// The time at which the plan ends; `nil` for never or for `free`.
    public var planExpiresAt: Timestamp?
    /// The id of the transaction.
    public var transactionId: String
    /// The tokens that the transaction credited, now or when it was sent before.
    public var credited: Int64

    /// Creates the response.
    public init(
        balance: Balance,
        plan: Account.Plan,
        planExpiresAt: Timestamp? = nil,
        transactionId: String,
        credited: Int64
    ) {
        self.balance = balance
        self.plan = plan
        self.planExpiresAt = planExpiresAt
        self.transactionId = transactionId
        self.credited = credited
    }
}

/// An entry of an account's ledger.
///
/// The amounts of all entries add up to `available`.
public struct LedgerEntry: Hashable, Codable, Sendable {
    /// The reason for a change of the balance.
    ///
    /// A client may receive a kind that a later version of the server has added, which it decodes
    /// as ``other(_:)``.
    public enum Kind: Hashable, Sendable {
        /// An amount was granted, at the account's creation or by support.
        case grant
        /// An amount was spent at once.
        case spend
        /// An amount was held.
        case hold
        /// A hold was released as a whole; the charge of a capture follows as a separate entry.
        case release
        /// An amount was charged from a hold.
        case capture
        /// A hold expired and was released.
        case expire
        /// An administrator took an amount back, or the account was deleted.
        case debit
        /// The amount of a guest moved to the account into which the guest was merged.
        case mergeOut
        /// The amount of a merged guest was received.
        case mergeIn
        /// A purchase was credited, or its refund was reversed.
        case purchase
        /// A refunded purchase was taken back; the only entry that may take `available` below zero.
        case refund
        /// A grant with an expiry time expired, as far as it was not spent.
        case expireGrant
        /// A kind that this version does not know, by its name on the wire.
        case other(String)
    }

    /// The entry's id.
    public var id: Identifier
    /// The reason for a change of the balance.
    public var kind: Kind
    /// The change of `available`, positive for an increase.
    public var amount: Int64
    /// `available` after the entry.
    public var balanceAfter: Int64
    /// The purpose, as given with the request.
    public var reason: String
    /// The time of the change.
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

extension LedgerEntry.Kind: RawRepresentable, Codable, CaseIterable {
    /// The kinds that this version knows.
    public static var allCases: [Self] {
        [
            .grant, .spend, .hold, .release, .capture, .expire, .debit, .mergeOut, .mergeIn,
            .purchase, .refund, .expireGrant,
        ]
    }

    /// Creates the kind of that name on the wire; never `nil`.
    public init(rawValue: String) {
        self = Self.allCases.first { $0.rawValue == rawValue } ?? .other(rawValue)
    }

    /// The name on the wire.
    public var rawValue: String {
        switch self {
        case .grant: "grant"
        case .spend: "spend"
        case .hold: "hold"
        case .release: "release"
        case .capture: "capture"
        case .expire: "expire"
        case .debit: "debit"
        case .mergeOut: "merge_out"
        case .mergeIn: "merge_in"
        case .purchase: "purchase"
        case .refund: "refund"
        case .expireGrant: "expire_grant"
        case .other(let name): name
        }
    }
}

/// A page of a list.
public struct ListPage<Item: Codable & Sendable>: Codable, Sendable {
    /// The items, in the list's order.
    public var items: [Item]
    /// Whether there are more items.
    public var hasMore: Bool
    /// The `cursor` for the next page, or `nil` or empty on the last page.
    public var nextCursor: String?
    /// The number of items of the whole list, if the request asked for it.
    public var count: ListCount?

    /// The cursor of the next page, if there is one.
    package var following: String? {
        guard hasMore, let nextCursor, !nextCursor.isEmpty else { return nil }
        return nextCursor
    }

    /// Creates a page.
    ///
    /// - Parameters:
    ///   - items: The items.
    ///   - hasMore: Whether there are more items. Default: whether there is a cursor.
    ///   - nextCursor: The cursor of the next page; an empty one counts as none. Default: none.
    ///   - count: The number of items of the whole list. Default: unknown.
    public init(
        items: [Item],
        hasMore: Bool? = nil,
        nextCursor: String? = nil,
        count: ListCount? = nil
    ) {
        self.items = items
        self.hasMore = hasMore ?? (nextCursor?.isEmpty == false)
        self.nextCursor = nextCursor
        self.count = count
    }
}

/// The number of items of a whole list, counted up to a limit.
public struct ListCount: Hashable, Codable, Sendable {
    /// The number of items found.
    public var number: Int
    /// Whether there are exactly that many; otherwise, at least.
    public var isExact: Bool

    /// Creates a count.
    public init(number: Int, isExact: Bool) {
        self.number = number
        self.isExact = isExact
    }
}

extension ListPage: Equatable where Item: Equatable {}

extension ListPage: Hashable where Item: Hashable {}

/// A list without pages.
public struct Items<Item: Hashable & Codable & Sendable>: Hashable, Codable, Sendable {
    /// The items.
    public var items: [Item]

    /// Creates the list.
    public init(items: [Item]) { self.items = items }
}
