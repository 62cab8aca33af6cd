public import SanguineModel

/// The value of an indexed member, encoded as bytes that sort like the values.
///
/// Missing values come first, as do arrays and objects; then `null`, `false`, `true`, numbers by
/// value, and strings by their UTF-8. Equal numbers have equal keys, with or without a fraction.
public struct IndexKey: Hashable, Sendable, Comparable {
    /// The bytes: at most ``limit``, and one more if they are only the beginning of a longer
    /// string.
    public let bytes: [UInt8]

    /// The largest size of a key in bytes: one for the kind, 512 for a string or a number.
    public static let limit = 513

    /// Creates the key that an index has for a value.
    ///
    /// A string that is too long is indexed by its beginning, together with others that begin in
    /// the same way, and after the string that consists of only this beginning; no list can ask for
    /// this key. A number with too many digits is indexed as missing. Neither is refused, because a
    /// record may be older than the index and must stay editable.
    init(ofStored value: JSONValue?) {
        if let key = IndexKey(value) {
            self = key
        } else if case .string(let text)? = value {
            bytes = [5] + text.utf8.prefix(Self.limit - 1) + [255]
        } else {
            bytes = [0]
        }
    }

    /// Creates the key of a value, or returns `nil` for a string or a number that is too long.
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

    /// Creates the key of a file in the index of a member that names files.
    init(of blob: BlobID) { bytes = blob.bytes }

    /// Creates a key from stored bytes.
    public init(bytes: [UInt8]) { self.bytes = bytes }

    /// Orders by the bytes, as databases do.
    public static func < (lhs: IndexKey, rhs: IndexKey) -> Bool {
        lhs.bytes.lexicographicallyPrecedes(rhs.bytes)
    }

    // Doubles sort like their bits if all bits of negative ones and the sign bit of the others are
    // inverted. Integers with the same nearest double sort by their difference from it.
    private static func bytes(_ number: Double, _ rest: Int64) -> [UInt8] {
        let bits = (number == 0 ? 0 : number).bitPattern
        let high = bits >> 63 == 0 ? bits | 1 << 63 : ~bits
        let low = UInt64(bitPattern: rest) ^ 1 << 63
        return [4]
            + [high, low].flatMap { word in
                (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) }
            }
    }

    // A number with more digits follows the integer or the double below it. Numbers that share both
    // sort by their digits; those of a negative number are complemented.
    private static func bytes(of digits: DecimalDigits) -> [UInt8] {
        let number = Double(digits.text) ?? 0
        let rest: Int64
        if let floor = digits.floor, let near = Int64(exactly: number) {
            rest = floor - near
        } else if number == -0x1p63 {
            rest = -1  // Less than the smallest integer, whose rest is 0.
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
        // 2⁶³ itself is not an Int64.
        guard let near = Int64(exactly: number) else { return integer - .max - 1 }
        return integer - near
    }
}

/// An entry of an index: a record and its value of the member.
public struct IndexEntry: Hashable, Sendable {
    /// The list that contains the entry.
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

/// The records of a collection, ordered by the values of a member and then by id.
public struct IndexList: Hashable, Sendable {
    /// The collection's name.
    public let collection: String
    /// The account whose records are listed; `nil` for the list that everyone may read.
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
