extension UnsafeBufferPointer<UInt8> {
    /// Returns the index of the first byte from `start` that a JSON string must escape: a quotation
    /// mark, a backslash or a control character; `count` if there is none.
    ///
    /// Reads eight bytes at a time.
    func endOfPlainText(from start: Int) -> Int {
        var index = start
        while let word = word(at: index), !word.hasEscape { index += 8 }
        while index < count, !Self.mustEscape(self[index]) { index += 1 }
        return index
    }

    /// Whether all bytes are ASCII characters.
    var isASCII: Bool {
        var index = 0
        while let word = word(at: index) {
            guard word & UInt64(repeating: 0x80) == 0 else { return false }
            index += 8
        }
        return self[index...].allSatisfy { $0 < 0x80 }
    }

    /// Returns the bytes as a string; `nil` if they are not valid UTF-8.
    ///
    /// `String(validating:as:)` spends most of its time on instantiating generic metadata.
    func text() -> String? {
        var text = String(decoding: self, as: UTF8.self)
        if isASCII { return text }
        // Decoding repairs invalid bytes, which changes them.
        let isValid = text.withUTF8 { decoded in
            decoded.count == count && decoded.elementsEqual(self)
        }
        return isValid ? text : nil
    }

    private func word(at index: Int) -> UInt64? {
        guard index + 8 <= count, let baseAddress else { return nil }
        return UnsafeRawPointer(baseAddress).loadUnaligned(fromByteOffset: index, as: UInt64.self)
    }

    /// Whether a JSON string must escape the byte.
    private static func mustEscape(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }
}

// The tests of all bytes of a word at once are from "Bit Twiddling Hacks" by Sean Anderson.
extension UInt64 {
    fileprivate init(repeating byte: UInt8) { self = 0x0101_0101_0101_0101 &* UInt64(byte) }

    /// Whether one of the eight bytes must be escaped.
    fileprivate var hasEscape: Bool {
        let isControl = self &- UInt64(repeating: 0x20) & ~self
        let quotation = self ^ UInt64(repeating: UInt8(ascii: "\""))
        let backslash = self ^ UInt64(repeating: UInt8(ascii: "\\"))
        let found = isControl | quotation.zeroBytes | backslash.zeroBytes
        return found & UInt64(repeating: 0x80) != 0
    }

    /// A word whose highest bits of bytes are set if one of the bytes is zero.
    private var zeroBytes: UInt64 { self &- UInt64(repeating: 1) & ~self }
}
