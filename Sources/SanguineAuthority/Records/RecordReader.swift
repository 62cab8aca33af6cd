public import SanguineModel

/// Where a decision reads records that nobody could name before it ran.
///
/// Valid only while the command decides: it reads within the unit in which the command's changes
/// are stored.
public protocol RecordReader {
    /// The row, also of a record that was deleted; `nil` if there is none.
    ///
    /// - Throws: if the storage failed. The driver aborts the command then, whatever it decides.
    func record(_ name: RecordName) throws -> RecordRow?

    /// The ids in the list with that key, ascending, at most `limit`.
    ///
    /// - Throws: as ``record(_:)``.
    func ids(in list: IndexList, at key: IndexKey, limit: Int) throws -> [RecordID]

    /// What is left of an account's deleted records, by their feed numbers, at most `limit`.
    ///
    /// - Throws: as ``record(_:)``.
    func tombstones(of account: Identifier, limit: Int) throws -> [RecordRow]

    /// The live records of a collection, by scope and id.
    ///
    /// - Parameters:
    ///   - collection: The collection's name.
    ///   - place: Only records after this place; `nil` from the first.
    ///   - limit: How many at most.
    ///   - bytes: After how many bytes of values no further one is begun.
    /// - Returns: The records; none if there are no more.
    /// - Throws: as ``record(_:)``.
    func records(
        in collection: String,
        after place: IndexBuild.Place?,
        limit: Int,
        bytes: Int
    ) throws -> [RecordRow]

    /// The scopes of the lists of a collection that have entries, in order, at most `limit`: `nil`
    /// for everyone's comes first.
    ///
    /// - Throws: as ``record(_:)``.
    func scopes(
        in collection: String,
        after place: IndexBuild.Place?,
        limit: Int
    ) throws -> [Identifier?]

    /// Some entries of a list, at most `limit`.
    ///
    /// - Throws: as ``record(_:)``.
    func entries(in list: IndexList, limit: Int) throws -> [IndexEntry]
}

/// A part of an account's feed to read, and the rows to read with it, as of the same moment.
public struct FeedQuery: Hashable, Sendable {
    /// Whose feed.
    public var account: Identifier
    /// Only records whose last change has a larger number.
    public var after: Int64
    /// How many records, but for the rest of the last one's group.
    public var limit: Int
    /// After how many bytes of values no further group is begun.
    public var bytes: Int
    /// The number up to which everything is read, whatever the limit and the bytes.
    public var least: Int64
    /// Whether deleted records are left out.
    public var liveOnly: Bool
    /// The rows to load.
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

    /// What cuts the part off.
    public var cut: FeedCut { FeedCut(limit: limit, bytes: bytes, least: least) }
}

/// A part of an account's feed.
public struct FeedSlice: Sendable {
    /// The rows of the query's keys.
    public var loaded: Loaded
    /// The records in the order of their numbers; never a part of a group.
    public var records: [RecordRow]
    /// Whether there are more records.
    public var hasMore: Bool

    /// Creates the part.
    public init(loaded: Loaded, records: [RecordRow], hasMore: Bool) {
        self.loaded = loaded
        self.records = records
        self.hasMore = hasMore
    }
}

/// Takes records in the order of the feed until there are enough, and never a part of a group.
public struct FeedCut: Sendable {
    private let limit: Int
    private let bytes: Int
    private var taken = 0
    private var count = 0
    /// The number up to which everything is taken.
    private var through: Int64

    /// Creates a cut.
    ///
    /// - Parameters:
    ///   - limit: After how many records; one group is always taken.
    ///   - bytes: After how many bytes of values.
    ///   - least: The number up to which everything is taken all the same.
    public init(limit: Int, bytes: Int, least: Int64 = 0) {
        self.limit = max(1, limit)
        self.bytes = max(1, bytes)
        through = least
    }

    /// Whether the next record is taken as well; after the first that is not, the rest is to come.
    public mutating func takes(seq: Int64, through: Int64, _ bytes: Int) -> Bool {
        guard seq <= self.through || (count < limit && taken < self.bytes) else { return false }
        self.through = max(self.through, through)
        count += 1
        taken += bytes
        return true
    }
}
