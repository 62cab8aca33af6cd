public import SanguineModel

/// A query for the records of a collection.
public struct RecordQuery: Hashable, Sendable {
    /// The collection's name.
    public var collection: String
    /// The account whose records are listed; `nil` for public records.
    public var scope: Identifier?
    /// The required values of indexed members.
    public var conditions: [String: IndexKey]
    /// The indexed member to order by; `nil` orders by id.
    public var order: String?
    /// The list to follow and the beginning of its keys, for a search; `nil` for none.
    ///
    /// It replaces ``order``. Default: `nil`.
    public var search: Search?
    /// The authors whose records are listed, newest first; `nil` for the records of all.
    ///
    /// It replaces ``order`` and the conditions. Default: `nil`.
    public var timeline: Timeline?
    /// Whether the order is descending, by value and then by id.
    public var isDescending: Bool
    /// The position after which the list continues; `nil` for the beginning.
    public var after: RecordPosition?
    /// The maximum number of records.
    public var limit: Int
    /// The size of values in bytes after which the list ends.
    public var bytes: Int
    /// The maximum number of records to examine, so that a rare value does not make a list slow.
    public var looks: Int
    /// The largest count of the records of the whole list; 0 to count none.
    ///
    /// Default: 0.
    public var countLimit = 0
    /// Whether the records' names have no scope, although the list is an account's.
    ///
    /// Default: no, they have the scope of the list.
    public var hasSharedNames = false

    /// Creates the query.
    public init(
        of collection: String,
        in scope: Identifier?,
        where conditions: [String: IndexKey] = [:],
        order: String? = nil,
        isDescending: Bool = false,
        after: RecordPosition? = nil,
        limit: Int,
        bytes: Int = .max,
        looks: Int = .max
    ) {
        self.collection = collection
        self.scope = scope
        self.conditions = conditions
        self.order = order
        self.isDescending = isDescending
        self.after = after
        self.limit = limit
        self.bytes = bytes
        self.looks = looks
    }

    /// A search for keys that begin with the same bytes.
    public struct Search: Hashable, Sendable {
        /// The name of the list.
        public var list: String
        /// The bytes with which keys begin.
        public var prefix: [UInt8]

        /// Creates a search.
        public init(in list: String, for prefix: [UInt8]) {
            self.list = list
            self.prefix = prefix
        }
    }

    /// The newest records of the authors that an account follows.
    public struct Timeline: Hashable, Sendable {
        /// The name of the list that has the records of each author in the order of their creation.
        public var list: String
        /// The list whose keys name the authors.
        public var follows: IndexList
        /// The maximum number of entries to read of that list.
        public var limit: Int
        /// An author in addition to those of the list; `nil` for none.
        public var own: RecordID?

        /// Creates the description.
        public init(in list: String, of follows: IndexList, limit: Int, own: RecordID? = nil) {
            self.list = list
            self.follows = follows
            self.limit = limit
            self.own = own
        }
    }

    /// Whether a position on the path belongs to the search; the positions after the first that
    /// does not are not examined.
    public func isWithin(_ position: RecordPosition) -> Bool {
        guard let search else { return true }
        return position.key?.bytes.starts(with: search.prefix) ?? false
    }

    /// The index that a driver follows, with the only key to read if there is one; `nil` to follow
    /// the ids of the collection.
    public var path: (list: IndexList, key: IndexKey?)? {
        if let search { return (IndexList(collection, in: scope, by: search.list), nil) }
        guard let field = order ?? conditions.keys.min() else { return nil }
        return (IndexList(collection, in: scope, by: field), conditions[field])
    }

    /// Returns the name of a record in the list.
    public func name(of id: RecordID) -> RecordName {
        RecordName(collection, in: hasSharedNames ? nil : scope, id)
    }

    /// Returns the other entries that a record on the path must have.
    public func entriesNeeded(by id: RecordID) -> [IndexEntry] {
        let field = path?.list.field
        return conditions.filter { $0.key != field }.map { other, key in
            IndexEntry(IndexList(collection, in: scope, by: other), key, id)
        }
    }
}

/// A position in a list of records: after a value, and among equal values after an id.
public struct RecordPosition: Hashable, Sendable {
    /// The value that the list is ordered by; `nil` for a list in the order of ids.
    public var key: IndexKey?
    /// The record's id.
    public var id: RecordID

    /// Creates the position.
    public init(_ key: IndexKey?, _ id: RecordID) {
        self.key = key
        self.id = id
    }
}

extension RecordPosition: Comparable {
    /// Orders by the key, then by the id.
    public static func < (lhs: RecordPosition, rhs: RecordPosition) -> Bool {
        guard let left = lhs.key, let right = rhs.key, left != right else { return lhs.id < rhs.id }
        return left < right
    }
}

/// A part of a list of records.
public struct RecordList: Hashable, Sendable {
    /// The records, in their order.
    public private(set) var records: [RecordRow] = []
    /// The last position examined if there is more to examine; `nil` otherwise.
    public private(set) var next: RecordPosition?
    /// The number of records of the whole list, if the query counts them.
    public var count: RecordCount?

    private let limit: Int
    private let bytes: Int
    private let looks: Int
    private var taken = 0
    private var looked = 0
    private var last: RecordPosition?

    /// Creates an empty part, to which a driver adds the records that it finds.
    public init(_ query: RecordQuery) {
        limit = max(1, query.limit)
        bytes = max(1, query.bytes)
        looks = max(1, query.looks)
    }

    /// Returns whether to examine the next record on the path; if not, the part is complete.
    public mutating func looksFurther() -> Bool {
        guard records.count < limit, taken < bytes, looked < looks else {
            next = last
            return false
        }
        return true
    }

    /// Adds an examined position, with its record, or with `nil` if the record does not belong to
    /// the list.
    public mutating func add(_ row: RecordRow?, at position: RecordPosition) {
        looked += 1
        last = position
        guard let row else { return }
        records.append(row)
        taken += row.value.count
    }
}

/// Counts the records of a list, up to a limit.
public struct RecordCount: Hashable, Sendable {
    /// The number of records found.
    public private(set) var number = 0
    /// Whether there are exactly that many; otherwise, at least.
    public private(set) var isExact = true

    private let limit: Int
    private let looks: Int
    private var looked = 0

    /// Starts counting at 0.
    public init(_ query: RecordQuery) {
        limit = query.countLimit
        looks = max(1, query.looks)
    }

    /// Returns whether to examine the next record on the path; if not, the count is complete.
    public mutating func looksFurther() -> Bool {
        isExact = number < limit && looked < looks
        return isExact
    }

    /// Adds an examined record, which may not belong to the list.
    public mutating func add(belongs: Bool) {
        looked += 1
        number += belongs ? 1 : 0
    }
}
