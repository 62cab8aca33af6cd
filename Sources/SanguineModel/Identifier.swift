/// A UUID of version 7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits.
///
/// Accounts, holds, sessions and operations are identified by it. It is written in lower case and
/// read in either case. Later ids sort later, to the millisecond, which keeps database indexes
/// dense. Nothing else follows from the order, because the clocks of devices differ.
///
/// ```swift
/// let id = Identifier(at: clock.now())
/// print(id)  // 0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa
/// ```
public struct Identifier: Hashable, Sendable {
    // Big-endian halves, so that comparing them compares the bytes in order.
    private let high: UInt64
    private let low: UInt64

    /// Creates a new id.
    ///
    /// - Parameters:
    ///   - timestamp: The timestamp that the id contains. Times before 1970 count as 1970.
    ///   - random: The source of the 74 random bits.
    public init(at timestamp: Timestamp, using random: inout some RandomNumberGenerator) {
        let milliseconds = UInt64(max(0, timestamp.millisecondsSince1970)) & 0xFFFF_FFFF_FFFF
        high = milliseconds << 16 | 0x7000 | UInt64.random(in: 0...0xFFF, using: &random)
        low = 0x8000_0000_0000_0000 | random.next() >> 2
    }

    /// Creates a new id with the system's random number generator.
    public init(at timestamp: Timestamp) {
        var random = SystemRandomNumberGenerator()
        self.init(at: timestamp, using: &random)
    }

    /// Creates an id from its text form, or returns `nil` unless the text is a UUID of 36
    /// characters.
    ///
    /// The version is not checked: ids are only compared.
    public init?(_ text: some StringProtocol) {
        var halves: (UInt64, UInt64) = (0, 0)
        var digits = 0
        var position = 0
        for byte in text.utf8 {
            defer { position += 1 }
            if Self.hyphens.contains(position) {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            guard digits < 32, let value = Self.hexValue(of: byte) else { return nil }
            if digits < 16 {
                halves.0 = halves.0 << 4 | value
            } else {
                halves.1 = halves.1 << 4 | value
            }
            digits += 1
        }
        guard position == 36, digits == 32 else { return nil }
        (high, low) = halves
    }

    /// Creates an id from its 16 bytes, or returns `nil` if there are more or fewer.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        var halves: (UInt64, UInt64) = (0, 0)
        for (index, byte) in bytes.enumerated() {
            if index < 8 {
                halves.0 = halves.0 << 8 | UInt64(byte)
            } else {
                halves.1 = halves.1 << 8 | UInt64(byte)
            }
        }
        (high, low) = halves
    }

    /// Creates an id from 16 raw bytes, or returns `nil` if there are more or fewer.
    package init?(copying bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 16 else { return nil }
        high = UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self))
        low = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }

    /// Calls the closure with the 16 bytes, most significant first.
    package func withBytes<Value>(_ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        withUnsafeBytes(of: (high.bigEndian, low.bigEndian), body)
    }

    /// The 16 bytes, most significant first.
    public var bytes: [UInt8] {
        [UInt8](unsafeUninitializedCapacity: 16) { buffer, count in
            for index in 0..<8 {
                buffer[index] = UInt8(truncatingIfNeeded: high >> UInt64(56 - 8 * index))
                buffer[index + 8] = UInt8(truncatingIfNeeded: low >> UInt64(56 - 8 * index))
            }
            count = 16
        }
    }

    /// The timestamp that the id contains, according to the clock of the device that created it.
    ///
    /// It is meaningless unless the id has version 7.
    public var moment: Timestamp { Timestamp(millisecondsSince1970: Int64(high >> 16)) }

    private static let hyphens: Set<Int> = [8, 13, 18, 23]

    private static func hexValue(of byte: UInt8) -> UInt64? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt64(byte - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt64(byte - UInt8(ascii: "a") + 10)
        case UInt8(ascii: "A")...UInt8(ascii: "F"): UInt64(byte - UInt8(ascii: "A") + 10)
        default: nil
        }
    }
}

extension Identifier: CustomStringConvertible {
    /// The text form: 36 characters, lower case.
    public var description: String {
        String(unsafeUninitializedCapacity: 36) { buffer in
            var position = 0
            for digit in 0..<32 {
                if position == 8 || position == 13 || position == 18 || position == 23 {
                    buffer[position] = UInt8(ascii: "-")
                    position += 1
                }
                let half = digit < 16 ? high : low
                let value = UInt8(truncatingIfNeeded: half >> UInt64(60 - 4 * (digit & 15))) & 0xF
                buffer[position] =
                    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
                position += 1
            }
            return 36
        }
    }
}

extension Identifier: Comparable {
    /// Orders ids by their bytes, and so by their timestamps.
    public static func < (lhs: Identifier, rhs: Identifier) -> Bool {
        (lhs.high, lhs.low) < (rhs.high, rhs.low)
    }
}

extension Identifier: Codable {
    /// Decodes the text form.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let id = Identifier(text) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "An id is a UUID of 36 characters."
            )
        }
        self = id
    }

    /// Encodes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
