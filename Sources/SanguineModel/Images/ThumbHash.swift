import Foundation

/// A placeholder for an image in 17 to 29 bytes: its colors, blurred, and its aspect ratio.
///
/// A record holds it next to the id of the image, so that a view shows the colors of the image in
/// its first frame, without a request.
///
/// ```swift
/// struct Post: SyncedRecord {
///     static let collection = Collection("posts")
///     let id: RecordID
///     var photo: String
///     var placeholder: ThumbHash
/// }
/// ```
///
/// In JSON it is a string in Base64. The format is that of
/// [ThumbHash](https://github.com/evanw/thumbhash): coefficients of a cosine transform of the
/// luminance, of two color differences and of the opacity, in four bits each.
public struct ThumbHash: Hashable, Sendable {
    /// The pixels of a decoded placeholder, row by row from the top.
    public struct Pixels: Hashable, Sendable {
        /// The width in pixels.
        public let width: Int
        /// The height in pixels.
        public let height: Int
        /// Red, green, blue and opacity of each pixel, 0 to 255, not premultiplied.
        public let rgba: [UInt8]
    }

    /// A color; each component is between 0 and 1, and not premultiplied.
    public struct Color: Hashable, Sendable {
        /// The red component.
        public let red: Double
        /// The green component.
        public let green: Double
        /// The blue component.
        public let blue: Double
        /// The opacity.
        public let opacity: Double
    }

    /// The largest width and height of an image that is encoded: 100 pixels.
    ///
    /// Scale larger images down first. More pixels would not change the result.
    public static let longestSide = 100

    /// The bytes of the placeholder.
    public let bytes: [UInt8]

    /// Creates a placeholder from its bytes; `nil` if they are not one.
    ///
    /// Bytes after the end of the placeholder are dropped.
    public init?(bytes: some Sequence<UInt8>) {
        let bytes = Array(bytes.prefix(Self.mostBytes))
        guard let layout = ThumbHashLayout(bytes), bytes.count >= layout.bytes else { return nil }
        self.bytes = Array(bytes.prefix(layout.bytes))
    }

    /// Creates a placeholder from Base64, as it is in JSON; `nil` if the text is not one.
    public init?(base64 text: String) {
        guard text.utf8.count <= 64, let data = Data(base64Encoded: text) else { return nil }
        self.init(bytes: data)
    }

    /// Computes the placeholder of an image; `nil` if a side is out of range, or if the pixels are
    /// not `width × height × 4` bytes.
    ///
    /// - Parameters:
    ///   - width: The width in pixels, 1 to ``longestSide``.
    ///   - height: The height in pixels, 1 to ``longestSide``.
    ///   - rgba: Red, green, blue and opacity of each pixel, 0 to 255, not premultiplied, row by row
    ///     from the top.
    public init?(width: Int, height: Int, rgba: [UInt8]) {
        let sides = 1...Self.longestSide
        guard sides.contains(width), sides.contains(height), rgba.count == width * height * 4
        else { return nil }
        bytes = ThumbHashEncoder(width: width, height: height, rgba: rgba).bytes
    }

    /// The bytes in Base64, as they are in JSON.
    public var base64: String { Data(bytes).base64EncodedString() }

    /// The approximate width of the image divided by its height, between 1/7 and 7.
    public var aspectRatio: Double {
        guard let layout = ThumbHashLayout(bytes) else { return 1 }
        return Double(layout.columns) / Double(layout.rows)
    }

    /// The average color of the image.
    public var averageColor: Color {
        guard let layout = ThumbHashLayout(bytes) else {
            return Color(red: 0, green: 0, blue: 0, opacity: 0)
        }
        return ThumbHashDecoder(bytes, layout).averageColor
    }

    /// Returns the pixels of the placeholder, whose longer side has 32 pixels.
    public func pixels() -> Pixels {
        guard let layout = ThumbHashLayout(bytes) else {
            return Pixels(width: 1, height: 1, rgba: [0, 0, 0, 0])
        }
        return ThumbHashDecoder(bytes, layout).pixels()
    }

    /// More than any placeholder has.
    private static let mostBytes = 40
}

extension ThumbHash: Codable {
    /// Decodes Base64.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let hash = try ThumbHash(base64: container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "Store a ThumbHash in Base64: this text is not one."
            )
        }
        self = hash
    }

    /// Encodes Base64.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(base64)
    }
}

/// The parts of a placeholder, by its first five bytes.
struct ThumbHashLayout {
    let hasAlpha: Bool
    let isLandscape: Bool
    /// The numbers that give the aspect ratio.
    let columns: Int
    let rows: Int

    /// Reads the header; `nil` if no image has such a one.
    init?(_ bytes: [UInt8]) {
        guard bytes.count >= 5 else { return nil }
        hasAlpha = bytes[2] & 0x80 != 0
        isLandscape = bytes[4] & 0x80 != 0
        let long = hasAlpha ? 5 : 7
        let short = Int(bytes[3] & 7)
        guard (1...long).contains(short) else { return nil }
        (columns, rows) = isLandscape ? (long, short) : (short, long)
    }

    /// The numbers of luminance coefficients in each direction.
    var luminance: (x: Int, y: Int) { (max(3, columns), max(3, rows)) }

    /// The index of the first byte with coefficients.
    var start: Int { hasAlpha ? 6 : 5 }

    /// The number of bytes of the whole placeholder.
    var bytes: Int {
        let (x, y) = luminance
        var count = Self.frequencies(x, y).count + 2 * Self.frequencies(3, 3).count
        if hasAlpha { count += Self.frequencies(5, 5).count }
        return start + (count + 1) / 2
    }

    /// Returns the frequencies of a channel in the order of their coefficients, without the constant
    /// one.
    static func frequencies(_ countX: Int, _ countY: Int) -> [(x: Int, y: Int)] {
        var all: [(x: Int, y: Int)] = []
        for y in 0..<countY {
            var x = y == 0 ? 1 : 0
            while x * countY < countX * (countY - y) {
                all.append((x, y))
                x += 1
            }
        }
        return all
    }
}
