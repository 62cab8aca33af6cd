/// The text of a function's input or output.
enum MessageText {
    /// Returns the text of a value.
    ///
    /// A string is its own text. The text of an object or an array consists of the strings and
    /// numbers in it, one to a line, in the order of the members' names.
    static func text(of value: JSONValue) -> String {
        var lines: [String] = []
        collect(value, &lines)
        return lines.joined(separator: "\n")
    }

    private static func collect(_ value: JSONValue, _ lines: inout [String]) {
        switch value {
        case .null, .bool: break
        case .integer, .number, .decimal:
            lines.append(String(decoding: value.encoded, as: UTF8.self))
        case .string(let text): lines.append(text)
        case .array(let elements): for element in elements { collect(element, &lines) }
        case .object(let members):
            for (_, member) in members.sorted(by: { $0.key < $1.key }) { collect(member, &lines) }
        }
    }

    /// Returns the longest beginning of whole characters whose JSON form has at most that many
    /// bytes.
    static func prefix(_ text: String, bytes: Int) -> String {
        var left = bytes
        var end = text.startIndex
        // Character by character: to ask of each scalar whether a character ends there takes a time
        // that is quadratic in the length of a character.
        while end < text.endIndex {
            let next = text.index(after: end)
            for scalar in text.unicodeScalars[end..<next] {
                left -= cost(of: scalar)
                if left < 0 { return String(text[..<end]) }
            }
            end = next
        }
        return text
    }

    /// The size of a scalar in JSON.
    private static func cost(of scalar: Unicode.Scalar) -> Int {
        switch scalar {
        case "\"", "\\", "\n", "\r", "\t": 2
        case _ where scalar.value < 0x20 || scalar.value == 0x7F: 6
        default: scalar.utf8.count
        }
    }
}
