/// The bytes of a file of unknown origin: a read past the end returns `nil`, and never traps.
protocol FileBytes {
    /// The number of bytes; their offsets begin with 0.
    var count: Int { get }
    /// The byte at an offset, which is known to be in the file.
    subscript(offset: Int) -> UInt8 { get }
}

extension [UInt8]: FileBytes {}
extension UnsafeRawBufferPointer: FileBytes {}

extension FileBytes {
    /// Returns the big-endian number of `width` bytes, 1 to 8; `nil` also if it exceeds `Int`.
    func big(_ offset: Int, _ width: Int) -> Int? {
        guard has(width, at: offset) else { return nil }
        var number: UInt64 = 0
        for index in offset..<offset + width { number = number << 8 | UInt64(self[index]) }
        return Int(exactly: number)
    }

    /// Returns the little-endian number of `width` bytes, 1 to 8; `nil` also if it exceeds `Int`.
    func little(_ offset: Int, _ width: Int) -> Int? {
        guard has(width, at: offset) else { return nil }
        var number: UInt64 = 0
        for index in (offset..<offset + width).reversed() {
            number = number << 8 | UInt64(self[index])
        }
        return Int(exactly: number)
    }

    /// Returns four bytes as text, if all of them are printable ASCII.
    func text(at offset: Int) -> String? {
        guard has(4, at: offset) else { return nil }
        let bytes = (offset..<offset + 4).map { self[$0] }
        guard bytes.allSatisfy({ (0x20...0x7E).contains($0) }) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Whether the text is at the offset.
    func has(_ text: StaticString, at offset: Int) -> Bool {
        text.withUTF8Buffer { has($0, at: offset) }
    }

    /// Whether the bytes are at the offset.
    func has(_ bytes: some Collection<UInt8>, at offset: Int) -> Bool {
        guard has(bytes.count, at: offset) else { return false }
        return zip(bytes, offset...).allSatisfy { self[$1] == $0 }
    }

    private func has(_ width: Int, at offset: Int) -> Bool {
        width > 0 && offset >= 0 && offset <= count - width
    }
}

extension Int {
    /// Returns the number as `width` bytes, highest first.
    func big(_ width: Int) -> [UInt8] {
        (0..<width).reversed().map { UInt8(truncatingIfNeeded: self >> (8 * $0)) }
    }
}
