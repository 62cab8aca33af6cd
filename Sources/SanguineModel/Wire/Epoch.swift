/// Identifies the history of a database that the numbers of its feeds belong to.
///
/// Restoring a copy of a database changes its epoch, because its feeds then reuse numbers for other
/// changes. Numbers of different epochs cannot be compared.
///
/// The text is opaque to clients. It has 1 to ``largestCount`` letters, digits, `-` or `_`.
public struct Epoch: Hashable, Sendable {
    /// The text form.
    public let text: String

    /// The maximum number of characters in the text.
    public static let largestCount = 64

    /// Creates an epoch from a received text, or returns `nil` if the text is not an epoch.
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
    /// Decodes the text.
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

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}

extension Epoch: CustomStringConvertible {
    /// The text.
    public var description: String { text }
}

/// A position in a feed: a number, and the epoch that it belongs to.
///
/// On the wire it is `<epoch>.<number>`, or only the number if the epoch is not known.
public struct FeedMark: Hashable, Sendable {
    /// The epoch, or `nil` if it is not known.
    public var epoch: Epoch?
    /// The number.
    public var number: Int64

    /// Creates a position.
    public init(epoch: Epoch? = nil, number: Int64) {
        self.epoch = epoch
        self.number = number
    }

    /// Parses a position from its text form, or returns `nil` if the text is not a position.
    public init?(_ text: some StringProtocol) {
        var digits = text[...]
        // Search bytes: characters would be normalized, in time quadratic in the number of their
        // marks.
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
    /// The text form.
    public var description: String { epoch.map { "\($0).\(number)" } ?? "\(number)" }
}
