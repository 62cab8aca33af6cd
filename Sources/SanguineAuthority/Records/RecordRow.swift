public import SanguineModel

/// The name of a stored record.
///
/// The names of records that only their owner may read are scoped to the account: other accounts
/// cannot use up their ids, or learn that they exist. Public records share one namespace.
public struct RecordName: Hashable, Sendable, Comparable {
    /// The collection's name.
    public let collection: String
    /// The account in which the id is unique; `nil` if the id is unique in the collection.
    public let scope: Identifier?
    /// The record's id.
    public let id: RecordID

    /// Creates the name.
    public init(_ collection: String, in scope: Identifier?, _ id: RecordID) {
        self.collection = collection
        self.scope = scope
        self.id = id
    }

    /// Whether the record is a thread.
    var isThread: Bool { collection == ChatThread.collection.name }

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

/// A record, or the tombstone of a deleted one.
public struct RecordRow: Hashable, Sendable {
    /// The record's name.
    public var name: RecordName
    /// The owner; the only account that may change the record.
    public var owner: Identifier
    /// The number of the record's last change in the owner's feed.
    public var seq: Int64
    /// The last number of the changes made together with this one; `seq` or later.
    public var through: Int64
    /// The time of the deletion; `nil` for a live record.
    public var deletedAt: Timestamp?
    /// A JSON object without the id, with its members ordered by name; empty for a tombstone.
    public var value: [UInt8]
    /// The time of creation.
    public var createdAt: Timestamp
    /// The time of the last change.
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

    /// The size that is counted for a record besides its value, and for a tombstone: its name, its
    /// numbers and its index entries.
    public static let overheadBytes: Int64 = 100

    /// The part of the owner's storage limit that the record uses.
    public var storedBytes: Int64 { Int64(value.count) + Self.overheadBytes }
}

/// The totals of an account's records and storage.
public struct FeedRow: Hashable, Sendable {
    /// The owner of the feed.
    public var account: Identifier
    /// The number of live records.
    public var records: Int64
    /// The number of tombstones.
    public var tombstones: Int64
    /// The ``RecordRow/storedBytes`` of both, plus the ``BlobRow/storedBytes`` of the account's
    /// files.
    public var bytes: Int64
    /// The largest feed number of a dropped tombstone; 0 if none was dropped.
    ///
    /// A reader that has read only up to a smaller number may have missed deletions.
    public var horizon: Int64
    /// The number of live records that are threads.
    public var threads: Int64

    /// Creates the row.
    public init(
        account: Identifier,
        records: Int64 = 0,
        tombstones: Int64 = 0,
        bytes: Int64 = 0,
        horizon: Int64 = 0,
        threads: Int64 = 0
    ) {
        self.account = account
        self.records = records
        self.tombstones = tombstones
        self.bytes = bytes
        self.horizon = horizon
        self.threads = threads
    }

    /// Counts a record that is stored, and that replaces the older row of its name, if any.
    mutating func count(_ new: RecordRow, replacing old: RecordRow?) {
        let live = (new.isLive ? 1 : 0) - (old?.isLive == true ? 1 : 0) as Int64
        records += live
        tombstones += (new.isLive ? 0 : 1) - (old?.isLive == false ? 1 : 0)
        bytes += new.storedBytes - (old?.storedBytes ?? 0)
        if new.name.isThread { threads += live }
    }

    /// Subtracts a tombstone that is dropped.
    public mutating func drop(_ tombstone: RecordRow) {
        tombstones = max(0, tombstones - 1)
        bytes = max(0, bytes - tombstone.storedBytes)
        horizon = max(horizon, tombstone.seq)
    }
}
