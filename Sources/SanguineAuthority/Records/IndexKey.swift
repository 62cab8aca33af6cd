public import SanguineModel

/// The value of an indexed member, as bytes that are ordered like the values.
///
/// Missing comes first, also for arrays and objects; then `null`, `false`, `true`, numbers by their
/// size, and texts by their UTF-8. Equal numbers have equal keys, with or without a fraction.
public struct IndexKey: Hashable, Sendable, Comparable {
    /// The bytes, at most ``limit``, and one more for a text that is too long.
    public let bytes: [UInt8]

    /// Bytes of a key at most: one for the kind, 512 for a text or a number.
    public static let limit = 513

    /// Creates the key at which a record is found.
    ///
    /// A text that is too long stands by its beginning, after all texts that are no longer than
    /// that, with others that begin alike; no list can ask for this key. A number with too many
    /// digits stands with the missing values. Neither is refused: a record may be older than the
    /// index, and must stay editable.
    init(ofStored value: JSONValue?) {
        if let key = IndexKey(value) {
            self = key
        } else if case .string(let text)? = value {
            bytes = [5] + text.utf8.prefix(Self.limit - 1) + [255]
        } else {
            bytes = [0]
        }
    }

    /// Creates the key of a member, or returns `nil` for a text or a number of too many bytes.
    public init?(_ value: JSONValue?) {
        switch value {
        case nil, .array, .object: bytes = [0]
        case .null: bytes = [1]
        case .bool(let bool): bytes = [bool ? 3 : 2]
        case .integer(let integer): bytes = Self.bytes(Double(integer), Self.rest(of: integer))
        case .number(let number): bytes = Self.bytes(number, 0)
        case .decimal(let decimal):
            let digits = decimal.digits
            bytes = Self.bytes(of: digits)
            guard bytes.count <= Self.limit else { return nil }
        case .string(let text):
            guard text.utf8.count < Self.limit else { return nil }
            bytes = [5] + text.utf8
        }
    }

    /// Creates a key from bytes that one had.
    public init(bytes: [UInt8]) { self.bytes = bytes }

    /// Orders by the bytes, as databases do.
    public static func < (lhs: IndexKey, rhs: IndexKey) -> Bool {
        lhs.bytes.lexicographicallyPrecedes(rhs.bytes)
    }

    // Doubles are ordered like their bits if those of negative ones are all turned over, and the
    // sign of the others. What an integer has beyond its double decides among those that share one.
    private static func bytes(_ number: Double, _ rest: Int64) -> [UInt8] {
        let bits = (number == 0 ? 0 : number).bitPattern
        let high = bits >> 63 == 0 ? bits | 1 << 63 : ~bits
        let low = UInt64(bitPattern: rest) ^ 1 << 63
        return [4]
            + [high, low].flatMap { word in
                (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) }
            }
    }

    // A number with more digits comes behind the integer or the double below it. Those that share
    // both are ordered by their digits, of which a negative one has the complements.
    private static func bytes(of digits: DecimalDigits) -> [UInt8] {
        let number = Double(digits.text) ?? 0
        let rest: Int64
        if let floor = digits.floor, let near = Int64(exactly: number) {
            rest = floor - near
        } else if number == -0x1p63 {
            rest = -1  // Below the smallest integer, which has no rest.
        } else {
            rest = digits < DecimalDigits(number) ? -1 : 1
        }
        let point = UInt32(bitPattern: Int32(digits.point)) ^ 1 << 31
        let tail =
            (0..<4).map { UInt8(truncatingIfNeeded: point >> UInt32(24 - 8 * $0)) }
            + digits.digits
        return bytes(number, rest) + (digits.isNegative ? tail.map { ~$0 } + [0xFF] : tail)
    }

    private static func rest(of integer: Int64) -> Int64 {
        let number = Double(integer)
        // 2⁶³ itself is no Int64.
        guard let near = Int64(exactly: number) else { return integer - .max - 1 }
        return integer - near
    }
}

/// Where a record is found by the value of a member.
public struct IndexEntry: Hashable, Sendable {
    /// The list in which it is found.
    public let list: IndexList
    /// The member's value.
    public let key: IndexKey
    /// The record's id.
    public let id: RecordID

    /// Creates the entry.
    public init(_ list: IndexList, _ key: IndexKey, _ id: RecordID) {
        self.list = list
        self.key = key
        self.id = id
    }
}

/// The records of a collection in the order of a member's values, and then of their ids.
public struct IndexList: Hashable, Sendable {
    /// The collection's name.
    public let collection: String
    /// An account, for its records alone; `nil` for those of everyone.
    public let scope: Identifier?
    /// The member.
    public let field: String

    /// Creates the name of the list.
    public init(_ collection: String, in scope: Identifier?, by field: String) {
        self.collection = collection
        self.scope = scope
        self.field = field
    }
}

extension RecordCollection {
    /// Where a record of the collection is found, by all indexes.
    ///
    /// A record that everyone may read stands in two lists: everyone's, and its owner's, in which
    /// record mutations look.
    func entries(
        of id: RecordID,
        owner: Identifier,
        _ fields: RecordFields
    ) -> Set<IndexEntry> {
        Set(indexes.flatMap { entries(of: id, owner: owner, fields, by: $0) })
    }

    /// Where a record of the collection is found by one index.
    func entries(
        of id: RecordID,
        owner: Identifier,
        _ fields: RecordFields,
        by field: String
    ) -> [IndexEntry] {
        let key = IndexKey(ofStored: fields[field])
        let scopes = access == .everyone ? [owner, nil] : [owner]
        return scopes.map { IndexEntry(IndexList(name, in: $0, by: field), key, id) }
    }

    /// The scope of the names of an account's records.
    func scope(of account: Identifier) -> Identifier? { access == .owner ? account : nil }
}
