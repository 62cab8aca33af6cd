/// Writes a JSON text value by value.
///
/// Foundation's encoder asks each value for its parts, which costs more than all other work.
package struct JSONText {
    /// The format of numbers and the order of members; most values look the same in all forms.
    package enum Form {
        /// RFC 8785; see ``SanguineModel/JSONValue/canonical``.
        case canonical
        /// The format of Foundation's encoder, with members in the order of their names' bytes and
        /// unescaped slashes.
        case encoded
        /// The format of `encoded`, with each number as the closest double or 64-bit integer.
        ///
        /// Fingerprints of calls are computed from it. If its bytes changed, a call repeated after
        /// an upgrade would count as a different one.
        case fingerprint
    }

    private let form: Form
    /// The text so far.
    package private(set) var bytes: [UInt8] = []

    /// Creates an empty text.
    package init(_ form: Form) { self.form = form }

    /// Writes punctuation or a keyword.
    package mutating func append(raw text: StaticString) {
        bytes.append(
            contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        )
    }

    /// Writes a value.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - hidden: The members that were omitted when the value was read. Default: none.
    package mutating func append(_ value: JSONValue, with hidden: HiddenMembers? = nil) {
        switch value {
        case .null: append(raw: "null")
        case .bool(true): append(raw: "true")
        case .bool(false): append(raw: "false")
        case .integer(let number): bytes.append(contentsOf: String(number).utf8)
        case .number(let number): append(number)
        case .decimal(let decimal):
            if form == .fingerprint, let number = Double(decimal.description) {
                append(number)
            } else {
                bytes.append(contentsOf: decimal.description.utf8)
            }
        case .string(let text): append(text)
        case .array(let items):
            if let hidden {
                append(Array(items.enumerated())) { text, item in
                    text.append(item.element, with: hidden.elements[item.offset])
                }
            } else {
                append(items) { $0.append($1) }
            }
        case .object(let members):
            if let hidden { append(members, hidden) } else { append(members) }
        }
    }

    /// Writes an array.
    package mutating func append<Item>(_ items: [Item], _ append: (inout JSONText, Item) -> Void) {
        bytes.append(UInt8(ascii: "["))
        for (index, item) in items.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            append(&self, item)
        }
        bytes.append(UInt8(ascii: "]"))
    }

    /// Writes a string with only the necessary escapes.
    package mutating func append(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { utf8 in
            var start = 0
            while true {
                let end = utf8.endOfPlainText(from: start)
                bytes.append(contentsOf: utf8[start..<end])
                guard end < utf8.count else { break }
                append(escaped: utf8[end])
                start = end + 1
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func append(_ members: [String: JSONValue]) {
        bytes.append(UInt8(ascii: "{"))
        var isFirst = true
        for (name, value) in sorted(members) {
            if !isFirst { bytes.append(UInt8(ascii: ",")) }
            isFirst = false
            append(name)
            bytes.append(UInt8(ascii: ":"))
            append(value)
        }
        bytes.append(UInt8(ascii: "}"))
    }

    /// Writes an object, including members that were omitted when it was read.
    private mutating func append(_ members: [String: JSONValue], _ hidden: HiddenMembers) {
        var all: [(name: String, shown: JSONValue?, json: [UInt8])] = []
        all += members.map { ($0.key, $0.value, []) }
        all += hidden.members.map { ($0.name, nil, $0.json) }
        all.sort { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        bytes.append(UInt8(ascii: "{"))
        for (index, member) in all.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            append(member.name)
            bytes.append(UInt8(ascii: ":"))
            if let value = member.shown {
                append(value, with: hidden.named[member.name])
            } else {
                bytes.append(contentsOf: member.json)
            }
        }
        bytes.append(UInt8(ascii: "}"))
    }

    private func sorted(
        _ members: [String: JSONValue]
    ) -> [(key: String, value: JSONValue)] {
        switch form {
        case .canonical:
            members.sorted { $0.key.utf16.lexicographicallyPrecedes($1.key.utf16) }
        case .encoded, .fingerprint:
            members.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
        }
    }

    private mutating func append(_ number: Double) {
        // Values are checked earlier. Without this, one invalid number would make the whole text
        // unreadable.
        guard number.isFinite else { return append(raw: "null") }
        switch form {
        case .canonical: bytes.append(contentsOf: Self.ecmaScript(number).utf8)
        case .fingerprint where number == 0: append(raw: "0")
        case .encoded, .fingerprint:
            let text = number.description
            bytes.append(contentsOf: text.hasSuffix(".0") ? text.utf8.dropLast(2) : text.utf8[...])
        }
    }

    /// Returns a number in ECMAScript's notation (ECMA-262, Number::toString): the shortest digits
    /// that identify it, with an exponent for values from 10²¹ and below 10⁻⁶.
    private static func ecmaScript(_ number: Double) -> String {
        guard number != 0 else { return "0" }
        let sign = number < 0 ? "-" : ""
        let parts = DecimalDigits(number)
        let digits = String(decoding: parts.digits, as: UTF8.self)
        let (count, point) = (parts.digits.count, parts.point)
        switch point {
        case count...21:
            return sign + digits + String(repeating: "0", count: point - count)
        case 1..<count:
            return sign + digits.prefix(point) + "." + digits.dropFirst(point)
        case -5...0:
            return sign + "0." + String(repeating: "0", count: -point) + digits
        default:
            let exponent = point - 1
            let fraction = count > 1 ? "." + digits.dropFirst() : ""
            return sign + digits.prefix(1) + fraction + "e" + (exponent < 0 ? "-" : "+")
                + String(exponent.magnitude)
        }
    }

    private mutating func append(escaped byte: UInt8) {
        bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case 0x08: bytes.append(UInt8(ascii: "b"))
        case 0x09: bytes.append(UInt8(ascii: "t"))
        case 0x0A: bytes.append(UInt8(ascii: "n"))
        case 0x0C: bytes.append(UInt8(ascii: "f"))
        case 0x0D: bytes.append(UInt8(ascii: "r"))
        case 0..<0x20:
            append(raw: "u00")
            bytes.append(UInt8(ascii: "0") + byte >> 4)
            bytes.append(Self.hexDigits[Int(byte & 0xF)])
        default: bytes.append(byte)
        }
    }

    private static let hexDigits = Array("0123456789abcdef".utf8)
}
