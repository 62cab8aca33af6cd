// Reading a file that anybody may have made: past its end there is `nil`, and never a trap.
extension [UInt8] {
    /// The number of so many bytes, 1 to 8, with the highest one first; `nil` also for one that is
    /// larger than an `Int`.
    func big(_ offset: Int, _ width: Int) -> Int? {
        guard has(width, at: offset) else { return nil }
        var number: UInt64 = 0
        for byte in self[offset..<offset + width] { number = number << 8 | UInt64(byte) }
        return Int(exactly: number)
    }

    /// The number of so many bytes, 1 to 8, with the lowest one first; `nil` also for one that is
    /// larger than an `Int`.
    func little(_ offset: Int, _ width: Int) -> Int? {
        guard has(width, at: offset) else { return nil }
        var number: UInt64 = 0
        for byte in self[offset..<offset + width].reversed() { number = number << 8 | UInt64(byte) }
        return Int(exactly: number)
    }

    /// Four bytes that name something, if all of them are printable ASCII.
    func text(at offset: Int) -> String? {
        guard has(4, at: offset) else { return nil }
        let bytes = self[offset..<offset + 4]
        guard bytes.allSatisfy({ (0x20...0x7E).contains($0) }) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Whether these bytes stand there.
    func has(_ text: StaticString, at offset: Int) -> Bool {
        guard has(text.utf8CodeUnitCount, at: offset) else { return false }
        return text.withUTF8Buffer { self[offset..<offset + $0.count].elementsEqual($0) }
    }

    private func has(_ width: Int, at offset: Int) -> Bool {
        width > 0 && offset >= 0 && offset <= count - width
    }
}

extension Int {
    /// The number as so many bytes, the lowest one first.
    func little(_ width: Int) -> [UInt8] {
        (0..<width).map { UInt8(truncatingIfNeeded: self >> (8 * $0)) }
    }

    /// The number as so many bytes, the highest one first.
    func big(_ width: Int) -> [UInt8] { little(width).reversed() }
}

/// How large an image is, in pixels.
struct PixelSize: Hashable {
    let width: Int
    let height: Int

    /// `nil` for an image of no pixels, and for one that no file could have.
    init?(_ width: Int?, _ height: Int?) {
        guard let width, let height, width > 0, height > 0, width <= UInt32.max,
            height <= UInt32.max
        else { return nil }
        self.width = width
        self.height = height
    }

    /// All pixels, or the largest number.
    var pixels: Int {
        let (pixels, overflow) = width.multipliedReportingOverflow(by: height)
        return overflow ? .max : pixels
    }

    /// Whether another one has room in it.
    func holds(_ other: PixelSize) -> Bool { other.width <= width && other.height <= height }
}
