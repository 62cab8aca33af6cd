// Reads files of unknown origin: a read past the end returns `nil`, and never traps.
extension [UInt8] {
    /// Returns the big-endian number of `width` bytes, 1 to 8; `nil` also if it exceeds `Int`.
    func big(_ offset: Int, _ width: Int) -> Int? {
        guard has(width, at: offset) else { return nil }
        var number: UInt64 = 0
        for byte in self[offset..<offset + width] { number = number << 8 | UInt64(byte) }
        return Int(exactly: number)
    }

    /// Returns the little-endian number of `width` bytes, 1 to 8; `nil` also if it exceeds `Int`.
    func little(_ offset: Int, _ width: Int) -> Int? {
        guard has(width, at: offset) else { return nil }
        var number: UInt64 = 0
        for byte in self[offset..<offset + width].reversed() { number = number << 8 | UInt64(byte) }
        return Int(exactly: number)
    }

    /// Returns four bytes as text, if all of them are printable ASCII.
    func text(at offset: Int) -> String? {
        guard has(4, at: offset) else { return nil }
        let bytes = self[offset..<offset + 4]
        guard bytes.allSatisfy({ (0x20...0x7E).contains($0) }) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Whether the text is at the offset.
    func has(_ text: StaticString, at offset: Int) -> Bool {
        guard has(text.utf8CodeUnitCount, at: offset) else { return false }
        return text.withUTF8Buffer { self[offset..<offset + $0.count].elementsEqual($0) }
    }

    private func has(_ width: Int, at offset: Int) -> Bool {
        width > 0 && offset >= 0 && offset <= count - width
    }
}

extension Int {
    /// Returns the number as `width` bytes, lowest first.
    func little(_ width: Int) -> [UInt8] {
        (0..<width).map { UInt8(truncatingIfNeeded: self >> (8 * $0)) }
    }

    /// Returns the number as `width` bytes, highest first.
    func big(_ width: Int) -> [UInt8] { little(width).reversed() }
}

/// The size of an image in pixels.
struct PixelSize: Hashable {
    let width: Int
    let height: Int

    /// Returns `nil` for an empty image, and for a side that exceeds 32 bits.
    init?(_ width: Int?, _ height: Int?) {
        guard let width, let height, width > 0, height > 0, width <= UInt32.max,
            height <= UInt32.max
        else { return nil }
        self.width = width
        self.height = height
    }

    /// The number of pixels, or `Int.max` if it overflows.
    var pixels: Int {
        let (pixels, overflow) = width.multipliedReportingOverflow(by: height)
        return overflow ? .max : pixels
    }

    /// Whether another size fits into this one.
    func holds(_ other: PixelSize) -> Bool { other.width <= width && other.height <= height }
}
