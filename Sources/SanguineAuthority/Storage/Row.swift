public import SanguineModel

/// Names one row.
///
/// A command lists the keys of what it needs before it decides.
public enum Key: Hashable, Sendable {
    /// An account's profile.
    case account(Identifier)
    /// An account's balance and the head of its feed.
    case balance(Identifier)
    /// A device, by the id that it gave itself.
    case device(String)
    /// A session, by the id of its family of refresh tokens.
    case session(Identifier)
    /// An account's allowance of one name.
    case quota(Identifier, name: String)
    /// A hold.
    case hold(Identifier)
    /// An account's operation, by its idempotency key.
    case operation(Identifier, key: String)
    /// A record, also one that was deleted.
    case record(RecordName)
    /// What is known of an account's records as a whole.
    case feed(Identifier)
    /// An answer of a function that is kept, by its ``ResultRow/key``.
    case result([UInt8])
    /// Parts of a streamed answer, by the run and the index of the first one.
    case parts(Identifier, first: Int64)
    /// A file that an account has.
    case blob(Identifier, BlobID)
    /// How far the indexes of records are.
    case indexes
}

extension Key {
    /// The account that the key names; `nil` for what is found before its account is known.
    package var account: Identifier? {
        switch self {
        case .account(let id), .balance(let id), .quota(let id, _), .operation(let id, _),
            .feed(let id), .blob(let id, _):
            id
        case .device, .session, .hold, .record, .result, .parts, .indexes: nil
        }
    }
}

/// One stored row.
///
/// Its key is part of it.
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

    /// The name under which the row is stored.
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
        }
    }
}

/// An account's profile, with the feed number of its last change.
public struct AccountRow: Hashable, Sendable {
    /// What the owner sees.
    public var profile: Account
    /// The number in the account's feed of the profile's last change.
    public var seq: Int64

    /// The account's id.
    public var id: Identifier { profile.id }

    /// Creates the row.
    public init(profile: Account, seq: Int64) {
        self.profile = profile
        self.seq = seq
    }
}

/// An account's balance and the head of its feed.
///
/// One small row, because every charge rewrites it.
public struct BalanceRow: Hashable, Sendable {
    /// Whose balance.
    public var account: Identifier
    /// The newest number of the account's feed, over all that the account can see.
    public var head: Int64
    /// What may be spent; never below zero.
    public var available: Int64
    /// What is set aside by open holds; never below zero.
    public var held: Int64
    /// The number in the account's feed of the balance's last change.
    public var seq: Int64
    /// When the balance last changed.
    public var changedAt: Timestamp

    /// Creates the row.
    public init(
        account: Identifier,
        head: Int64,
        available: Int64,
        held: Int64,
        seq: Int64,
        changedAt: Timestamp
    ) {
        self.account = account
        self.head = head
        self.available = available
        self.held = held
        self.seq = seq
        self.changedAt = changedAt
    }
}

/// A device and the account that it made.
public struct DeviceRow: Hashable, Sendable {
    /// The id that the device gave itself.
    public var id: String
    /// SHA-256 of the secret that the device made: 32 bytes.
    public var secretHash: [UInt8]
    /// The account that the device stands for.
    public var account: Identifier
    /// When the device was first seen.
    public var createdAt: Timestamp

    /// Creates the row.
    public init(id: String, secretHash: [UInt8], account: Identifier, createdAt: Timestamp) {
        self.id = id
        self.secretHash = secretHash
        self.account = account
        self.createdAt = createdAt
    }
}

/// A signed-in device: one family of refresh tokens, of which the newest generation is valid.
public struct SessionRow: Hashable, Sendable {
    /// The family's id; the `sid` of its access tokens.
    public var id: Identifier
    /// Who is signed in.
    public var account: Identifier
    /// The number of the newest refresh token: 0 for the first.
    public var generation: Int64
    /// When the newest refresh token was made.
    public var rotatedAt: Timestamp
    /// When the newest refresh token expires.
    public var expiresAt: Timestamp
    /// When the family was ended, by sign-out or by reuse; `nil` while it lives.
    public var endedAt: Timestamp?

