/// Parses untrusted JSON strictly by RFC 8259, in one pass and in linear time.
///
/// ```swift
/// let document = try JSONParser.parse(bytes, limits: .init(unit: "operations"))
/// ```
///
/// It is stricter than many parsers: no trailing comma, nothing after the value, no byte order
/// mark, no lone surrogates, and no two members of an object with canonically equivalent names, of
/// which Swift's dictionaries would keep an unpredictable one.
///
/// Names are limited before they are hashed: hashing normalizes them, which takes time quadratic in
/// the length of a run of combining marks.
package struct JSONParser {
    private let bytes: UnsafeBufferPointer<UInt8>
    let limits: Limits
    private var index = 0
    private var depth = 0
    private var count = 0
    /// The depth of the unit's element that is being parsed, and whether it has exceeded a limit.
    private var unit: (depth: Int, isOver: Bool)?
    /// Whether a member was omitted.
    private var hasHidden = false
    /// Whether the value differs from the text.
    private var isApproximate = false

    /// Parses a text.
    ///
    /// - Parameters:
    ///   - bytes: The text, in UTF-8.
    ///   - limits: The limits of its structure.
    /// - Returns: The parsed value.
    /// - Throws: A ``Fault`` with the offset of the first unexpected byte.
    package static func parse(
        _ bytes: [UInt8],
        limits: Limits = Limits()
    ) throws(Fault) -> Document {
        let result = bytes.withUnsafeBufferPointer { bytes -> Result<Document, Fault> in
            var parser = JSONParser(bytes, limits)
            return Result { () throws(Fault) in try parser.document() }
        }
        return try result.get()
    }

    /// Finds the range of a member's value without parsing the value.
    ///
    /// - Parameters:
    ///   - name: The member's name.
    ///   - bytes: The object, which is read up to the end of the member.
    /// - Returns: The range without surrounding space, or `nil` if there is no such member, or no
    ///   object.
    package static func range(of name: String, in bytes: [UInt8]) -> Range<Int>? {
        bytes.withUnsafeBufferPointer { bytes in
            var limits = Limits.tolerant
            (limits.nesting, limits.longNames) = (.max, .taken)
            var parser = JSONParser(bytes, limits)
            return try? parser.range(of: name)
        }
    }

    /// Finds the members that ``Limits/stored`` omits.
    ///
    /// - Returns: The members, or `nil` if there are none.
    /// - Throws: A ``Fault``, as ``parse(_:limits:)``.
    package static func hiddenMembers(in bytes: [UInt8]) throws(Fault) -> HiddenMembers? {
        let result = bytes.withUnsafeBufferPointer { bytes -> Result<HiddenMembers?, Fault> in
            var parser = JSONParser(bytes, .stored)
            return Result { () throws(Fault) in
                parser.skipSpace()
                return try parser.hiddenMembers()
            }
        }
        return try result.get()
    }

    private mutating func hiddenMembers() throws(Fault) -> HiddenMembers? {
        var found = HiddenMembers()
        switch peek() {
        case UInt8(ascii: "{"):
            try begin()
            try object { (parser, name) throws(Fault) in
                found.named[name] = try parser.hiddenMembers()
            } hidden: { name, json in
                found.members.append(HiddenMembers.Member(name: name, json: json))
            }
        case UInt8(ascii: "["):
            try begin()
            var index = 0
            try array { (parser) throws(Fault) in
                found.elements[index] = try parser.hiddenMembers()
                index += 1
            }
        default: _ = try value()
        }
        return found.isEmpty ? nil : found
    }

    private mutating func range(of wanted: String) throws(Fault) -> Range<Int>? {
        skipSpace()
        guard consume(UInt8(ascii: "{")) else { return nil }
        repeat {
            skipSpace()
            guard peek() == UInt8(ascii: "\"") else { return nil }
            let name = try string()
            skipSpace()
            guard consume(UInt8(ascii: ":")) else { throw malformed }
            skipSpace()
            let start = index
            try skip()
            if name.hasBytes(of: wanted) { return start..<index }
            skipSpace()
        } while consume(UInt8(ascii: ","))
        return nil
    }

    init(_ bytes: UnsafeBufferPointer<UInt8>, _ limits: Limits) {
        self.bytes = bytes
        self.limits = limits
    }

    private mutating func document() throws(Fault) -> Document {
        var document = Document(value: .null)
        skipSpace()
        if let unit = limits.unit, peek() == UInt8(ascii: "{") {
            try begin()
            var members: [String: JSONValue] = [:]
            try object { (parser, name) throws(Fault) in
                let value =
                    if name == unit, parser.peek() == UInt8(ascii: "[") {
                        try parser.units(&document.overLimit)
                    } else {
                        try parser.value()
                    }
                try parser.add(value, name, to: &members)
            }
            document.value = .object(members)
        } else {
            document.value = try value()
        }
        skipSpace()
        guard index == bytes.count else { throw malformed }
        document.hasHidden = hasHidden
        document.isApproximate = isApproximate
        return document
    }

    private mutating func units(_ overLimit: inout Set<Int>) throws(Fault) -> JSONValue {
        try begin()
        let outer = count
        var elements: [JSONValue] = []
        try array { (parser) throws(Fault) in
            if elements.count >= parser.limits.units {
                try parser.skip()
                return elements.append(.null)
            }
            parser.count = 0
            parser.unit = (parser.depth, false)
            elements.append(try parser.value())
            if parser.unit?.isOver == true { overLimit.insert(elements.count - 1) }
            parser.unit = nil
        }
        count = outer
        return .array(elements)
    }

    // MARK: - Values

    mutating func value() throws(Fault) -> JSONValue {
        try countOne()
        switch peek() {
        case UInt8(ascii: "{"):
            guard try begins() else { return .null }
            var members: [String: JSONValue] = [:]
            try object { (parser, name) throws(Fault) in
                let value = try parser.value()
                try parser.add(value, name, to: &members)
            }
            return .object(members)
        case UInt8(ascii: "["):
            guard try begins() else { return .null }
            var elements: [JSONValue] = []
            try array { (parser) throws(Fault) in elements.append(try parser.value()) }
            return .array(elements)
        case UInt8(ascii: "\""):
            let text = try string()
            if !limits.takesAnyText, !text.hasMarks(inRow: WireLimits.textMarks) { try exceed() }
            return .string(text)
        case UInt8(ascii: "t"):
            try word("true")
            return .bool(true)
        case UInt8(ascii: "f"):
            try word("false")
            return .bool(false)
        case UInt8(ascii: "n"):
            try word("null")
            return .null
        default:
            return try number()
        }
    }

    private mutating func add(
        _ value: JSONValue,
        _ name: String,
        to members: inout [String: JSONValue]
    ) throws(Fault) {
        guard members.updateValue(value, forKey: name) != nil else { return }
        guard limits.isTolerant else { throw .sameName(name) }
        isApproximate = true
    }

    /// Returns whether to accept a member with the name; other members are skipped.
    private mutating func mayName(_ name: String) throws(Fault) -> Bool {
        if name.isMemberName { return true }
        switch limits.longNames {
        case .taken: return true
        case .hidden: hasHidden = true
        case .refused: try exceed()
        }
        return false
    }

    /// Reports an exceeded limit for the unit's element, or for the whole text.
    private mutating func exceed() throws(Fault) {
        guard unit != nil else { throw .overLimit }
        unit?.isOver = true
    }

    /// Counts a value or a name.
    private mutating func countOne() throws(Fault) {
        count += 1
        if count > limits.values { try exceed() }
    }

    /// Enters an object or array, and throws if it is too deep.
    mutating func begin() throws(Fault) {
        index += 1
        depth += 1
        if depth - (unit?.depth ?? 0) > limits.nesting { throw .overLimit }
    }

    /// Enters an object or array, or skips it if its unit has exceeded a limit.
    private mutating func begins() throws(Fault) -> Bool {
        if let unit {
            let isInside = depth > unit.depth
            if depth + 1 - unit.depth > limits.nesting { self.unit?.isOver = true }
            if self.unit?.isOver == true, isInside {
                try skipContainer()
                return false
            }
        }
        try begin()
        return true
    }

    /// Skips a value, with as little parsing as possible.
    mutating func skip() throws(Fault) {
        switch peek() {
        case UInt8(ascii: "["), UInt8(ascii: "{"): try skipContainer()
        default: _ = try value()
        }
    }

    /// Skips an object or array of any depth; only its strings are parsed.
    private mutating func skipContainer() throws(Fault) {
        var open = 0
        repeat {
            switch peek() {
            case UInt8(ascii: "\""):
                _ = try string()
                continue
            case UInt8(ascii: "["), UInt8(ascii: "{"): open += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"): open -= 1
            case nil: throw malformed
            default: break
            }
            index += 1
        } while open > 0
    }

    mutating func object(
        _ member: (inout JSONParser, String) throws(Fault) -> Void,
        hidden: ((String, [UInt8]) -> Void)? = nil
    ) throws(Fault) {
        skipSpace()
        if !consume(UInt8(ascii: "}")) {
            repeat {
                skipSpace()
                guard peek() == UInt8(ascii: "\"") else { throw malformed }
                try countOne()
                let name = try string()
                skipSpace()
                guard consume(UInt8(ascii: ":")) else { throw malformed }
                skipSpace()
                if try mayName(name) {
                    try member(&self, name)
                } else {
                    let start = index
                    try skip()
                    hidden?(name, Array(bytes[start..<index]))
                }
                skipSpace()
            } while consume(UInt8(ascii: ","))
            guard consume(UInt8(ascii: "}")) else { throw malformed }
        }
        depth -= 1
    }

    mutating func array(
        _ element: (inout JSONParser) throws(Fault) -> Void
    ) throws(Fault) {
        skipSpace()
        if !consume(UInt8(ascii: "]")) {
            repeat {
                skipSpace()
                try element(&self)
                skipSpace()
            } while consume(UInt8(ascii: ","))
            guard consume(UInt8(ascii: "]")) else { throw malformed }
        }
        depth -= 1
    }

    // MARK: - Scalars

    private mutating func word(_ word: StaticString) throws(Fault) {
        let end = index + word.utf8CodeUnitCount
        guard end <= bytes.count else { throw malformed }
        for offset in 0..<word.utf8CodeUnitCount
        where bytes[index + offset] != word.utf8Start[offset] {
            throw malformed
        }
        index = end
    }

    private mutating func number() throws(Fault) -> JSONValue {
        let start = index
        _ = consume(UInt8(ascii: "-"))
        if !consume(UInt8(ascii: "0")) { try digits() }
        var isWhole = true
        if consume(UInt8(ascii: ".")) {
            isWhole = false
            try digits()
        }
        if consume(UInt8(ascii: "e")) || consume(UInt8(ascii: "E")) {
            isWhole = false
            if !consume(UInt8(ascii: "+")) { _ = consume(UInt8(ascii: "-")) }
            try digits()
        }
        // Integers of eighteen characters fit in 64 bits.
        if isWhole, index - start <= 18, let integer = smallInteger(bytes[start..<index]) {
            return .integer(integer)
        }
        let digits = DecimalDigits(bytes[start..<index])
        if let value = digits.flatMap({ JSONValue($0) }) { return value }
        if limits.isTolerant {
            isApproximate = true
            let isNegative = bytes[start] == UInt8(ascii: "-")
            return .number(Double.greatestFiniteMagnitude * (isNegative ? -1 : 1))
        }
        guard unit != nil else {
            let text = bytes[start..<index].prefix(40)
            throw .numberTooLarge(String(decoding: text, as: UTF8.self))
        }
        unit?.isOver = true
        return .null
    }

    /// Returns the integer with the digits, or `nil` for `-0`, which is not an integer.
    private func smallInteger(_ text: Slice<UnsafeBufferPointer<UInt8>>) -> Int64? {
        let isNegative = text.first == UInt8(ascii: "-")
        var value: Int64 = 0
        for byte in isNegative ? text.dropFirst() : text {
            value = value * 10 + Int64(byte - UInt8(ascii: "0"))
        }
        if isNegative, value == 0 { return nil }
        return isNegative ? -value : value
    }

    private mutating func digits() throws(Fault) {
        let start = index
        while let byte = peek(), (0x30...0x39).contains(byte) { index += 1 }
        guard index > start else { throw malformed }
    }

    mutating func string() throws(Fault) -> String {
        index += 1
        let start = index
        while let byte = peek() {
            switch byte {
            case UInt8(ascii: "\""):
                let text = UnsafeBufferPointer(rebasing: bytes[start..<index]).text()
                guard let text else { throw malformed }
                index += 1
                return text
            case UInt8(ascii: "\\"):
                return try escapedString(from: start)
            case 0..<0x20:
                throw malformed
            default:
                index = bytes.endOfPlainText(from: index)
            }
        }
        throw malformed
    }

    private mutating func escapedString(from start: Int) throws(Fault) -> String {
        var text: [UInt8] = []
        // The text between two escapes is copied at once.
        var run = start
        while let byte = peek() {
            switch byte {
            case UInt8(ascii: "\""):
                text.append(contentsOf: bytes[run..<index])
                index += 1
                guard let text = text.withUnsafeBufferPointer({ $0.text() }) else {
                    throw malformed
                }
                return text
            case UInt8(ascii: "\\"):
                text.append(contentsOf: bytes[run..<index])
                index += 1
                try escape(to: &text)
                run = index
            case 0..<0x20:
                throw malformed
            default:
                index = bytes.endOfPlainText(from: index)
            }
        }
        throw malformed
    }

    private mutating func escape(to text: inout [UInt8]) throws(Fault) {
        guard let byte = peek() else { throw malformed }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"): try unicodeEscape(to: &text)
        default: throw malformed
        }
    }

    // MARK: - Bytes

    var malformed: Fault { .malformed(offset: index) }

    /// The offset of the next byte.
    var position: Int { index }

    func peek() -> UInt8? { index < bytes.count ? bytes[index] : nil }

    mutating func consume(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        index += 1
        return true
    }

    mutating func skipSpace() {
        while let byte = peek(), byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
            index += 1
        }
    }
}

