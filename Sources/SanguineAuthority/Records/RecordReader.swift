public import SanguineModel

/// Reads records whose names are not known before a decision runs.
///
/// Valid only while the command decides: it reads in the same transaction that stores the command's
/// changes.
public protocol RecordReader {
    /// Returns the row, which may be a tombstone; `nil` if there is none.
    ///
    /// - Throws: An error if the storage failed. The driver then aborts the command regardless of
    ///   its decision.
    func record(_ name: RecordName) throws -> RecordRow?

    /// Returns the ids in the list with the key, ascending, at most `limit`.
    ///
    /// - Throws: see ``record(_:)``.
    func ids(in list: IndexList, at key: IndexKey, limit: Int) throws -> [RecordID]

    /// Returns an account's tombstones, ordered by feed number, at most `limit`.
    ///
    /// - Throws: see ``record(_:)``.
    func tombstones(of account: Identifier, limit: Int) throws -> [RecordRow]

    /// Returns the live records of a collection, ordered by scope and id.
    ///
    /// - Parameters:
    ///   - collection: The collection's name.
    ///   - position: The position after which the records follow; `nil` for the beginning.
    ///   - limit: The maximum number of records.
    ///   - bytes: The size of values in bytes after which no further record is read.
    /// - Returns: The records; empty if there are no more.
    /// - Throws: see ``record(_:)``.
    func records(
        in collection: String,
        after position: IndexBuild.Position?,
        limit: Int,
        bytes: Int
    ) throws -> [RecordRow]

    /// Returns the scopes of a collection's nonempty lists, in order, at most `limit`; the public
    /// scope `nil` comes first.
    ///
    /// - Throws: see ``record(_:)``.
    func scopes(
        in collection: String,
        after position: IndexBuild.Position?,
        limit: Int
    ) throws -> [Identifier?]

    /// Returns entries of a list in any order, at most `limit`.
    ///
    /// - Throws: see ``record(_:)``.
    func entries(in list: IndexList, limit: Int) throws -> [IndexEntry]

    /// Returns an account's live records, ordered by feed number.
    ///
    /// - Parameters:
    ///   - account: The owner.
    ///   - seq: The number that the records' numbers exceed.
    ///   - limit: The maximum number of records.
    /// - Returns: The records; empty if there are no more.
    /// - Throws: see ``record(_:)``.
    func liveRecords(of account: Identifier, after seq: Int64, limit: Int) throws -> [RecordRow]

    /// Returns the rows that belong to an account, except for its records.
    ///
    /// - Throws: see ``record(_:)``.
    func ownedRows(of account: Identifier) throws -> OwnedRows

    /// Returns a document; `nil` if there is none.
    ///
    /// - Throws: see ``record(_:)``.
    func document(_ kind: DocumentKind, id: String) throws -> DocumentRow?

    /// Returns whether an account has used the idempotency key.
    ///
    /// - Throws: see ``record(_:)``.
    func hasOperation(_ account: Identifier, key: String) throws -> Bool

    /// Returns whether an account has uploaded the file.
    ///
    /// - Throws: see ``record(_:)``.
    func hasBlob(_ account: Identifier, _ id: BlobID) throws -> Bool
}

/// A query for a part of an account's feed, and for rows as of the same moment.
public struct FeedQuery: Hashable, Sendable {
    /// The owner of the feed.
    public var account: Identifier
    /// The number that the last change of each record must exceed.
    public var after: Int64
    /// The number of records; the group of the last record is completed beyond it.
    public var limit: Int
    /// The size of values in bytes after which no further group begins.
    public var bytes: Int
    /// The number through which everything is read, regardless of the limit and the bytes.
    public var least: Int64
    /// Whether deleted records are left out.
    public var liveOnly: Bool
    /// The keys of the rows to load.
    public var keys: [Key]

    /// Creates the query.
    public init(
        of account: Identifier,
        after: Int64,
        limit: Int,
        bytes: Int = .max,
        least: Int64 = 0,
        liveOnly: Bool = false,
        keys: [Key] = []
    ) {
        self.account = account
        self.after = after
        self.limit = limit
        self.bytes = bytes
        self.least = least
        self.liveOnly = liveOnly
        self.keys = keys
    }

    /// The limits of the part.
    public var cut: FeedCut { FeedCut(limit: limit, bytes: bytes, least: least) }
}

/// A part of an account's feed.
public struct FeedSlice: Sendable {
    /// The rows of the query's keys.
    public var loaded: Loaded
    /// The records in the order of their numbers; groups are complete.
    public var records: [RecordRow]
    /// Whether there are more records.
    public var hasMore: Bool

    /// Creates the slice.
    public init(loaded: Loaded, records: [RecordRow], hasMore: Bool) {
        self.loaded = loaded
        self.records = records
        self.hasMore = hasMore
    }
}

/// Takes records in the order of the feed until a limit is reached, and never splits a group.
public struct FeedCut: Sendable {
    private let limit: Int
    private let bytes: Int
    private var taken = 0
    private var count = 0
    /// The number through which every record is taken.
    private var through: Int64

    /// Creates a cut.
    ///
    /// - Parameters:
    ///   - limit: The number of records after which it cuts; one group is always taken.
    ///   - bytes: The size of values after which it cuts.
    ///   - least: The number through which everything is taken, regardless of the limits.
    public init(limit: Int, bytes: Int, least: Int64 = 0) {
        self.limit = max(1, limit)
        self.bytes = max(1, bytes)
        through = least
    }

    /// Returns whether the next record is taken; after the first refusal no more are taken.
    public mutating func takes(seq: Int64, through: Int64, _ bytes: Int) -> Bool {
        guard seq <= self.through || (count < limit && taken < self.bytes) else { return false }
        self.through = max(self.through, through)
        count += 1
        taken += bytes
        return true
    }
}
