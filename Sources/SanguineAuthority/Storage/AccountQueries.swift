public import SanguineModel

/// A part of the active accounts, in the order of their ids.
public struct AccountsQuery: Hashable, Sendable {
    /// The kind of the accounts; `nil` for all.
    public var kind: Account.Kind?
    /// The id after which the part begins; `nil` for the first account.
    public var after: Identifier?
    /// The maximum number of accounts.
    public var limit: Int

    /// Creates the query.
    public init(kind: Account.Kind? = nil, after: Identifier? = nil, limit: Int) {
        self.kind = kind
        self.after = after
        self.limit = limit
    }
}

/// The rows of one kind that belong to an account, in the order of their keys.
///
/// It serves exports and removals. Records are read with ``FeedQuery`` and the ledger with
/// ``Storage/transfers(of:before:limit:)``.
public struct AccountRowsQuery: Hashable, Sendable {
    /// A kind of rows.
    public enum Kind: Hashable, Sendable, CaseIterable {
        /// All devices.
        case devices
        /// The sessions that have not ended.
        case sessions
        /// The used quotas.
        case quotas
        /// The holds that are open.
        case openHolds
        /// The operations under the keys that clients chose.
        case operations
        /// The cached answers of functions.
        case results
        /// The files.
        case blobs
        /// The documents of all kinds.
        case documents
    }

    /// The kind of the rows.
    public var kind: Kind
    /// The account.
    public var account: Identifier
    /// The key of the row after which the part begins, which must be of the same kind; `nil` for
    /// the first row.
    public var after: Key?
    /// The maximum number of rows.
    public var limit: Int

    /// Creates the query.
    public init(_ kind: Kind, of account: Identifier, after: Key? = nil, limit: Int) {
        self.kind = kind
        self.account = account
        self.after = after
        self.limit = limit
    }
}

extension Key {
    /// The bytes that order the rows of one kind of an account.
    package var positionInAccount: [UInt8] {
        switch self {
        case .device(let id): Array(id.utf8)
        case .session(let id), .hold(let id): id.bytes
        case .quota(_, let name): Array(name.utf8)
        case .operation(_, let key): Array(key.utf8)
        case .result(let key): key
        case .blob(_, let id): id.bytes
        case .document(let kind, let id): Array(kind.rawValue.utf8) + [0] + Array(id.utf8)
        case .account, .balance, .record, .feed, .parts, .indexes, .lastAudit: []
        }
    }
}

extension Row {
    /// The account and the kind of a row that ``AccountRowsQuery`` finds; `nil` for other rows.
    package var membership: (account: Identifier, kind: AccountRowsQuery.Kind)? {
        switch self {
        case .device(let row): (row.account, .devices)
        case .session(let row): row.endedAt == nil ? (row.account, .sessions) : nil
        case .quota(let row): (row.account, .quotas)
        case .hold(let row): row.state == .open ? (row.account, .openHolds) : nil
        case .operation(let row): (row.account, .operations)
        case .result(let row): row.account.map { ($0, .results) }
        case .blob(let row): (row.account, .blobs)
        case .document(let row): row.account.map { ($0, .documents) }
        case .account, .balance, .record, .feed, .parts, .indexes, .audit: nil
        }
    }
}
