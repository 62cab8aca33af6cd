/// The id of a record: 1 to 128 characters of `A–Z a–z 0–9 - . _ ~ : @ $`.
///
/// It is usually a UUID that the app created. If several devices may create the same record at the
/// same time, such as the log of one habit on one day, its id is derived from its content, so that
/// all of them create the same one:
///
/// ```swift
/// let id = try RecordID(derivedFrom: habit, day)  // 0199f3c8-…:2026-11-21
/// ```
///
/// These characters appear unchanged in the path and the query of a URL (RFC 3986, `pchar`). `.`
/// and `..` are not allowed, because they are removed from a path (section 5.2.4).
public struct RecordID: Hashable, Sendable {
    /// The id in its text form.
    public let text: String

    /// Creates an id from its text, or returns `nil` if the text is not an id.
    public init?(_ text: some StringProtocol) {
        let text = String(text)
        guard WireLimits.recordIdCharacters.contains(text.utf8.count),
            text.utf8.allSatisfy(Self.isAllowed), text != ".", text != ".."
        else { return nil }
        self.text = text
    }

    /// Creates the id with the text of the UUID.
    public init(_ id: Identifier) { text = id.description }

    /// Creates a new id, a UUIDv7 of the current time, for a record that is about to be created.
    ///
    /// Create it before the mutation and pass it in, because a mutation runs more than once.
    public static func new() -> RecordID {
        let clock = SystemWallClock()  // Apps call this as they would call `UUID()`.
        return RecordID(Identifier(at: clock.now()))
    }

    /// Creates the id that the parts identify, in this order.
    ///
    /// Different parts result in different ids: other characters in a part, and colons, are
    /// escaped.
    ///
    /// - Throws: ``Refusal`` if there are no parts, or they exceed the length of an id.
    public init(derivedFrom parts: any CustomStringConvertible...) throws(Refusal) {
        let text = parts.map { Self.escaped($0.description) }.joined(separator: ":")
        guard let id = Self(text) else {
            throw Refusal(
                .invalidContent,
                "Derive record ids from parts of at most 128 characters together."
            )
        }
        self = id
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        isPlain(byte) || byte == UInt8(ascii: "~") || byte == UInt8(ascii: ":")
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "@"),
            UInt8(ascii: "$"):
            true
        default: false
        }
    }

    private static func escaped(_ part: String) -> String {
        guard !part.utf8.allSatisfy(isPlain) else { return part }
        var text = ""
        for byte in part.utf8 {
            if isPlain(byte) {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                text += "~"
                if byte < 16 { text += "0" }
                text += String(byte, radix: 16)
            }
        }
        return text
    }
}

extension RecordID: Comparable, CustomStringConvertible, Codable {
    /// Orders ids by their bytes, as databases do.
    public static func < (lhs: RecordID, rhs: RecordID) -> Bool {
        lhs.text.utf8.lexicographicallyPrecedes(rhs.text.utf8)
    }

    /// The id in its text form.
    public var description: String { text }

    /// Decodes the text form.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let id = RecordID(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: """
                    A record's id is 1 to 128 characters of A–Z a–z 0–9 -._~:@$, and not '.' or \
                    '..'.
                    """
            )
        }
        self = id
    }

    /// Encodes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}

/// Identifies a record by its collection and its id.
public struct RecordKey: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The collection's name.
    public let collection: String
    /// The record's id in the collection.
    public let id: RecordID

    /// Creates the key.
    public init(_ collection: String, _ id: RecordID) {
        self.collection = collection
        self.id = id
    }

    /// Returns whether both keys have the same bytes.
    public static func == (lhs: RecordKey, rhs: RecordKey) -> Bool {
        lhs.id == rhs.id && lhs.collection.hasBytes(of: rhs.collection)
    }

    /// Hashes the key in linear time; an operation may contain any name of a collection.
    public func hash(into hasher: inout Hasher) {
        collection.hashBytes(into: &hasher)
        hasher.combine(id)
    }

    /// Orders by collection, then by id.
    public static func < (lhs: RecordKey, rhs: RecordKey) -> Bool {
        lhs.collection.hasBytes(of: rhs.collection)
            ? lhs.id < rhs.id
            : lhs.collection.utf8.lexicographicallyPrecedes(rhs.collection.utf8)
    }

    /// Both parts, for logs and error messages.
    public var description: String { "\(collection)/\(id)" }
}
