/// Operations that a device sends: the body of `POST /v1/sync/push`.
public struct PushRequest: Hashable, Codable, Sendable {
    /// The device's id, 16 to 128 characters; sequence numbers are its own.
    public var device: String
    /// The operations, at most 100, in the order of their sequence numbers.
    public var operations: [PushedOperation]

    /// Creates the request.
    public init(device: String, operations: [PushedOperation]) {
        self.device = device
        self.operations = operations
    }
}

/// One operation as it travels.
public struct PushedOperation: Hashable, Codable, Sendable {
    /// The operation's id, which is also its idempotency key.
    public var id: Identifier
    /// Its place among the device's operations; positive, and rising.
    public var sequence: Int64
    /// The line in which it waits.
    public var lane: String
    /// The record mutation's name.
    public var mutator: String
    /// The record mutation's own members.
    public var arguments: JSONValue

    /// Creates an operation.
    public init(
        id: Identifier,
        sequence: Int64,
        lane: String,
        mutator: String,
        arguments: JSONValue
    ) {
        self.id = id
        self.sequence = sequence
        self.lane = lane
        self.mutator = mutator
        self.arguments = arguments
    }
}

/// What became of one operation.
public struct PushResult: Hashable, Codable, Sendable {
    /// What became of it.
    public enum Status: String, Codable, Sendable {
        /// It was done now.
        case applied
        /// It was done before.
        case replayed
        /// It was not done, and never will be.
        case refused
        /// The server has not decided it.
        ///
        /// In a ``PullAnswer``: it has never seen it. In a ``PushAnswer``: it follows, in its lane,
        /// one whose mutator the server does not know yet, or it or one before it looks records up
        /// by an index that is being built.
        case unknown
    }

    /// The operation's id.
    public var id: Identifier
    /// What became of it.
    public var status: Status
    /// The number in the account's feed at which its changes are contained; `nil` if refused.
    public var head: Int64?
    /// Why it was refused.
    public var problem: Problem?

    /// Creates a result.
    public init(id: Identifier, status: Status, head: Int64? = nil, problem: Problem? = nil) {
        self.id = id
        self.status = status
        self.head = head
        self.problem = problem
    }
}

/// What became of the operations of a push, in their order.
public struct PushAnswer: Hashable, Codable, Sendable {
    /// One for each operation.
    public var results: [PushResult]
    /// The newest number of the account's feed.
    public var head: Int64

    /// Creates the answer.
    public init(results: [PushResult], head: Int64) {
        self.results = results
        self.head = head
    }
}

/// A record as an account's feed has it: at its newest.
public struct RecordChange: Hashable, Codable, Sendable {
    /// The collection's name.
    public var collection: String
    /// The record's id.
    public var id: RecordID
    /// The number in the account's feed of its last change.
    public var seq: Int64
    /// The number at which all that was changed together with it is contained: `seq` or later.
    ///
    /// A reader that shows records as they arrive waits for that number, and never shows half of an
    /// operation. Default: `seq`.
    public var through: Int64?
    /// Whether the record is gone.
    public var deleted: Bool
    /// What it holds, without its id; `null` if it is gone.
    public var value: JSONValue?

    /// Creates a change.
    public init(
        collection: String,
        id: RecordID,
        seq: Int64,
        through: Int64? = nil,
        deleted: Bool = false,
        value: JSONValue?
    ) {
        self.collection = collection
        self.id = id
        self.seq = seq
        self.through = through
        self.deleted = deleted
        self.value = value
    }
}

/// A part of an account's feed: the answer of `GET /v1/sync/pull`.
public struct PullAnswer: Hashable, Codable, Sendable {
    /// The changes, ordered by ``RecordChange/seq``, each record once.
    public var changes: [RecordChange]
    /// What to ask with as `since` next.
    public var next: Int64
    /// The newest number of the account's feed.
    public var head: Int64
    /// Whether there are more changes after ``next``.
    public var hasMore: Bool
    /// Whether the reader must forget its records first: deletions before `since` are not known any
    /// more, and the changes begin at the start.
    public var reset: Bool
    /// The number up to which deletions are not known any more; `nil` if all are.
    ///
    /// A reader keeps it beside its position and sends it along as `?horizon=`: that tells a
    /// reader who is on its way from the start from one who was away for too long.
    public var horizon: Int64?
    /// The epoch to which the numbers belong; `nil` from a server that knows of none.
    ///
    /// A reader keeps it with its position and sends it along as `?epoch=`: after a copy of the
    /// server's database was restored, the answer is a ``reset``.
    public var epoch: Epoch?
    /// What became of the operations that the reader asked about, as of these changes; `nil` if it
    /// asked about none.
    ///
    /// Asked with `?operations=<id>,<id>`, at most 100. Without it a reader that pulls while a push
    /// is unanswered cannot tell whether the changes have the operation in them already.
    public var operations: [PushResult]?

    /// Creates the answer.
    public init(
        changes: [RecordChange],
        next: Int64,
        head: Int64,
        hasMore: Bool,
        reset: Bool = false,
        horizon: Int64? = nil,
        epoch: Epoch? = nil,
        operations: [PushResult]? = nil
    ) {
        self.changes = changes
        self.next = next
        self.head = head
        self.hasMore = hasMore
        self.reset = reset
        self.horizon = horizon
        self.epoch = epoch
        self.operations = operations
    }
}

/// A single-use ticket for `GET /v1/live?ticket=…`: the answer of `POST /v1/live/tickets`.
public struct LiveTicket: Hashable, Codable, Sendable {
    /// The ticket.
    public var ticket: String
    /// Seconds until it expires.
    public var expiresIn: Int

    /// Creates the answer.
    public init(ticket: String, expiresIn: Int) {
        self.ticket = ticket
        self.expiresIn = expiresIn
    }
}

extension Problem {
    /// What is said of a lane that cannot travel.
    package static let badLane = Problem(
        .invalidContent,
        """
        Set 'lane' to \(WireLimits.laneCharacters.lowerBound) to \
        \(WireLimits.laneCharacters.upperBound) printable characters.
        """
    )
}
