/// Escapes in strings, which encode characters as UTF-16 (RFC 8259).
extension JSONParser {
    mutating func unicodeEscape(to text: inout [UInt8]) throws(Fault) {
        var value = UInt32(try codeUnit())
        if value & 0xFC00 == 0xD800 {
            if let low = try lowSurrogate() {
                value = 0x1_0000 + (value & 0x3FF) << 10 + low & 0x3FF
            } else {
                value = try replacement()
            }
        } else if value & 0xFC00 == 0xDC00 {
            value = try replacement()  // The second half of a pair without the first.
        }
        switch value {
        case 0..<0x80:
            text.append(UInt8(value))
        case 0x80..<0x800:
            text.append(0xC0 | UInt8(value >> 6))
            text.append(0x80 | UInt8(value & 0x3F))
        case 0x800..<0x1_0000:
            text.append(0xE0 | UInt8(value >> 12))
            text.append(0x80 | UInt8(value >> 6 & 0x3F))
            text.append(0x80 | UInt8(value & 0x3F))
        default:
            text.append(0xF0 | UInt8(value >> 18))
            text.append(0x80 | UInt8(value >> 12 & 0x3F))
            text.append(0x80 | UInt8(value >> 6 & 0x3F))
            text.append(0x80 | UInt8(value & 0x3F))
        }
    }

    /// Parses the second half of a pair, or returns `nil` and stays in position if there is none.
    private mutating func lowSurrogate() throws(Fault) -> UInt32? {
        let start = index
        if take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) {
            let low = UInt32(try codeUnit())
            if low & 0xFC00 == 0xDC00 { return low }
        }
        if limits.isTolerant { index = start }
        return nil
    }

    /// Returns the replacement character for half of a pair.
    private mutating func replacement() throws(Fault) -> UInt32 {
        guard limits.isTolerant else { throw malformed }
        isApproximate = true
        return 0xFFFD
    }

    private mutating func codeUnit() throws(Fault) -> UInt16 {
        guard index + 4 <= bytes.count else { throw malformed }
        var unit: UInt16 = 0
        for _ in 0..<4 {
            let byte = bytes[index]
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte - UInt8(ascii: "A") + 10
            default: throw malformed
            }
            unit = unit << 4 | UInt16(digit)
            index += 1
        }
        return unit
    }
}
