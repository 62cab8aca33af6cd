/// The id of a record: 1 to 128 characters of `A–Z a–z 0–9 - . _ ~ : @ $`.
///
/// Mostly a UUID that the app made. A record that several devices may make at the same time, such
/// as the log of one habit on one day, has an id that is derived from what it stands for, so that
/// all of them make the same one:
///
/// ```swift
/// let id = try RecordID(derivedFrom: habit, day)  // 0199f3c8-…:2026-11-21
/// ```
///
/// The characters are those that a URL's path and a query take unchanged (RFC 3986, `pchar`). `.`
/// and `..` are no ids: a path takes them away (section 5.2.4).
public struct RecordID: Hashable, Sendable {
    /// The id as it stands on the wire.
    public let text: String

    /// Creates an id from its text, or returns `nil` if it is none.
    public init?(_ text: some StringProtocol) {
        let text = String(text)
        guard WireLimits.recordIdCharacters.contains(text.utf8.count),
            text.utf8.allSatisfy(Self.isAllowed), text != ".", text != ".."
        else { return nil }
        self.text = text
    }

    /// Creates the id that is written like the UUID.
    public init(_ id: Identifier) { text = id.description }

    /// A new id, a UUIDv7 of the present moment, for a record that is about to be created.
    ///
    /// Make it before the mutation, and pass it in: a mutation runs more than once.
    public static func new() -> RecordID {
        let clock = SystemWallClock()  // An app's code calls this, as it would `UUID()`.
        return RecordID(Identifier(at: clock.now()))
    }

    /// Creates the id of what is told by these parts, in this order.
    ///
    /// Different parts make different ids: what a part has of other characters, and of colons, is
    /// escaped.
    ///
    /// - Throws: ``Refusal`` if there are no parts, or they are longer than an id may be.
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

    /// The id as it stands on the wire.
    public var description: String { text }

    /// Reads the text form.
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

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}

/// Names one record: its collection and its id.
public struct RecordKey: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The collection's name.
    public let collection: String
    /// The record's id in it.
    public let id: RecordID

    /// Creates the name.
    public init(_ collection: String, _ id: RecordID) {
        self.collection = collection
        self.id = id
    }

    /// Whether both have the same bytes.
    public static func == (lhs: RecordKey, rhs: RecordKey) -> Bool {
        lhs.id == rhs.id && lhs.collection.hasBytes(of: rhs.collection)
    }

    /// Adds the name to a hash in linear time: an operation may name any collection.
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

    /// Both parts, for logs and failures.
    public var description: String { "\(collection)/\(id)" }
}
