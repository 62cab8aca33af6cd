/// Reads a text in parts: the members that a caller names are read, and others are skipped without
/// being built.
extension JSONParser {
    /// Reads a text that contains one value.
    ///
    /// The limits are those of ``Limits/tolerant``, with any depth.
    ///
    /// - Parameters:
    ///   - bytes: The text, in UTF-8.
    ///   - read: Reads the value, all of it.
    /// - Returns: The result of `read`.
    /// - Throws: The error of `read`, or a ``Fault`` if something follows the value.
    package static func read<Value>(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ read: (inout JSONParser) throws(Fault) -> Value
    ) throws(Fault) -> Value {
        var limits = Limits.tolerant
        (limits.nesting, limits.longNames) = (.max, .taken)
        var parser = JSONParser(bytes, limits)
        parser.skipSpace()
        let value = try read(&parser)
        parser.skipSpace()
        guard parser.peek() == nil else { throw parser.malformed }
        return value
    }

    /// Reads the members of an object in order.
    ///
    /// - Parameter member: Reads the value of the member with this name, all of it.
    /// - Returns: `false` if the next value is not an object; then nothing is read.
    /// - Throws: The error of `member`, or a ``Fault``.
    package mutating func members(
        _ member: (inout JSONParser, String) throws(Fault) -> Void
    ) throws(Fault) -> Bool {
        guard peek() == UInt8(ascii: "{") else { return false }
        try begin()
        try object(member)
        return true
    }

    /// Reads the elements of an array in order.
    ///
    /// - Parameter element: Reads one element, all of it.
    /// - Returns: `false` if the next value is not an array; then nothing is read.
    /// - Throws: The error of `element`, or a ``Fault``.
    package mutating func elements(
        _ element: (inout JSONParser) throws(Fault) -> Void
    ) throws(Fault) -> Bool {
        guard peek() == UInt8(ascii: "[") else { return false }
        try begin()
        try array(element)
        return true
    }

    /// Reads a value that is a string, a number, `true`, `false` or `null`; returns `nil`, and
    /// skips the value, if it is an object or array.
    package mutating func scalar() throws(Fault) -> JSONValue? {
        switch peek() {
        case UInt8(ascii: "["), UInt8(ascii: "{"):
            _ = try skipValue()
            return nil
        default: return try value()
        }
    }

    /// Skips a value and checks its syntax, at any depth.
    ///
    /// - Returns: The range of the value in the text.
    package mutating func skipValue() throws(Fault) -> Range<Int> {
        let start = position
        // The closing bytes of the containers that are open: a nested call per container would
        // overflow the stack.
        var open: [UInt8] = []
        repeat {
            skipSpace()
            switch peek() {
            case UInt8(ascii: "{"):
                _ = consume(UInt8(ascii: "{"))
                skipSpace()
                guard consume(UInt8(ascii: "}")) else {
                    open.append(UInt8(ascii: "}"))
                    try skipName()
                    continue
                }
            case UInt8(ascii: "["):
                _ = consume(UInt8(ascii: "["))
                skipSpace()
                guard consume(UInt8(ascii: "]")) else {
                    open.append(UInt8(ascii: "]"))
                    continue
                }
            case UInt8(ascii: "\""): _ = try string()
            default: _ = try value()
            }
            try skipEnds(of: &open)
        } while !open.isEmpty
        return start..<position
    }

    /// Skips what follows a value in its containers, up to the next value.
    private mutating func skipEnds(of open: inout [UInt8]) throws(Fault) {
        while let end = open.last {
            skipSpace()
            if consume(UInt8(ascii: ",")) {
                if end == UInt8(ascii: "}") { try skipName() }
                return
            }
            guard consume(end) else { throw malformed }
            open.removeLast()
        }
    }

    private mutating func skipName() throws(Fault) {
        skipSpace()
        guard peek() == UInt8(ascii: "\"") else { throw malformed }
        _ = try string()
        skipSpace()
        guard consume(UInt8(ascii: ":")) else { throw malformed }
    }
}
