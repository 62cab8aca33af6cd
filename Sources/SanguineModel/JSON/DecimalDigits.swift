/// A number as decimal digits: `0.digits` times ten to the power of ``point``.
///
/// Two numbers are equal if they have the same value, however they are written: `1`, `1.0` and
/// `10e-1` have the same digits.
package struct DecimalDigits: Hashable, Sendable {
    /// Whether the number has a minus sign; zero may have one too.
    package let isNegative: Bool
    /// The digits in ASCII, without zeros at either end; empty for zero.
    package let digits: [UInt8]
    /// The position of the decimal point, counted from the first digit; 0 for zero.
    package let point: Int

    /// The maximum magnitude of an accepted exponent.
    private static let largestExponent = 1_000_000_000

    private init(isNegative: Bool, digits: [UInt8], point: Int) {
        self.isNegative = isNegative
        self.digits = digits
        self.point = digits.isEmpty ? 0 : point
    }

    /// Parses a number in JSON's notation.
    ///
    /// Takes time linear in the length of the text. Returns `nil` if the exponent is unreasonably
    /// large.
    package init?(_ text: some Sequence<UInt8>) {
        var isNegative = false
        var digits: [UInt8] = []
        var point = 0
        var isFraction = false
        var exponent: (isNegative: Bool, magnitude: Int)?
        for byte in text {
            switch byte {
            case UInt8(ascii: "-"):
                if exponent == nil { isNegative = true } else { exponent?.isNegative = true }
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"): exponent = (false, 0)
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if let magnitude = exponent?.magnitude {
                    let next = magnitude * 10 + Int(byte - UInt8(ascii: "0"))
                    exponent?.magnitude = min(next, Self.largestExponent + 1)
                } else {
                    let isLeading = digits.isEmpty && byte == UInt8(ascii: "0")
                    if !isLeading { digits.append(byte) }
                    if isFraction {
                        if isLeading { point -= 1 }
                    } else if !isLeading {
                        point += 1
                    }
                }
            default: break  // A plus sign.
            }
        }
        while digits.last == UInt8(ascii: "0") { digits.removeLast() }
        if let exponent, !digits.isEmpty {
            guard exponent.magnitude <= Self.largestExponent else { return nil }
            point += exponent.isNegative ? -exponent.magnitude : exponent.magnitude
        }
        self.init(isNegative: isNegative, digits: digits, point: point)
    }

    /// Creates the shortest digits that identify this finite double.
    package init(_ number: Double) {
        // The description of a double has at most three digits in its exponent.
        self =
            Self(number.description.utf8)
            ?? Self(isNegative: false, digits: [], point: 0)
    }

    /// Whether the number has no fraction.
    package var isWhole: Bool { point >= digits.count }

    /// The number as an integer, or `nil` if it has a fraction or does not fit.
    package func integer<Value: FixedWidthInteger>(as type: Value.Type = Value.self) -> Value? {
        // Integer types of Swift have at most 39 digits.
        guard isWhole, point <= 40 else { return nil }
        var value: Value = 0
        for index in 0..<point {
            let digit = index < digits.count ? digits[index] - UInt8(ascii: "0") : 0
            let (product, tooLarge) = value.multipliedReportingOverflow(by: 10)
            guard !tooLarge, let digit = Value(exactly: digit) else { return nil }
            let (sum, overflow) =
                isNegative
                ? product.subtractingReportingOverflow(digit)
                : product.addingReportingOverflow(digit)
            guard !overflow else { return nil }
            value = sum
        }
        return value
    }

    /// The largest integer that does not exceed the number, or `nil` if it does not fit in 64 bits.
    package var floor: Int64? {
        if isWhole { return integer() }
        let whole = DecimalDigits(
            isNegative: isNegative,
            digits: Array(digits.prefix(max(point, 0))),
            point: max(point, 0)
        )
        guard let truncated = whole.integer(as: Int64.self) else { return nil }
        let (floor, overflow) = truncated.subtractingReportingOverflow(isNegative ? 1 : 0)
        return overflow ? nil : floor
    }

    /// The number as JSON.
    ///
    /// Equal numbers have the same representation.
    package var text: String {
        let sign = isNegative ? "-" : ""
        let all = String(decoding: digits, as: UTF8.self)
        switch point {
        case _ where digits.isEmpty:
            return sign + "0"
        case digits.count...max(digits.count, 40):
            return sign + all + String(repeating: "0", count: point - digits.count)
        case 1..<max(digits.count, 1):
            return sign + all.prefix(point) + "." + all.dropFirst(point)
        case -5...0:
            return sign + "0." + String(repeating: "0", count: -point) + all
        default:
            let fraction = digits.count > 1 ? "." + all.dropFirst() : ""
            let exponent = point - 1
            return sign + all.prefix(1) + fraction + "e" + (exponent < 0 ? "-" : "+")
                + String(exponent.magnitude)
        }
    }

    /// Returns the exact sum with an integer, or `nil` if 128 bits cannot hold its digits.
    package func adding(_ amount: Int64) -> DecimalDigits? {
        guard let (mantissa, exponent) = mantissa else { return nil }
        let scale = min(exponent, 0)
        guard let own = Self.scaled(mantissa, exponent - scale),
            let other = Self.scaled(Int128(amount), -scale)
        else { return nil }
        let (sum, overflow) = own.addingReportingOverflow(other)
        guard !overflow else { return nil }
        return DecimalDigits("\(sum)e\(scale)".utf8)
    }

    /// The digits as an integer, and the power of ten that multiplies it.
    private var mantissa: (Int128, exponent: Int)? {
        let whole = DecimalDigits(isNegative: isNegative, digits: digits, point: digits.count)
        return whole.integer(as: Int128.self).map { ($0, point - digits.count) }
    }

    private static func scaled(_ value: Int128, _ power: Int) -> Int128? {
        guard value != 0 else { return 0 }
        guard power <= 40 else { return nil }
        var value = value
        for _ in 0..<power {
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            guard !overflow else { return nil }
            value = product
        }
        return value
    }
}

