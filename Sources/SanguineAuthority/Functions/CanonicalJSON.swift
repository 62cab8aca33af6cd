import SanguineModel

extension JSONValue {
    /// The value in its canonical form (RFC 8785): one text for all the ways to write the same.
    ///
    /// Members are in the order of their names by UTF-16 code units, numbers as ECMAScript writes
    /// them, and strings escape no more than they must. One rule is stricter than the RFC's, which
    /// takes every number for a double: an integer that no double is keeps its digits, because two
    /// different ids must not be the same.
    package var canonical: [UInt8] {
        var text = JSONText(.canonical)
        text.append(self)
        return text.bytes
    }
}

extension JSONText {
    /// A number as ECMAScript writes it (ECMA-262, Number::toString): the shortest digits that are
    /// the number again, with an exponent from 10²¹ on and below 10⁻⁶.
    static func ecmaScript(_ number: Double) -> String {
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
