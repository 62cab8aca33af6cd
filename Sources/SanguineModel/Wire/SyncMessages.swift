/// The body of `POST /v1/sync/push`: the operations that a device sends.
public struct PushRequest: Hashable, Codable, Sendable {
    /// The device's id, 16 to 128 characters.
    ///
    /// Each device has its own sequence numbers.
    public var device: String
    /// The operations, at most 100, in the order of their sequence numbers.
    public var operations: [PushedOperation]

    /// Creates the request.
    public init(device: String, operations: [PushedOperation]) {
        self.device = device
        self.operations = operations
    }
}

/// An operation on the wire.
public struct PushedOperation: Hashable, Codable, Sendable {
    /// The operation's id, which is also its idempotency key.
    public var id: Identifier
    /// The operation's position among the device's operations; positive and ascending.
    public var sequence: Int64
    /// The lane in which it waits.
    public var lane: String
    /// The record mutation's name.
    public var mutator: String
    /// The members of the record mutation.
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

/// The result of an operation.
public struct PushResult: Hashable, Codable, Sendable {
    /// The outcome of an operation.
    public enum Status: String, Codable, Sendable {
        /// It was applied now.
        case applied
        /// It was applied earlier.
        case replayed
        /// It was refused permanently.
        case refused
        /// The server has not decided it.
        ///
        /// In a ``PullAnswer``: the server has never received it. In a ``PushAnswer``: it follows
        /// an operation in its lane whose mutation the server does not know yet, or it or an
        /// earlier one looks up records by an index that is being built.
        case unknown
    }

    /// The operation's id.
    public var id: Identifier
    /// The outcome of the operation.
    public var status: Status
    /// The number in the account's feed that includes its changes, or `nil` if it was refused.
    public var head: Int64?
    /// The reason of the refusal.
    public var problem: Problem?

    /// Creates a result.
    public init(id: Identifier, status: Status, head: Int64? = nil, problem: Problem? = nil) {
        self.id = id
        self.status = status
        self.head = head
        self.problem = problem
    }
}

/// The response to a push: the results of its operations, in order.
public struct PushAnswer: Hashable, Codable, Sendable {
    /// One result for each operation.
    public var results: [PushResult]
    /// The newest number of the account's feed.
    public var head: Int64

    /// Creates the response.
    public init(results: [PushResult], head: Int64) {
        self.results = results
        self.head = head
    }
}

/// The latest version of a record in an account's feed.
public struct RecordChange: Hashable, Codable, Sendable {
    /// The collection's name.
    public var collection: String
    /// The record's id.
    public var id: RecordID
    /// The number of the record's last change in the account's feed.
    ///
    /// It is 0 in lists and lookups of a collection that others may read: it would tell them how
    /// much the owner does.
    public var seq: Int64
    /// The number that includes all changes made together with this one: `seq` or later.
    ///
    /// A client that shows records as they arrive waits for that number, so that it never shows
    /// half of an operation. Default: `seq`.
    public var through: Int64?
    /// Whether the record was deleted.
    public var deleted: Bool
    /// The record's members without its id, or `null` if it was deleted.
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

    /// The names of the members of a change without its `through`, which `fields` can select.
    package static let memberNames = ["collection", "id", "seq", "deleted", "value"]
}

/// The response to `GET /v1/sync/pull`: a part of an account's feed.
public struct PullAnswer: Hashable, Codable, Sendable {
    /// The changes, ordered by ``RecordChange/seq``, with each record once.
    public var changes: [RecordChange]
    /// The `since` of the next request.
    public var next: Int64
    /// The newest number of the account's feed.
    public var head: Int64
    /// Whether there are changes after ``next``.
    public var hasMore: Bool
    /// Whether the client must discard its records first: deletions before `since` are no longer
    /// known, and the changes start at the beginning.
    public var reset: Bool
    /// The horizon, at or before which deletions are no longer known, or `nil` if all are known.
    ///
    /// A client stores it with its position and sends it as `?horizon=`. It distinguishes a client
    /// that started from the beginning from one that was away for too long.
    public var horizon: Int64?
    /// The epoch of the numbers, or `nil` from a server that does not support epochs.
    ///
    /// A client stores it with its position and sends it as `?epoch=`. After a copy of the server's
    /// database was restored, the response is a ``reset``.
    public var epoch: Epoch?
    /// The results of the operations that the request asked about, as of these changes, or `nil` if
    /// it asked about none.
    ///
    /// The query is `?operations=<id>,<id>`, with at most 100 ids. Without it, a client that pulls
    /// while a push is unanswered cannot tell whether the changes include the operation.
    public var operations: [PushResult]?

    /// Creates the response.
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

/// A single-use ticket for `GET /v1/live?ticket=…`: the response to `POST /v1/live/tickets`.
public struct LiveTicket: Hashable, Codable, Sendable {
    /// The ticket.
    public var ticket: String
    /// Seconds until it expires.
    public var expiresIn: Int

    /// Creates the response.
    public init(ticket: String, expiresIn: Int) {
        self.ticket = ticket
        self.expiresIn = expiresIn
    }
}

extension Problem {
    /// The problem of an invalid lane.
    package static let badLane = Problem(
        .invalidContent,
        """
        Set 'lane' to \(WireLimits.laneCharacters.lowerBound) to \
        \(WireLimits.laneCharacters.upperBound) printable characters.
        """
    )
}