// MARK: - Escapes

/// Escapes in strings, which encode characters as UTF-16 (RFC 8259).
extension JSONParser {
    private mutating func unicodeEscape(to text: inout [UInt8]) throws(Fault) {
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
        if consume(UInt8(ascii: "\\")), consume(UInt8(ascii: "u")) {
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

// MARK: - Positions

/// Finds the positions of values in a text.
extension JSONParser {
    /// Finds the members of an object in its text.
    ///
    /// - Parameters:
    ///   - bytes: The text.
    ///   - range: The range of the object in the text. Default: the whole text.
    /// - Returns: The members in order, or `nil` if the text is not an object.
    package static func members(
        in bytes: [UInt8],
        at range: Range<Int>? = nil
    ) -> [JSONMember]? {
        outline(bytes, range) { (parser, offset) throws(Fault) in
            guard parser.consume(UInt8(ascii: "{")) else { throw parser.malformed }
            var members: [JSONMember] = []
            parser.skipSpace()
            if parser.consume(UInt8(ascii: "}")) { return members }
            repeat {
                parser.skipSpace()
                let start = parser.index
                guard parser.peek() == UInt8(ascii: "\"") else { throw parser.malformed }
                let name = try parser.string()
                parser.skipSpace()
                guard parser.consume(UInt8(ascii: ":")) else { throw parser.malformed }
                let value = try parser.spaced()
                members.append(
                    JSONMember(
                        name: name,
                        range: offset + start..<offset + value.upperBound,
                        value: offset + value.lowerBound..<offset + value.upperBound
                    )
                )
            } while parser.consume(UInt8(ascii: ","))
            guard parser.consume(UInt8(ascii: "}")) else { throw parser.malformed }
            return members
        }
    }

    /// Returns the ranges of the elements of an array in its text, or `nil` if it is not an array.
    package static func elements(
        in bytes: [UInt8],
        at range: Range<Int>
    ) -> [Range<Int>]? {
        outline(bytes, range) { (parser, offset) throws(Fault) in
            guard parser.consume(UInt8(ascii: "[")) else { throw parser.malformed }
            var elements: [Range<Int>] = []
            parser.skipSpace()
            if parser.consume(UInt8(ascii: "]")) { return elements }
            repeat {
                let value = try parser.spaced()
                elements.append(offset + value.lowerBound..<offset + value.upperBound)
            } while parser.consume(UInt8(ascii: ","))
            guard parser.consume(UInt8(ascii: "]")) else { throw parser.malformed }
            return elements
        }
    }

    private static func outline<Value>(
        _ bytes: [UInt8],
        _ range: Range<Int>?,
        _ read: (inout JSONParser, _ offset: Int) throws(Fault) -> Value
    ) -> Value? {
        let range = range ?? bytes.indices
        return bytes.withUnsafeBufferPointer { bytes in
            var limits = Limits.tolerant
            (limits.nesting, limits.longNames) = (.max, .taken)
            var parser = JSONParser(UnsafeBufferPointer(rebasing: bytes[range]), limits)
            parser.skipSpace()
            return try? read(&parser, range.lowerBound)
        }
    }

    /// Skips a value and the space around it, and returns the value's range.
    private mutating func spaced() throws(Fault) -> Range<Int> {
        skipSpace()
        let start = index
        try skip()
        let end = index
        skipSpace()
        return start..<end
    }
}
