public import SanguineModel

/// The key of one row.
///
/// A command lists the keys of the rows that it needs before it decides.
public enum Key: Hashable, Sendable {
    /// An account's profile.
    case account(Identifier)
    /// An account's balance and the head of its feed.
    case balance(Identifier)
    /// A device, by the id that it chose.
    case device(String)
    /// A session, by the id of its family of refresh tokens.
    case session(Identifier)
    /// An account's use of one quota.
    case quota(Identifier, name: String)
    /// A hold.
    case hold(Identifier)
    /// An account's operation, by its idempotency key.
    case operation(Identifier, key: String)
    /// A record or tombstone.
    case record(RecordName)
    /// The totals of an account's records.
    case feed(Identifier)
    /// A cached answer of a function, by its ``ResultRow/key``.
    case result([UInt8])
    /// Parts of a streamed answer, by the run and the index of the first one.
    case parts(Identifier, first: Int64)
    /// A file of an account.
    case blob(Identifier, BlobID)
    /// The progress of the indexes of records.
    case indexes
    /// A document, by its kind and id.
    case document(DocumentKind, id: String)
    /// The newest entry of the audit log.
    case lastAudit
}

extension Key {
    /// The account that the key names; `nil` for rows that are found before their account is known.
    package var account: Identifier? {
        switch self {
        case .account(let id), .balance(let id), .quota(let id, _), .operation(let id, _),
            .feed(let id), .blob(let id, _):
            id
        case .device, .session, .hold, .record, .result, .parts, .indexes, .document,
            .lastAudit:
            nil
        }
    }
}

/// One stored row, which includes its key.
public enum Row: Hashable, Sendable {
    /// See ``AccountRow``.
    case account(AccountRow)
    /// See ``BalanceRow``.
    case balance(BalanceRow)
    /// See ``DeviceRow``.
    case device(DeviceRow)
    /// See ``SessionRow``.
    case session(SessionRow)
    /// See ``QuotaRow``.
    case quota(QuotaRow)
    /// See ``HoldRow``.
    case hold(HoldRow)
    /// See ``OperationRow``.
    case operation(OperationRow)
    /// See ``RecordRow``.
    case record(RecordRow)
    /// See ``FeedRow``.
    case feed(FeedRow)
    /// See ``ResultRow``.
    case result(ResultRow)
    /// See ``PartsRow``.
    case parts(PartsRow)
    /// See ``BlobRow``.
    case blob(BlobRow)
    /// See ``IndexesRow``.
    case indexes(IndexesRow)
    /// See ``DocumentRow``.
    case document(DocumentRow)
    /// See ``AuditRow``; storing it appends it to the log.
    case audit(AuditRow)

    /// The key of the row.
    public var key: Key {
        switch self {
        case .account(let row): .account(row.id)
        case .balance(let row): .balance(row.account)
        case .device(let row): .device(row.id)
        case .session(let row): .session(row.id)
        case .quota(let row): .quota(row.account, name: row.name)
        case .hold(let row): .hold(row.id)
        case .operation(let row): .operation(row.account, key: row.key)
        case .record(let row): .record(row.name)
        case .feed(let row): .feed(row.account)
        case .result(let row): .result(row.key)
        case .parts(let row): .parts(row.run, first: row.first)
        case .blob(let row): .blob(row.account, row.id)
        case .indexes: .indexes
        case .document(let row): .document(row.kind, id: row.id)
        case .audit: .lastAudit
        }
    }
}

/// An account's profile, with the feed number of its last change.
public struct AccountRow: Hashable, Sendable {
    /// The state of an account.
    public enum State: Hashable, Sendable {
        /// The account is in use.
        case active
        /// The account's data is in another one: a guest was merged into it.
        case merged(into: Identifier)
        /// The account was deleted with all data of the person. The row and the ledger remain, so
        /// that sums stay right.
        case deleted
    }

    /// The profile that the owner sees.
    public var profile: Account
    /// The number of the profile's last change in the account's feed.
    public var seq: Int64
    /// The state of the account.
    public var state: State
    /// The time at which ``Account/plan`` ends and the account is free again; `nil` for never.
    public var planExpiresAt: Timestamp?
    /// The number of times that all access to the account was ended.
    ///
    /// Sessions, devices, and codes for devices of an earlier era do not open the account, so one
    /// change of this row ends them all. See ``SessionRow/era`` and ``DeviceRow/era``.
    public var era: Int64

    /// The account's id.
    public var id: Identifier { profile.id }

    /// Creates the row.
    public init(
        profile: Account,
        seq: Int64,
        state: State = .active,
        planExpiresAt: Timestamp? = nil,
        era: Int64 = 0
    ) {
        self.profile = profile
        self.seq = seq
        self.state = state
        self.planExpiresAt = planExpiresAt
        self.era = era
    }
}

