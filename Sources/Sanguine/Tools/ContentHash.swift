import Foundation

/// FNV-1a with 64 bits, over eight bytes at a time.
///
/// It detects damage and tells contents of one user apart. It does not protect against a forger.
enum ContentHash {
    /// The usual seed.
    static let seed: UInt64 = 0xCBF2_9CE4_8422_2325
    /// The seed of a second hash of the same bytes.
    static let otherSeed: UInt64 = 0x9AE1_6A3B_2F90_404F

    /// Returns the hash of bytes; with the hash of earlier bytes as its seed, that of all of them.
    static func hash(_ data: Data, _ seed: UInt64 = seed) -> UInt64 {
        data.withUnsafeBytes { bytes in
            var (hash, offset) = (seed, 0)
            while offset + 8 <= bytes.count {
                let word = bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
                hash = (hash ^ word) &* 0x0000_0100_0000_01B3
                // Also mixes high bits into the low ones.
                hash ^= hash >> 32
                offset += 8
            }
            for byte in bytes[offset...] { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
            return hash ^ UInt64(bytes.count)
        }
    }

    /// Returns 16 hexadecimal digits.
    static func hex(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
