/// Which history of a database a number of a feed belongs to.
///
/// A database has another epoch after a copy of it was restored: its feeds then give numbers again
/// that they had given before, for other changes. Numbers of different epochs are not compared.
///
/// The text is opaque to readers. It has 1 to ``largestCount`` letters, digits, `-` or `_`.
public struct Epoch: Hashable, Sendable {
    /// The epoch as it travels.
    public let text: String

    /// The number of characters that a text may have.
    public static let largestCount = 64

    /// Creates an epoch from a text that was received; `nil` for a text that is none.
    public init?(_ text: some StringProtocol) {
        let bytes = text.utf8
        guard (1...Self.largestCount).contains(bytes.prefix(Self.largestCount + 1).count),
            bytes.allSatisfy(Self.isAllowed)
        else { return nil }
        self.text = String(text)
    }

    private init(random number: UInt64) {
        let digits = String(number, radix: 16)
        text = String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Creates an epoch that no other database has.
    public static func random() -> Epoch { Epoch(random: .random(in: .min ... .max)) }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}

extension Epoch: Codable {
    /// Reads the text.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let epoch = Epoch(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "An epoch has 1 to 64 letters, digits, '-' or '_'."
            )
        }
        self = epoch
    }

    /// Writes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}

extension Epoch: CustomStringConvertible {
    /// The text.
    public var description: String { text }
}

/// A place in a feed: a number, and the epoch to which it belongs.
///
/// On the wire `<epoch>.<number>`, or only the number where the epoch is not known.
public struct FeedMark: Hashable, Sendable {
    /// The epoch; `nil` if it is not known.
    public var epoch: Epoch?
    /// The number.
    public var number: Int64

    /// Creates a place.
    public init(epoch: Epoch? = nil, number: Int64) {
        self.epoch = epoch
        self.number = number
    }

    /// Reads a place as it travels; `nil` for a text that is none.
    public init?(_ text: some StringProtocol) {
        var digits = text[...]
        // Bytes: characters would be normalized, in time that grows with the square of their marks.
        if let dot = text.utf8.firstIndex(of: UInt8(ascii: ".")) {
            guard let epoch = Epoch(text[..<dot]) else { return nil }
            self.epoch = epoch
            digits = text[text.utf8.index(after: dot)...]
        }
        guard let number = Int64(digits), number >= 0 else { return nil }
        self.number = number
    }
}

extension FeedMark: CustomStringConvertible {
    /// The place as it travels.
    public var description: String { epoch.map { "\($0).\(number)" } ?? "\(number)" }
}