/// An account's balance and the head of its feed.
///
/// The row is small, because every charge rewrites it.
public struct BalanceRow: Hashable, Sendable {
    /// The owner.
    public var account: Identifier
    /// The newest number of the account's feed, across everything that the account can see.
    public var head: Int64
    /// The tokens that may be spent; below zero only after a refund.
    public var available: Int64
    /// The tokens in open holds; never below zero.
    public var held: Int64
    /// The number of the balance's last change in the account's feed.
    public var seq: Int64
    /// The time of the balance's last change.
    public var changedAt: Timestamp
    /// The part of ``available`` that expires; never more than it.
    public var grants: ExpiringGrants
    /// The spending of the day, and the account's limit.
    public var spending: Spending

    /// Creates the row.
    public init(
        account: Identifier,
        head: Int64,
        available: Int64,
        held: Int64,
        seq: Int64,
        changedAt: Timestamp,
        grants: ExpiringGrants = ExpiringGrants(),
        spending: Spending = Spending()
    ) {
        self.account = account
        self.head = head
        self.available = available
        self.held = held
        self.seq = seq
        self.changedAt = changedAt
        self.grants = grants
        self.spending = spending
    }
}

/// A device and the account to which it belongs.
public struct DeviceRow: Hashable, Sendable {
    /// The id that the device chose.
    public var id: String
    /// The SHA-256 of the secret that the device chose: 32 bytes.
    public var secretHash: [UInt8]
    /// The account of the device.
    public var account: Identifier
    /// The time at which the device was first seen.
    public var createdAt: Timestamp
    /// The account's ``AccountRow/era`` when the device was given access.
    ///
    /// The secret of a device opens a registered account only in the same era. ``closed`` is no
    /// era.
    public var era: Int64

    /// The ``era`` of a device whose session was ended: it opens no registered account.
    public static let closed: Int64 = -1

    /// Creates the row.
    public init(
        id: String,
        secretHash: [UInt8],
        account: Identifier,
        createdAt: Timestamp,
        era: Int64 = 0
    ) {
        self.id = id
        self.secretHash = secretHash
        self.account = account
        self.createdAt = createdAt
        self.era = era
    }
}

/// A signed-in device: one family of refresh tokens, of which only the newest is valid.
public struct SessionRow: Hashable, Sendable {
    /// The id of the family, and the `sid` of its access tokens.
    public var id: Identifier
    /// The account that is signed in.
    public var account: Identifier
    /// The number of the newest refresh token: 0 for the first.
    public var generation: Int64
    /// The time at which the newest refresh token was created.
    public var rotatedAt: Timestamp
    /// The time at which the newest refresh token expires.
    public var expiresAt: Timestamp
    /// The time at which the family ended, by sign-out or reuse; `nil` while it is valid.
    ///
    /// Setting it removes the ``deviceName``, which no list shows afterwards.
    public var endedAt: Timestamp? {
        didSet { if endedAt != nil { deviceName = nil } }
    }
    /// The name that the user sees in the list of sessions; `nil` if the device gave none.
    public var deviceName: String?
    /// The id of the device that opened it with its secret, or that continued such a session;
    /// `nil` for a sign-in with a login only.
    public var device: String?
    /// The account's ``AccountRow/era`` when the session was opened or last kept.
    ///
    /// The session is void as soon as the account's era is a later one.
    public var era: Int64

    /// Creates the row.
    public init(
        id: Identifier,
        account: Identifier,
        generation: Int64,
        rotatedAt: Timestamp,
        expiresAt: Timestamp,
        endedAt: Timestamp? = nil,
        deviceName: String? = nil,
        device: String? = nil,
        era: Int64 = 0
    ) {
        self.id = id
        self.account = account
        self.generation = generation
        self.rotatedAt = rotatedAt
        self.expiresAt = expiresAt
        self.endedAt = endedAt
        self.deviceName = deviceName
        self.device = device
        self.era = era
    }
}

/// The used part of a daily quota in its latest period.
public struct QuotaRow: Hashable, Sendable {
    /// The account that uses the quota.
    public var account: Identifier
    /// The quota's name in the configuration.
    public var name: String
    /// The user's day of the period.
    public var day: CalendarDay
    /// The number of used units.
    public var used: Int64
    /// The time at which the period ends, in the account's time zone at the period's beginning.
    public var resetsAt: Timestamp
    /// The number of the quota's last change in the account's feed.
    public var seq: Int64
    /// The part of ``used`` that open holds may still return; never more than it.
    public var held: Int64

    /// Creates the row.
    public init(
        account: Identifier,
        name: String,
        day: CalendarDay,
        used: Int64,
        resetsAt: Timestamp,
        seq: Int64,
        held: Int64 = 0
    ) {
        self.account = account
        self.name = name
        self.day = day
        self.used = used
        self.resetsAt = resetsAt
        self.seq = seq
        self.held = held
    }
}

