package import SanguineModel

/// A JSON text that is written value by value.
///
/// Foundation's encoder asks each value what it is made of, which costs a call of a function more
/// than all else that is written for it.
struct JSONText {
    /// What of a value is written in which way; both are the same for most values.
    enum Form {
        /// RFC 8785; see ``SanguineModel/JSONValue/canonical``.
        case canonical
        /// As Foundation's encoder writes it, with its members in the order of their names' bytes
        /// and slashes as they are.
        ///
        /// Fingerprints are taken of it: bytes that change make another request of one that is
        /// sent again after an upgrade.
        case encoded
    }

    private let form: Form
    /// What was written.
    private(set) var bytes: [UInt8] = []

    /// Creates an empty text.
    init(_ form: Form) { self.form = form }

    /// Writes what stands between values, or a word.
    mutating func append(raw text: StaticString) {
        bytes.append(
            contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        )
    }

    mutating func append(_ value: JSONValue) {
        switch value {
        case .null: append(raw: "null")
        case .bool(true): append(raw: "true")
        case .bool(false): append(raw: "false")
        case .integer(let number): bytes.append(contentsOf: String(number).utf8)
        case .number(let number): append(number)
        case .string(let text): append(text)
        case .array(let items): append(items) { $0.append($1) }
        case .object(let members): append(members)
        }
    }

    /// Writes an array.
    mutating func append<Item>(_ items: [Item], _ append: (inout JSONText, Item) -> Void) {
        bytes.append(UInt8(ascii: "["))
        for (index, item) in items.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            append(&self, item)
        }
        bytes.append(UInt8(ascii: "]"))
    }

    /// Writes a string: what must be escaped is, and nothing else.
    mutating func append(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { utf8 in
            var start = 0
            for (index, byte) in utf8.enumerated() where Self.mustEscape(byte) {
                bytes.append(contentsOf: utf8[start..<index])
                append(escaped: byte)
                start = index + 1
            }
            bytes.append(contentsOf: utf8[start...])
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

    private func sorted(
        _ members: [String: JSONValue]
    ) -> [(key: String, value: JSONValue)] {
        switch form {
        case .canonical:
            members.sorted { $0.key.utf16.lexicographicallyPrecedes($1.key.utf16) }
        case .encoded:
            members.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
        }
    }

    private mutating func append(_ number: Double) {
        switch form {
        case .canonical: bytes.append(contentsOf: Self.ecmaScript(number).utf8)
        case .encoded:
            let text = number.description
            bytes.append(contentsOf: text.hasSuffix(".0") ? text.utf8.dropLast(2) : text.utf8[...])
        }
    }

    private static func mustEscape(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
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

// What the encoder would make of these; a test holds it to that.
extension AnswerEncoder {
    /// Writes a value, as ``encode(_:)`` would.
    package static func encode(_ value: JSONValue) -> [UInt8] {
        var text = JSONText(.encoded)
        text.append(value)
        return text.bytes
    }

    /// Writes the parts of an answer, as ``encode(_:)`` would.
    static func encode(_ parts: [String]) -> [UInt8] {
        var text = JSONText(.encoded)
        text.append(parts) { $0.append($1) }
        return text.bytes
    }

    /// Writes a part of an answer, as ``encode(_:)`` would.
    static func encode(_ delta: FunctionDelta) -> [UInt8] {
        var text = JSONText(.encoded)
        text.append(raw: #"{"text":"#)
        text.append(delta.text)
        text.append(raw: "}")
        return text.bytes
    }

    /// Writes what a function is asked, as ``encode(_:)`` would: fingerprints are taken of it.
    package static func encode(_ request: FunctionRequest<JSONValue>) -> [UInt8] {
        var text = JSONText(.encoded)
        text.append(raw: "{")
        if let attachments = request.attachments {
            text.append(raw: #""attachments":"#)
            text.append(attachments) { $0.append($1) }
            text.append(raw: ",")
        }
        text.append(raw: #""input":"#)
        text.append(request.input)
        if let thread = request.thread {
            text.append(raw: #","thread":"#)
            text.append(thread.description)
        }
        text.append(raw: "}")
        return text.bytes
    }
}
