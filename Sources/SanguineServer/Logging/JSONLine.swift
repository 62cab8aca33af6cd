/// A JSON object on one line, written member by member as bytes, with a limited length.
///
/// A member that does not fit is omitted as a whole, and `"truncated":true` is added, so that the
/// output is always valid JSON. (`JSONEncoder` would take ten times as long and has no limit.)
struct JSONLine: Sendable {
    private static let truncation = Array(#","truncated":true"#.utf8)

    private var bytes: [UInt8]
    private let limit: Int
    private var isTruncated = false

    /// Creates an empty object of at most `limit` bytes, including its line feed.
    init(limit: Int) {
        precondition(limit >= 64, "A line must have room for a time and a level.")
        self.limit = limit
        bytes = [UInt8(ascii: "{")]
        bytes.reserveCapacity(256)
    }

    /// Adds a string.
    ///
    /// A string longer than `longest` bytes as JSON is truncated.
    mutating func add(_ name: StaticString, _ text: String, longest: Int = .max) {
        let start = beginMember(name)
        addText(text, longest: longest)
        endMember(start)
    }

    /// Adds a string with a name that is only known at run time.
    mutating func add(_ name: String, _ text: String, longest: Int = .max) {
        let start = bytes.count
        if start > 1 { bytes.append(UInt8(ascii: ",")) }
        bytes.append(UInt8(ascii: "\""))
        Self.append(name, longest: 256, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        addText(text, longest: longest)
        endMember(start)
    }

    /// Adds a whole number.
    mutating func add(_ name: StaticString, _ number: Int) {
        let start = beginMember(name)
        bytes.append(contentsOf: String(number).utf8)
        endMember(start)
    }

    /// Adds thousandths as a number with three decimals: 1234 becomes `1.234`.
    mutating func add(_ name: StaticString, thousandths: Int64) {
        let start = beginMember(name)
        let (whole, rest) = max(0, thousandths).quotientAndRemainder(dividingBy: 1_000)
        bytes.append(contentsOf: String(whole).utf8)
        bytes.append(UInt8(ascii: "."))
        for divisor in [100, 10, 1] as [Int64] {
            bytes.append(UInt8(ascii: "0") + UInt8(rest / divisor % 10))
        }
        endMember(start)
    }

    /// Returns the line, including its line feed.
    consuming func finish() -> [UInt8] {
        if isTruncated { bytes.append(contentsOf: Self.truncation) }
        bytes.append(UInt8(ascii: "}"))
        bytes.append(UInt8(ascii: "\n"))
        return bytes
    }

    /// Begins a member whose name needs no escaping.
    private mutating func beginMember(_ name: StaticString) -> Int {
        let start = bytes.count
        if start > 1 { bytes.append(UInt8(ascii: ",")) }
        bytes.append(UInt8(ascii: "\""))
        name.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        return start
    }

    private mutating func addText(_ text: String, longest: Int) {
        bytes.append(UInt8(ascii: "\""))
        // At most a line, so that a long text costs no more than the line it does not fit in.
        if !Self.append(text, longest: min(longest, limit), to: &bytes) { isTruncated = true }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func endMember(_ start: Int) {
        guard bytes.count + Self.truncation.count + 2 > limit else { return }
        bytes.removeSubrange(start...)
        isTruncated = true
    }

    /// Appends the content of a JSON string (RFC 8259, section 7); false if it was truncated.
    @discardableResult
    private static func append(_ text: String, longest: Int, to bytes: inout [UInt8]) -> Bool {
        if let isPlain = text.utf8.withContiguousStorageIfAvailable({ utf8 in
            // Nearly every text is short and needs no escaping, so it is copied at once.
            guard utf8.count <= longest, utf8.allSatisfy(Self.isUnescaped) else { return false }
            bytes.append(contentsOf: utf8)
            return true
        }), isPlain {
            return true
        }
        let start = bytes.count
        for scalar in text.unicodeScalars {
            let before = bytes.count
            switch scalar {
            case "\"": bytes.append(contentsOf: #"\""#.utf8)
            case "\\": bytes.append(contentsOf: #"\\"#.utf8)
            case "\n": bytes.append(contentsOf: #"\n"#.utf8)
            case "\r": bytes.append(contentsOf: #"\r"#.utf8)
            case "\t": bytes.append(contentsOf: #"\t"#.utf8)
            case "\u{0}"..."\u{1F}", "\u{7F}":
                bytes.append(contentsOf: #"\u00"#.utf8)
                bytes.append(hexDigit(UInt8(scalar.value) >> 4))
                bytes.append(hexDigit(UInt8(scalar.value) & 0xF))
            default: bytes.append(contentsOf: scalar.utf8)
            }
            if bytes.count - start > longest {
                bytes.removeSubrange(before...)
                return false
            }
        }
        return true
    }

    private static func isUnescaped(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != 0x22 && byte != 0x5C && byte != 0x7F
    }

    private static func hexDigit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }
}