/// An amount that is or was held.
public struct HoldRow: Hashable, Sendable {
    /// The state of a hold.
    public enum State: Hashable, Sendable {
        /// The amount is held.
        case open
        /// This amount was charged, and the rest was released.
        case captured(Int64)
        /// The whole amount was released by a request or by the end of its call.
        case released
        /// The whole amount was released because the hold expired.
        case expired
    }

    /// The hold's id.
    public var id: Identifier
    /// The owner.
    public var account: Identifier
    /// The held amount.
    public var amount: Int64
    /// The time at which an open hold expires.
    public var expiresAt: Timestamp
    /// The state.
    public var state: State
    /// The reason that the ledger shows.
    public var reason: String
    /// The idempotency key of the function call that the hold pays for; `nil` for a client's hold.
    public var operation: String?
    /// Whether the call was sent upstream.
    ///
    /// If so, expiry charges the hold; otherwise it releases it.
    public var sent: Bool
    /// The part of a daily quota that the call reserves; `nil` for none.
    public var quota: QuotaHold?
    /// The charge if nothing further becomes known about the call; at most ``amount``.
    ///
    /// `nil` stands for the whole amount. It is used if the output is not known: the call is not
    /// streamed, or it has no upstream and nothing of its answer is stored yet.
    public var chargeWhenCut: Int64?
    /// The part of ``amount`` that comes from grants with an expiry time.
    ///
    /// It does not expire while it is held. A capture charges it first, and the rest returns to the
    /// balance, where it expires at once if its time has passed.
    public var grants: ExpiringGrants
    /// The day on which the hold counts towards the spending limit; `nil` if there was none.
    public var spentOn: CalendarDay?
    /// The labels of the charge, for summaries of the ledger.
    public var labels: ChargeLabels

    /// Creates an open hold.
    public init(
        id: Identifier,
        account: Identifier,
        amount: Int64,
        expiresAt: Timestamp,
        state: State = .open,
        reason: String,
        operation: String? = nil,
        sent: Bool = false,
        quota: QuotaHold? = nil,
        chargeWhenCut: Int64? = nil,
        grants: ExpiringGrants = ExpiringGrants(),
        spentOn: CalendarDay? = nil,
        labels: ChargeLabels = ChargeLabels()
    ) {
        self.id = id
        self.account = account
        self.amount = amount
        self.expiresAt = expiresAt
        self.state = state
        self.reason = reason
        self.operation = operation
        self.sent = sent
        self.quota = quota
        self.chargeWhenCut = chargeWhenCut
        self.grants = grants
        self.spentOn = spentOn
        self.labels = labels
    }
}

/// An operation that was accepted under an idempotency key.
///
/// If it changed the ledger, its row is kept forever, so that no key is charged twice.
public struct OperationRow: Hashable, Sendable {
    /// The state of an operation.
    public enum State: Hashable, Sendable {
        /// The operation runs, and pays with this hold if it has a price.
        case running(hold: Identifier?)
        /// The operation is done; every repetition receives this answer.
        case done(StoredAnswer)
        /// The operation was done, and its answer has since been dropped.
        case forgotten
        /// The operation was pushed and decided; the row is kept forever. It has the feed number
        /// that includes its changes, and for a refusal the ``Problem`` as JSON.
        case pushed(head: Int64, refusal: [UInt8]?)
    }

    /// The owner.
    public var account: Identifier
    /// The idempotency key that the client chose.
    public var key: String
    /// The SHA-256 of the request, which distinguishes a repetition from another request.
    public var fingerprint: [UInt8]
    /// The state.
    public var state: State
    /// The time at which the operation was accepted or done.
    public var at: Timestamp
    /// The run whose parts the answer streams; `nil` for an answer in one piece.
    public var run: Identifier?

    /// Creates the row.
    public init(
        account: Identifier,
        key: String,
        fingerprint: [UInt8],
        state: State,
        at: Timestamp,
        run: Identifier? = nil
    ) {
        self.account = account
        self.key = key
        self.fingerprint = fingerprint
        self.state = state
        self.at = at
        self.run = run
    }
}

/// The answer that every repetition of an operation receives, byte for byte.
public struct StoredAnswer: Hashable, Sendable {
    /// The HTTP status.
    public var status: Int
    /// The JSON body.
    public var body: [UInt8]
    /// The feed number that includes the operation's change; `nil` if it changed nothing.
    public var head: Int64?
    /// The number of parts that the answer takes from its run; `nil` for all stored parts.
    public var parts: Int64?

    /// Creates the answer.
    public init(status: Int, body: [UInt8], head: Int64?, parts: Int64? = nil) {
        self.status = status
        self.body = body
        self.head = head
        self.parts = parts
    }
}
