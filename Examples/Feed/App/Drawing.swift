public import Foundation
import Sanguine

/// A picture of colored areas that the app draws from a number, for users without a camera.
public struct Drawing: Sendable {
    private let seed: UInt64
    private let width: Int
    private let height: Int

    /// Creates a picture.
    ///
    /// - Parameters:
    ///   - seed: The number from which its colors follow.
    ///   - width: The width in pixels, at least 1.
    ///   - height: The height in pixels, at least 1.
    public init(_ seed: UInt64, width: Int = 600, height: Int = 400) {
        (self.seed, self.width, self.height) = (seed, max(1, width), max(1, height))
    }

    /// The picture, ready to be published.
    public var photo: Photo {
        // The areas are proportional to the picture, so a small one has the same placeholder.
        let small = Drawing(seed, width: min(width, 60), height: min(height, 40))
        return Photo(
            .data(png, type: "image/png"),
            placeholder: ThumbHash(width: small.width, height: small.height, rgba: small.rgba)
        )
    }

    /// Red, green, blue and opacity of each pixel.
    var rgba: [UInt8] {
        let palette = palette
        return (0..<height).flatMap { y in areas(ofRow: y).flatMap { palette[Int($0)] + [255] } }
    }

    /// The picture as a PNG file (W3C PNG, third edition) with a palette, without compression.
    public var png: Data {
        var bytes: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        let size = Self.big(UInt32(width)) + Self.big(UInt32(height))
        bytes += Self.chunk("IHDR", size + [8, 3, 0, 0, 0])
        bytes += Self.chunk("PLTE", palette.flatMap { $0 })
        // Each row begins with its filter: none.
        let rows = (0..<height).flatMap { y -> [UInt8] in [0] + areas(ofRow: y) }
        bytes += Self.chunk("IDAT", Self.stored(rows)) + Self.chunk("IEND", [])
        return Data(bytes)
    }

    /// The red, green and blue of each area.
    private var palette: [[UInt8]] { (0..<6).map { color(ofArea: $0) } }

    private func color(ofArea area: UInt64) -> [UInt8] {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        var hash = seed &* 6 &+ area &+ 1
        hash &*= 0x9E37_79B9_7F4A_7C15
        hash = (hash ^ hash >> 30) &* 0xBF58_476D_1CE4_E5B9
        hash = (hash ^ hash >> 27) &* 0x94D0_49BB_1331_11EB
        hash ^= hash >> 31
        return [0, 8, 16].map { UInt8(truncatingIfNeeded: hash >> UInt64($0)) }
    }

    /// Returns the number of the area of each pixel in a row: there are three, in two rows.
    private func areas(ofRow y: Int) -> [UInt8] {
        let first = UInt8(3 * (2 * y / height))
        return (0..<3).flatMap { column -> [UInt8] in
            let end = (column + 1) * width / 3
            return Array(repeating: first + UInt8(column), count: end - column * width / 3)
        }
    }

    // MARK: - PNG

    private static func big(_ number: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * UInt32($0))) }
    }

    private static func chunk(_ type: String, _ content: [UInt8]) -> [UInt8] {
        let checked = Array(type.utf8) + content
        return big(UInt32(content.count)) + checked + big(checksum(checked))
    }

    /// The CRC-32 of each byte (PNG, annex D).
    private static let checksums: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { sum, _ in sum & 1 == 0 ? sum >> 1 : sum >> 1 ^ 0xEDB8_8320 }
    }

    private static func checksum(_ bytes: [UInt8]) -> UInt32 {
        var sum = UInt32.max
        for byte in bytes { sum = checksums[Int(UInt8(truncatingIfNeeded: sum) ^ byte)] ^ sum >> 8 }
        return ~sum
    }

    /// Returns a zlib stream of the bytes without compression (RFC 1950 and 1951).
    private static func stored(_ bytes: [UInt8]) -> [UInt8] {
        var stream: [UInt8] = [0x78, 0x01]
        let most = Int(UInt16.max)
        for start in stride(from: 0, to: bytes.count, by: most) {
            let part = bytes[start..<min(bytes.count, start + most)]
            let length = UInt16(part.count)
            stream.append(part.endIndex == bytes.count ? 1 : 0)
            for number in [length, ~length] {
                stream += [UInt8(truncatingIfNeeded: number), UInt8(number >> 8)]
            }
            stream += part
        }
        var (low, high): (UInt32, UInt32) = (1, 0)
        for byte in bytes {
            low = (low + UInt32(byte)) % 65_521
            high = (high + low) % 65_521
        }
        return stream + big(high << 16 | low)
    }
}