    /// Creates the row.
    public init(
        id: Identifier,
        account: Identifier,
        generation: Int64,
        rotatedAt: Timestamp,
        expiresAt: Timestamp,
        endedAt: Timestamp? = nil
    ) {
        self.id = id
        self.account = account
        self.generation = generation
        self.rotatedAt = rotatedAt
        self.expiresAt = expiresAt
        self.endedAt = endedAt
    }
}

/// What of a daily allowance is used in the period that began last.
public struct QuotaRow: Hashable, Sendable {
    /// Whose allowance.
    public var account: Identifier
    /// The allowance's name in the configuration.
    public var name: String
    /// The user's day to which the period belongs.
    public var day: CalendarDay
    /// How much is used.
    public var used: Int64
    /// When the period ends, by the zone that the account had when it began.
    public var resetsAt: Timestamp
    /// The number in the account's feed of the allowance's last change.
    public var seq: Int64

    /// Creates the row.
    public init(
        account: Identifier,
        name: String,
        day: CalendarDay,
        used: Int64,
        resetsAt: Timestamp,
        seq: Int64
    ) {
        self.account = account
        self.name = name
        self.day = day
        self.used = used
        self.resetsAt = resetsAt
        self.seq = seq
    }
}

/// An amount that is or was set aside.
public struct HoldRow: Hashable, Sendable {
    /// What became of a hold.
    public enum State: Hashable, Sendable {
        /// The amount is set aside.
        case open
        /// This much was charged, and the rest given back.
        case captured(Int64)
        /// All was given back, because someone said so.
        case released
        /// All was given back, because the time was over.
        case expired
    }

    /// The hold's id.
    public var id: Identifier
    /// Whose hold.
    public var account: Identifier
    /// How much was set aside.
    public var amount: Int64
    /// When an open hold expires.
    public var expiresAt: Timestamp
    /// What became of it.
    public var state: State
    /// What for; it stands in the ledger.
    public var reason: String
    /// The idempotency key of the function call that it pays for, or `nil` for a client's own hold.
    public var operation: String?
    /// Whether the call was sent upstream.
    ///
    /// Then expiry charges it, and otherwise releases it.
    public var sent: Bool
    /// What the call takes of a daily quota; `nil` for none.
    public var quota: QuotaHold?
    /// What a call is charged if nothing more comes of it: at most ``amount``.
    ///
    /// `nil`, which is the whole amount, if what was made is not known: the call is not streamed,
    /// or it leaves for no upstream and nothing of it is stored yet.
    public var chargeWhenCut: Int64?

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
        chargeWhenCut: Int64? = nil
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
    }
}

/// An operation that was accepted under an idempotency key.
///
/// Its row is kept for ever if it moved the ledger, so that no key ever charges twice.
public struct OperationRow: Hashable, Sendable {
    /// How far the operation is.
    public enum State: Hashable, Sendable {
        /// It runs, and pays with this hold if it has a price.
        case running(hold: Identifier?)
        /// It is done, and this is what every sending is answered with.
        case done(StoredAnswer)
        /// It was done so long ago that the answer was dropped.
        case forgotten
        /// It was pushed and decided, which is kept for ever: the feed number at which its changes
        /// are contained, or, if it was refused, the ``Problem`` as JSON.
        case pushed(head: Int64, refusal: [UInt8]?)
    }

    /// Whose operation.
    public var account: Identifier
    /// The idempotency key that the client chose.
    public var key: String
    /// SHA-256 of the request, which tells a repetition from another request.
    public var fingerprint: [UInt8]
    /// How far it is.
    public var state: State
    /// When it was accepted, or done.
    public var at: Timestamp
    /// The run of a function whose parts its answer streams; `nil` if it comes in one piece.
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

/// An answer that is given again, byte for byte, whenever its operation is sent again.
public struct StoredAnswer: Hashable, Sendable {
    /// The HTTP status.
    public var status: Int
    /// The JSON body.
    public var body: [UInt8]
    /// The feed number at which the operation's change is contained; `nil` if it changed nothing.
    public var head: Int64?
    /// How many parts it has of the run of its operation; `nil` for as many as are stored.
    public var parts: Int64?

    /// Creates the answer.
    public init(status: Int, body: [UInt8], head: Int64?, parts: Int64? = nil) {
        self.status = status
        self.body = body
        self.head = head
        self.parts = parts
    }
}
