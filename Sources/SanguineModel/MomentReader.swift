/// Parses a timestamp in the format of RFC 3339, section 5.6, and in no other.
///
/// Foundation's parser is not used because it accepts days that do not exist, minutes past 59 and
/// trailing text, uses another calendar for days before 1582, and rounds excess digits.
struct MomentReader {
    private var rest: Substring.UTF8View

    /// Returns the milliseconds since 1970, or `nil` if the text is not a timestamp of the years 0
    /// to 9999.
    static func milliseconds(of text: String) -> Int64? {
        var reader = MomentReader(rest: text[...].utf8)
        return reader.moment()
    }

    private mutating func moment() -> Int64? {
        guard let day = day(), consume(anyOf: "Tt") != nil,
            let hour = number(upTo: 23), consume(anyOf: ":") != nil,
            let minute = number(upTo: 59), consume(anyOf: ":") != nil,
            // A leap second counts as the first second of the next minute.
            let second = number(upTo: 60),
            let fraction = fraction(), let offset = offset(), rest.isEmpty
        else { return nil }
        let days = Int64(day.daysSince1970)
        let seconds = ((days * 24 + Int64(hour)) * 60 + Int64(minute - offset)) * 60 + Int64(second)
        let milliseconds = seconds * 1_000 + Int64(fraction)
        return Timestamp.years.contains(milliseconds) ? milliseconds : nil
    }

    private mutating func day() -> CalendarDay? {
        defer { rest = rest.dropFirst(10) }
        return CalendarDay(String(Substring(rest.prefix(10))))
    }

    /// Parses two digits.
    private mutating func number(upTo most: Int) -> Int? {
        let digits = rest.prefix(2)
        guard digits.count == 2, digits.allSatisfy(Self.isDigit),
            let number = Int(Substring(digits)), number <= most
        else { return nil }
        rest = rest.dropFirst(2)
        return number
    }

    /// Parses a fraction of a second as milliseconds, zero if there is none.
    private mutating func fraction() -> Int? {
        guard consume(anyOf: ".") != nil else { return 0 }
        let digits = rest.prefix(while: Self.isDigit)
        guard !digits.isEmpty else { return nil }
        rest = rest.dropFirst(digits.count)
        return digits.prefix(3).enumerated().reduce(0) { sum, digit in
            sum + Int(digit.element - UInt8(ascii: "0")) * [100, 10, 1][digit.offset]
        }
    }

    /// Parses the minutes that the time is ahead of UTC.
    private mutating func offset() -> Int? {
        switch consume(anyOf: "Zz+-") {
        case UInt8(ascii: "Z"), UInt8(ascii: "z"):
            return 0
        case let sign?:
            guard let hours = number(upTo: 23), consume(anyOf: ":") != nil,
                let minutes = number(upTo: 59)
            else { return nil }
            return (hours * 60 + minutes) * (sign == UInt8(ascii: "-") ? -1 : 1)
        case nil:
            return nil
        }
    }

    private mutating func consume(anyOf wanted: String) -> UInt8? {
        guard let byte = rest.first, wanted.utf8.contains(byte) else { return nil }
        rest = rest.dropFirst()
        return byte
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) }
}
