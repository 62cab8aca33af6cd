/// Parses JSON that nobody is trusted with: strictly by RFC 8259, in one pass, in time that is
/// linear in its length.
///
/// ```swift
/// let document = try JSONParser.parse(bytes, limits: .init(unit: "operations"))
/// ```
///
/// Stricter than many parsers: no comma before the end, nothing after the value, no byte order
/// mark, no lone surrogates, and no two members of one object whose names are canonically equal:
/// Swift's dictionaries would keep one of them, and nobody could say which.
package struct JSONParser {
    /// How large JSON may be in structure, whatever its bytes.
    package struct Limits: Sendable {
        /// How deep values may nest.
        package var nesting: Int
        /// Values, and names of members.
        package var values: Int
        /// The member of the outermost object whose elements are measured each for itself.
        ///
        /// Default: none, the document is measured as a whole.
        package var unit: String?
        /// How many elements of the unit are parsed; those behind are `null`.
        package var units: Int

        /// Creates limits.
        package init(
            nesting: Int = WireLimits.jsonNesting,
            values: Int = WireLimits.jsonValues,
            unit: String? = nil,
            units: Int = .max
        ) {
            self.nesting = nesting
            self.values = values
            self.unit = unit
            self.units = units
        }
    }

    /// What was parsed.
    package struct Document: Sendable {
        /// The value.
        package var value: JSONValue
        /// The elements of the unit that break a limit, or have a number larger than a double can
        /// be, by their indexes; in place of what is
        /// inside of them they have `null`.
        package var overLimit: Set<Int> = []
    }

    /// Why a text was not parsed.
    package enum Fault: Error, Hashable, Sendable {
        /// It is no JSON; the offset is in bytes.
        case malformed(offset: Int)
        /// It breaks a limit.
        case overLimit
        /// Two members of an object have the same name, or names that are canonically equal.
        case sameName(String)
        /// A number is larger than a double can be.
        case numberTooLarge(String)
    }

    private let bytes: UnsafeBufferPointer<UInt8>
    private let limits: Limits
    private var index = 0
    private var depth = 0
    private var count = 0
    /// The depth of the unit's element that is being parsed, and whether it has broken a limit.
    private var unit: (depth: Int, isOver: Bool)?

    /// Parses a text.
    ///
    /// - Parameters:
    ///   - bytes: The text, in UTF-8.
    ///   - limits: How large it may be in structure.
    /// - Returns: The one value that it is.
    /// - Throws: A ``Fault`` with the place of the first byte that does not belong.
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

    /// Where the value of a member of an object stands, which is passed over and not made.
    ///
    /// - Parameters:
    ///   - name: The member's name.
    ///   - bytes: The object, which is read no further than to the member's end.
    /// - Returns: The place, without space around it; `nil` if there is no such member, or no
    ///   object.
    package static func range(of name: String, in bytes: [UInt8]) -> Range<Int>? {
        bytes.withUnsafeBufferPointer { bytes in
            var parser = JSONParser(bytes, Limits(nesting: .max, values: .max))
            return try? parser.range(of: name)
        }
    }

    private mutating func range(of wanted: String) throws(Fault) -> Range<Int>? {
        skipSpace()
        guard take(UInt8(ascii: "{")) else { return nil }
        repeat {
            skipSpace()
            guard peek() == UInt8(ascii: "\"") else { return nil }
            let name = try string()
            skipSpace()
            guard take(UInt8(ascii: ":")) else { throw malformed }
            skipSpace()
            let start = index
            try skip()
            if name == wanted { return start..<index }
            skipSpace()
        } while take(UInt8(ascii: ","))
        return nil
    }

    private init(_ bytes: UnsafeBufferPointer<UInt8>, _ limits: Limits) {
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
                try Self.add(value, name, to: &members)
            }
            document.value = .object(members)
        } else {
            document.value = try value()
        }
        skipSpace()
        guard index == bytes.count else { throw malformed }
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

    private mutating func value() throws(Fault) -> JSONValue {
        try countOne()
        switch peek() {
        case UInt8(ascii: "{"):
            guard try begins() else { return .null }
            var members: [String: JSONValue] = [:]
            try object { (parser, name) throws(Fault) in
                try Self.add(try parser.value(), name, to: &members)
            }
            return .object(members)
        case UInt8(ascii: "["):
            guard try begins() else { return .null }
            var elements: [JSONValue] = []
            try array { (parser) throws(Fault) in elements.append(try parser.value()) }
            return .array(elements)
        case UInt8(ascii: "\""):
            return .string(try string())
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

    private static func add(
        _ value: JSONValue,
        _ name: String,
        to members: inout [String: JSONValue]
    ) throws(Fault) {
        guard members.updateValue(value, forKey: name) == nil else { throw .sameName(name) }
    }

    /// Counts a value or a name.
    private mutating func countOne() throws(Fault) {
        count += 1
        guard count > limits.values else { return }
        guard unit != nil else { throw .overLimit }
        unit?.isOver = true
    }

    /// Enters an object or array, which may be too deep.
    private mutating func begin() throws(Fault) {
        index += 1
        depth += 1
        if depth - (unit?.depth ?? 0) > limits.nesting { throw .overLimit }
    }

    /// Enters an object or array, or passes over it where its unit is over its limit.
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

    /// Passes over a value, of which containers are looked at as little as can be.
    private mutating func skip() throws(Fault) {
        switch peek() {
        case UInt8(ascii: "["), UInt8(ascii: "{"): try skipContainer()
        default: _ = try value()
        }
    }

    /// Passes over an object or array of any depth, of which only the strings are looked at.
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

    private mutating func object(
        _ member: (inout JSONParser, String) throws(Fault) -> Void
    ) throws(Fault) {
        skipSpace()
        if !take(UInt8(ascii: "}")) {
            repeat {
                skipSpace()
                guard peek() == UInt8(ascii: "\"") else { throw malformed }
                try countOne()
                let name = try string()
                skipSpace()
                guard take(UInt8(ascii: ":")) else { throw malformed }
                skipSpace()
                try member(&self, name)
                skipSpace()
            } while take(UInt8(ascii: ","))
            guard take(UInt8(ascii: "}")) else { throw malformed }
        }
        depth -= 1
    }

    private mutating func array(
        _ element: (inout JSONParser) throws(Fault) -> Void
    ) throws(Fault) {
        skipSpace()
        if !take(UInt8(ascii: "]")) {
            repeat {
                skipSpace()
                try element(&self)
                skipSpace()
            } while take(UInt8(ascii: ","))
            guard take(UInt8(ascii: "]")) else { throw malformed }
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
        _ = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")) { try digits() }
        var isWhole = true
        if take(UInt8(ascii: ".")) {
            isWhole = false
            try digits()
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            isWhole = false
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            try digits()
        }
        let text = String(decoding: bytes[start..<index], as: UTF8.self)
        if isWhole, let integer = Int64(text) { return .integer(integer) }
        guard let number = Double(text), number.isFinite else {
            guard unit != nil else { throw .numberTooLarge(String(text.prefix(40))) }
            unit?.isOver = true
            return .null
        }
        // 1.0 and 1e2 are integers; 1.00000000000000000001 is none, though no double is nearer.
        if !isWhole, let integer = WholeNumber.parse(text) { return .integer(integer) }
        return .number(number)
    }

    private mutating func digits() throws(Fault) {
        let start = index
        while let byte = peek(), (0x30...0x39).contains(byte) { index += 1 }
        guard index > start else { throw malformed }
    }

    private mutating func string() throws(Fault) -> String {
        index += 1
        let start = index
        while let byte = peek() {
            switch byte {
            case UInt8(ascii: "\""):
                let text = String(validating: bytes[start..<index], as: UTF8.self)
                guard let text else { throw malformed }
                index += 1
                return text
            case UInt8(ascii: "\\"):
                return try escapedString(from: start)
            case 0..<0x20:
                throw malformed
            default:
                index += 1
            }
        }
        throw malformed
    }

    private mutating func escapedString(from start: Int) throws(Fault) -> String {
        var text = Array(bytes[start..<index])
        while let byte = peek() {
            index += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: text, as: UTF8.self) else { throw malformed }
                return text
            case UInt8(ascii: "\\"):
                text.append(contentsOf: try escape())
            case 0..<0x20:
                throw malformed
            default:
                text.append(byte)
            }
        }
        throw malformed
    }

    private mutating func escape() throws(Fault) -> [UInt8] {
        guard let byte = peek() else { throw malformed }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [byte]
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0C]
        case UInt8(ascii: "n"): return [0x0A]
        case UInt8(ascii: "r"): return [0x0D]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"): return try unicodeEscape()
        default: throw malformed
        }
    }

    private mutating func unicodeEscape() throws(Fault) -> [UInt8] {
        var units = [try codeUnit()]
        if UTF16.isLeadSurrogate(units[0]) {
            guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw malformed }
            units.append(try codeUnit())
        }
        guard let text = String(validating: units, as: UTF16.self) else { throw malformed }
        return Array(text.utf8)
    }

    private mutating func codeUnit() throws(Fault) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let byte = peek(), let digit = Character(UnicodeScalar(byte)).hexDigitValue,
                byte < 0x80
            else { throw malformed }
            unit = unit << 4 | UInt16(digit)
            index += 1
        }
        return unit
    }

    // MARK: - Bytes

    private var malformed: Fault { .malformed(offset: index) }

    private func peek() -> UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        index += 1
        return true
    }

    private mutating func skipSpace() {
        while let byte = peek(), byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
            index += 1
        }
    }
}

