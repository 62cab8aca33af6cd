public import SanguineModel

/// Which records of a collection to list, and in which order.
public struct RecordQuery: Hashable, Sendable {
    /// The collection's name.
    public var collection: String
    /// The account whose records they are; `nil` for those of everyone.
    public var scope: Identifier?
    /// The values that indexed members must have.
    public var conditions: [String: IndexKey]
    /// The indexed member by which they are ordered; `nil` for their ids.
    public var order: String?
    /// Whether the largest comes first; of equal ones the largest id.
    public var isDescending: Bool
    /// Only what comes after this; `nil` from the first.
    public var after: RecordPosition?
    /// How many records at most.
    public var limit: Int
    /// After how many bytes of values the list ends.
    public var bytes: Int
    /// How many records are looked at at most, so that a rare value does not make a list slow.
    public var looks: Int

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

    /// The list along which a driver goes, and the one key at which it stays there; `nil` if it
    /// goes along the ids of the collection.
    public var path: (list: IndexList, key: IndexKey?)? {
        guard let field = order ?? conditions.keys.min() else { return nil }
        return (IndexList(collection, in: scope, by: field), conditions[field])
    }

    /// The entries that a record on the path must have besides.
    public func entriesNeeded(by id: RecordID) -> [IndexEntry] {
        let field = path?.list.field
        return conditions.filter { $0.key != field }.map { other, key in
            IndexEntry(IndexList(collection, in: scope, by: other), key, id)
        }
    }
}

/// A place in a list of records: after the value, and among equal ones after the id.
public struct RecordPosition: Hashable, Sendable {
    /// The value by which the list is ordered; `nil` if that is the id.
    public var key: IndexKey?
    /// The id.
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
    /// What was looked at last if there is more to look at, and `nil` otherwise.
    public private(set) var next: RecordPosition?

    private let limit: Int
    private let bytes: Int
    private let looks: Int
    private var taken = 0
    private var looked = 0
    private var last: RecordPosition?

    /// Creates the empty part, to which a driver adds what it finds.
    public init(_ query: RecordQuery) {
        limit = max(1, query.limit)
        bytes = max(1, query.bytes)
        looks = max(1, query.looks)
    }

    /// Whether the next record on the path is looked at; if not, the part is complete.
    public mutating func looksFurther() -> Bool {
        guard records.count < limit, taken < bytes, looked < looks else {
            next = last
            return false
        }
        return true
    }

    /// Takes note of what was looked at: the record, or `nil` if it does not belong to the list.
    public mutating func add(_ row: RecordRow?, at position: RecordPosition) {
        looked += 1
        last = position
        guard let row else { return }
        records.append(row)
        taken += row.value.count
    }
}
