/// How large JSON from outside may be in structure, whatever its bytes.
///
/// Decoding any JSON costs the third power of its depth, and microseconds a value: without a limit
/// a kilobyte of brackets keeps a core busy for seconds, and needs no token to do so.
package enum JSONBounds {
    /// How deep values may nest.
    package static let nesting = 32
    /// Values, with their names.
    package static let values = 2_000
    /// Values of a push, whose operations share one body: a hundred for each.
    package static let pushedValues = 10_000

    /// Whether the text keeps to ``nesting`` and has at most so many values.
    ///
    /// Counts what separates values, outside of strings; says nothing else about the form.
    package static func hold(for bytes: UnsafeRawBufferPointer, values: Int = values) -> Bool {
        var (depth, count, isInString, isEscaped) = (0, 0, false, false)
        for byte in bytes {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "["), UInt8(ascii: "{"): (depth, count) = (depth + 1, count + 1)
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            case UInt8(ascii: ","), UInt8(ascii: ":"): count += 1
            default: break
            }
            if depth > nesting || count > values { return false }
        }
        return true
    }
}