/// Reads numbers with a fraction or an exponent that are whole all the same.
private enum WholeNumber {
    /// The integer that a number of JSON is exactly, or `nil` if it is none of 64 bits.
    static func parse(_ text: String) -> Int64? {
        let parts = text.lowercased().split(separator: "e", maxSplits: 1)
        let mantissa = parts[0].split(separator: ".", omittingEmptySubsequences: false)
        let fraction = mantissa.count > 1 ? mantissa[1].trimmingSuffix("0") : ""
        guard let exponent = parts.count > 1 ? Int(parts[1]) : 0, exponent.magnitude < 100_000
        else { return nil }
        var digits = String(mantissa[0]) + fraction
        let shift = exponent - fraction.count
        if shift >= 0 {
            if digits.allSatisfy({ $0 == "0" || $0 == "-" }) { return 0 }
            guard shift <= 20 else { return nil }
            digits += String(repeating: "0", count: shift)
        } else {
            for _ in 0..<(-shift) {
                guard let last = digits.popLast(), last == "0" else { return nil }
                if digits.isEmpty || digits == "-" { return 0 }
            }
        }
        return Int64(digits)
    }
}

extension Substring {
    fileprivate func trimmingSuffix(_ character: Character) -> String {
        var text = self
        while text.last == character { text.removeLast() }
        return String(text)
    }
}
