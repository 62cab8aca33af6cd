import Crypto

/// Identifies a stored file by the SHA-256 of its bytes.
public struct BlobID: Hashable, Sendable {
    /// The 32 bytes of the hash.
    public let bytes: [UInt8]

    /// Computes the id of the content.
    public init(of content: [UInt8]) { bytes = Array(SHA256.hash(data: content)) }

    fileprivate init(_ hash: SHA256) { bytes = Array(hash.finalize()) }

    /// Creates an id from the bytes of a hash, or returns `nil` if they are not 32.
    public init?(bytes: [UInt8]) {
        guard bytes.count == SHA256.byteCount else { return nil }
        self.bytes = bytes
    }

    /// Parses 64 lowercase hexadecimal digits; returns `nil` for anything else.
    public init?(_ text: String) {
        let digits = Array(text.utf8)
        guard digits.count == 2 * SHA256.byteCount else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = Self.value(digits[index]), let low = Self.value(digits[index + 1])
            else { return nil }
            bytes.append(high << 4 | low)
        }
        self.bytes = bytes
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}

/// Computes the id of content that arrives in pieces.
package struct BlobHash {
    private var hash = SHA256()

    package init() {}

    package mutating func add(_ bytes: [UInt8]) { hash.update(data: bytes) }

    /// The id of the bytes added so far.
    package var id: BlobID { BlobID(hash) }
}

extension BlobID: CustomStringConvertible {
    /// The id as 64 lowercase hexadecimal digits.
    public var description: String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        for byte in bytes { text += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
        return String(decoding: text, as: UTF8.self)
    }
}

extension BlobID: Comparable {
    /// Orders by the bytes, which is the order of the digits.
    public static func < (lhs: BlobID, rhs: BlobID) -> Bool {
        lhs.bytes.lexicographicallyPrecedes(rhs.bytes)
    }
}
