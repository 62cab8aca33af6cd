/// Finds the positions of values in a text.
extension JSONParser {
    /// Finds the members of an object in its text.
    ///
    /// - Parameters:
    ///   - bytes: The text.
    ///   - place: The range of the object in the text. Default: the whole text.
    /// - Returns: The members in order, or `nil` if the text is not an object.
    package static func members(
        in bytes: [UInt8],
        at place: Range<Int>? = nil
    ) -> [JSONMember]? {
        outline(bytes, place) { (parser, offset) throws(Fault) in
            guard parser.take(UInt8(ascii: "{")) else { throw parser.malformed }
            var members: [JSONMember] = []
            parser.skipSpace()
            if parser.take(UInt8(ascii: "}")) { return members }
            repeat {
                parser.skipSpace()
                let start = parser.index
                guard parser.peek() == UInt8(ascii: "\"") else { throw parser.malformed }
                let name = try parser.string()
                parser.skipSpace()
                guard parser.take(UInt8(ascii: ":")) else { throw parser.malformed }
                let value = try parser.place()
                members.append(
                    JSONMember(
                        name: name,
                        place: offset + start..<offset + value.upperBound,
                        value: offset + value.lowerBound..<offset + value.upperBound
                    )
                )
            } while parser.take(UInt8(ascii: ","))
            guard parser.take(UInt8(ascii: "}")) else { throw parser.malformed }
            return members
        }
    }

    /// Returns the ranges of the elements of an array in its text, or `nil` if it is not an array.
    package static func elements(
        in bytes: [UInt8],
        at place: Range<Int>
    ) -> [Range<Int>]? {
        outline(bytes, place) { (parser, offset) throws(Fault) in
            guard parser.take(UInt8(ascii: "[")) else { throw parser.malformed }
            var elements: [Range<Int>] = []
            parser.skipSpace()
            if parser.take(UInt8(ascii: "]")) { return elements }
            repeat {
                let value = try parser.place()
                elements.append(offset + value.lowerBound..<offset + value.upperBound)
            } while parser.take(UInt8(ascii: ","))
            guard parser.take(UInt8(ascii: "]")) else { throw parser.malformed }
            return elements
        }
    }

    private static func outline<Value>(
        _ bytes: [UInt8],
        _ place: Range<Int>?,
        _ read: (inout JSONParser, _ offset: Int) throws(Fault) -> Value
    ) -> Value? {
        let place = place ?? bytes.indices
        return bytes.withUnsafeBufferPointer { bytes in
            var limits = Limits.tolerant
            (limits.nesting, limits.longNames) = (.max, .taken)
            var parser = JSONParser(UnsafeBufferPointer(rebasing: bytes[place]), limits)
            parser.skipSpace()
            return try? read(&parser, place.lowerBound)
        }
    }

    /// Skips a value and the space around it, and returns the value's range.
    private mutating func place() throws(Fault) -> Range<Int> {
        skipSpace()
        let start = index
        try skip()
        let end = index
        skipSpace()
        return start..<end
    }
}
