public import SanguineModel

/// Names one stored record.
///
/// Records that only their owner may read are named within their account: nobody else can take
/// their ids, or learn that they exist. Those that everyone may read share one space of names.
public struct RecordName: Hashable, Sendable, Comparable {
    /// The collection's name.
    public let collection: String
    /// The account within which the id is unique; `nil` if it is unique among all.
    public let scope: Identifier?
    /// The record's id.
    public let id: RecordID

    /// Creates the name.
    public init(_ collection: String, in scope: Identifier?, _ id: RecordID) {
        self.collection = collection
        self.scope = scope
        self.id = id
    }

    /// Orders by collection, scope and id, by their bytes.
    public static func < (lhs: RecordName, rhs: RecordName) -> Bool {
        if lhs.collection != rhs.collection {
            return lhs.collection.utf8.lexicographicallyPrecedes(rhs.collection.utf8)
        }
        if lhs.scope != rhs.scope {
            guard let right = rhs.scope else { return false }
            return lhs.scope.map { $0 < right } ?? true
        }
        return lhs.id < rhs.id
    }
}

/// A record, or what is left of one that was deleted.
public struct RecordRow: Hashable, Sendable {
    /// The record's name.
    public var name: RecordName
    /// Whose record; the only account that may change it.
    public var owner: Identifier
    /// The number in the owner's feed of the record's last change.
    public var seq: Int64
    /// The number at which all that was changed together with it is contained; `seq` or later.
    public var through: Int64
    /// When it was deleted; `nil` while it lives.
    public var deletedAt: Timestamp?
    /// What it holds: a JSON object without the id, its members ordered by name; empty if deleted.
    public var value: [UInt8]
    /// When it was created.
    public var createdAt: Timestamp
    /// When it last changed.
    public var updatedAt: Timestamp

    /// Creates the row.
    public init(
        name: RecordName,
        owner: Identifier,
        seq: Int64,
        through: Int64,
        deletedAt: Timestamp? = nil,
        value: [UInt8],
        createdAt: Timestamp,
        updatedAt: Timestamp
    ) {
        self.name = name
        self.owner = owner
        self.seq = seq
        self.through = through
        self.deletedAt = deletedAt
        self.value = value
        self.createdAt = createdAt
        self.updatedAt = updatedAt
    }

    /// What a record counts for besides its value, and what is left of a deleted one: its name, its
    /// numbers and its entries in indexes.
    public static let overheadBytes: Int64 = 100

    /// What the record takes of the bytes that its owner may keep.
    public var storedBytes: Int64 { Int64(value.count) + Self.overheadBytes }
}

/// What is known of an account's records, and of the room that it takes, as a whole.
public struct FeedRow: Hashable, Sendable {
    /// Whose feed.
    public var account: Identifier
    /// How many records the account has, without the deleted.
    public var records: Int64
    /// Of how many records it is known that they were deleted.
    public var tombstones: Int64
    /// The ``RecordRow/storedBytes`` of both, and the ``BlobRow/storedBytes`` of the account's
    /// files.
    public var bytes: Int64
    /// The largest feed number of a deletion that was dropped; 0 if none was.
    ///
    /// Who has read only up to a smaller number may have missed deletions.
    public var horizon: Int64

    /// Creates the row.
    public init(
        account: Identifier,
        records: Int64 = 0,
        tombstones: Int64 = 0,
        bytes: Int64 = 0,
        horizon: Int64 = 0
    ) {
        self.account = account
        self.records = records
        self.tombstones = tombstones
        self.bytes = bytes
        self.horizon = horizon
    }

    /// Takes note that what is left of a deleted record is dropped.
    public mutating func drop(_ tombstone: RecordRow) {
        tombstones = max(0, tombstones - 1)
        bytes = max(0, bytes - tombstone.storedBytes)
        horizon = max(horizon, tombstone.seq)
    }
}
