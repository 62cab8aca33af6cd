import SanguineModel

extension JSONValue {
    /// The value in its canonical form (RFC 8785): one text for all the ways to write the same.
    ///
    /// Members are in the order of their names by UTF-16 code units, numbers as ECMAScript writes
    /// them, and strings escape no more than they must. One rule is stricter than the RFC's, which
    /// takes every number for a double: an integer that no double is keeps its digits, because two
    /// different ids must not be the same.
    package var canonical: [UInt8] {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return bytes
    }

    private func append(to bytes: inout [UInt8]) {
        switch self {
        case .null: bytes += Array("null".utf8)
        case .bool(let bool): bytes += Array((bool ? "true" : "false").utf8)
        case .integer(let number): bytes += Array(String(number).utf8)
        case .number(let number): bytes += Array(Self.ecmaScript(number).utf8)
        case .string(let text): Self.append(text, to: &bytes)
        case .array(let items):
            bytes.append(UInt8(ascii: "["))
            for (index, item) in items.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                item.append(to: &bytes)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let members):
            bytes.append(UInt8(ascii: "{"))
            let sorted = members.sorted {
                $0.key.utf16.lexicographicallyPrecedes($1.key.utf16)
            }
            for (index, (name, value)) in sorted.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                Self.append(name, to: &bytes)
                bytes.append(UInt8(ascii: ":"))
                value.append(to: &bytes)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    private static func append(_ text: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case 0x08: bytes += Array(#"\b"#.utf8)
            case 0x09: bytes += Array(#"\t"#.utf8)
            case 0x0A: bytes += Array(#"\n"#.utf8)
            case 0x0C: bytes += Array(#"\f"#.utf8)
            case 0x0D: bytes += Array(#"\r"#.utf8)
            case 0..<0x20:
                let hex = String(byte, radix: 16)
                bytes += Array((#"\u"# + String(repeating: "0", count: 4 - hex.count) + hex).utf8)
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// A number as ECMAScript writes it (ECMA-262, Number::toString): the shortest digits that are
    /// the number again, with an exponent from 10²¹ on and below 10⁻⁶.
    private static func ecmaScript(_ number: Double) -> String {
        guard number.isFinite, number != 0 else { return "0" }
        let sign = number < 0 ? "-" : ""
        let (digits, point) = decimal(number.magnitude)
        let count = digits.count
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

    /// The shortest digits of a number, without zeros at either end, and the place of the point
    /// from their beginning: 12.5 is `125` and 2.
    private static func decimal(_ number: Double) -> (digits: String, point: Int) {
        let parts = number.description.split(separator: "e")
        let mantissa = parts[0].split(separator: ".", omittingEmptySubsequences: false)
        let fraction = mantissa.count > 1 ? mantissa[1] : ""
        var point = mantissa[0].count + (parts.count > 1 ? Int(parts[1]) ?? 0 : 0)
        var digits = Substring(String(mantissa[0]) + fraction)
        while digits.first == "0" {
            digits.removeFirst()
            point -= 1
        }
        while digits.last == "0" { digits.removeLast() }
        return (String(digits), point)
    }
}