extension DecimalDigits: Comparable {
    /// Orders numbers by value.
    package static func < (lhs: DecimalDigits, rhs: DecimalDigits) -> Bool {
        let (left, right) = (lhs.sign, rhs.sign)
        guard left == right else { return left < right }
        return left < 0 ? rhs.isSmaller(than: lhs) : lhs.isSmaller(than: rhs)
    }

    private var sign: Int { digits.isEmpty ? 0 : isNegative ? -1 : 1 }

    /// Whether the magnitude is smaller.
    private func isSmaller(than other: DecimalDigits) -> Bool {
        guard point == other.point else { return point < other.point }
        return digits.lexicographicallyPrecedes(other.digits)
    }
}

/// A JSON number that is neither a 64-bit integer nor the shortest digits of a double.
///
/// It keeps all digits. Equal numbers have the same form.
public struct JSONDecimal: Hashable, Sendable, CustomStringConvertible {
    /// The number in JSON's notation.
    public let description: String

    init(_ digits: DecimalDigits) { description = digits.text }

    /// The digits of the number.
    package var digits: DecimalDigits {
        DecimalDigits(description.utf8) ?? DecimalDigits(0)
    }
}

extension JSONValue {
    /// Creates a number from its digits, and keeps all of them.
    ///
    /// ```swift
    /// let price = JSONValue(number: "19.990000000000000001")
    /// ```
    ///
    /// Returns `nil` if the text is not a JSON number, or exceeds the range of a double.
    public init?(number text: String) {
        guard let value = try? JSONParser.parse(Array(text.utf8)).value, value.isNumber else {
            return nil
        }
        self = value
    }

    /// Creates the number with these digits, or returns `nil` if it exceeds the range of a double.
    package init?(_ digits: DecimalDigits) {
        if digits.digits.isEmpty {
            self = digits.isNegative ? .number(-0.0) : .integer(0)
        } else if let integer = digits.integer(as: Int64.self) {
            self = .integer(integer)
        } else {
            let text = digits.text
            guard let number = Double(text), number.isFinite else { return nil }
            // Fifteen digits survive a conversion to any double that is not close to zero.
            let isShort = digits.digits.count <= 15 && digits.point > -300
            self =
                isShort || DecimalDigits(number) == digits
                ? .number(number) : .decimal(JSONDecimal(digits))
        }
    }

    /// The digits of a number; `nil` for any other value.
    package var digits: DecimalDigits? {
        switch self {
        case .integer(let integer): DecimalDigits(String(integer).utf8)
        case .number(let number): number.isFinite ? DecimalDigits(number) : nil
        case .decimal(let decimal): decimal.digits
        default: nil
        }
    }

    private var isNumber: Bool {
        switch self {
        case .integer, .number, .decimal: true
        default: false
        }
    }
}
