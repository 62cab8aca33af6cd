public import Foundation

/// A point in time, in whole milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
///
/// On the wire it is RFC 3339 in UTC with milliseconds: `2026-11-21T19:18:39.250Z`. Any offset and
/// any number of decimals is accepted; digits after the third are dropped.
///
/// RFC 3339 covers the years 0 to 9999. A timestamp outside of them is replaced by the closest one
/// inside, so that every timestamp can be written and read. Distant timestamps mean "never".
///
/// The current time comes from a ``WallClock``, so that tests can control it: no code of Sanguine
/// asks the system for the time directly.
public struct Timestamp: Hashable, Comparable, Sendable {
    /// The milliseconds since 1970-01-01T00:00:00Z; negative for earlier times.
    public let millisecondsSince1970: Int64

    /// From the start of the year 0 to the end of the year 9999, the years with four digits.
    static let years: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999

    /// Creates a timestamp from milliseconds since 1970, limited to the years 0 to 9999.
    public init(millisecondsSince1970: Int64) {
        self.millisecondsSince1970 = min(
            max(millisecondsSince1970, Self.years.lowerBound),
            Self.years.upperBound
        )
    }

    /// Creates a timestamp from a date, rounded down to the millisecond and limited to the years 0
    /// to 9999.
    public init(_ date: Date) {
        // A date is a floating point number with a precision of 0.05 ms in the year 9999. Without
        // the added tenth, 0.250 would become 0.249.
        let milliseconds = (date.timeIntervalSince1970 * 1_000 + 0.1).rounded(.down)
        let years = Double(Self.years.lowerBound)...Double(Self.years.upperBound)
        // A value that is not a number becomes the latest timestamp.
        let nearest =
            milliseconds.isNaN
            ? years.upperBound : min(max(milliseconds, years.lowerBound), years.upperBound)
        millisecondsSince1970 = Int64(nearest)
    }

    /// The same point in time as a `Date`.
    public var date: Date {
        Date(timeIntervalSince1970: Double(millisecondsSince1970) / 1_000)
    }

    /// Orders moments from earlier to later.
    public static func < (lhs: Timestamp, rhs: Timestamp) -> Bool {
        lhs.millisecondsSince1970 < rhs.millisecondsSince1970
    }

    /// Returns the moment that is later by the duration, to the millisecond.
    public static func + (lhs: Timestamp, rhs: Duration) -> Timestamp {
        let (sum, isPast) = lhs.millisecondsSince1970
            .addingReportingOverflow(rhs.wholeMilliseconds)
        return Timestamp(millisecondsSince1970: isPast ? (rhs < .zero ? .min : .max) : sum)
    }

    /// Returns the moment that is earlier by the duration, to the millisecond.
    public static func - (lhs: Timestamp, rhs: Duration) -> Timestamp {
        let (difference, isPast) = lhs.millisecondsSince1970
            .subtractingReportingOverflow(rhs.wholeMilliseconds)
        return Timestamp(
            millisecondsSince1970: isPast ? (rhs < .zero ? .max : .min) : difference
        )
    }

    /// Returns the time from the right moment to the left one, negative if the right one is later.
    public static func - (lhs: Timestamp, rhs: Timestamp) -> Duration {
        .milliseconds(lhs.millisecondsSince1970 - rhs.millisecondsSince1970)
    }
}

/// A source of the current time.
///
/// Tests pass one that they control.
public protocol WallClock: Sendable {
    /// Returns the current time.
    func now() -> Timestamp
}

/// The system's clock.
public struct SystemWallClock: WallClock {
    /// Creates the clock.
    public init() {}

    /// Returns the system's current time.
    public func now() -> Timestamp {
        Timestamp(Date())  // tidy: allow hidden-clock: the one place that reads the system's clock.
    }
}

extension Duration {
    /// The duration in milliseconds, with the rest dropped.
    public var wholeMilliseconds: Int64 {
        components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }

    /// The duration in seconds, rounded up, for `Retry-After` and `expiresIn`.
    public var secondsRoundedUp: Int {
        let milliseconds = wholeMilliseconds
        return Int(milliseconds / 1_000) + (milliseconds % 1_000 > 0 ? 1 : 0)
    }
}

extension Timestamp: CustomStringConvertible {
    /// The RFC 3339 form, in UTC with milliseconds.
    ///
    /// Dates are computed by Howard Hinnant's `civil_from_days`, because a formatter would take
    /// longer than the rest of a response.
    public var description: String {
        let (days, rest) = millisecondsSince1970.quotientAndRemainder(flooringBy: 86_400_000)
        let (year, month, day) = CalendarDay.civil(fromDaysSince1970: Int(days))
        let inDay = Int(rest)
        return String(unsafeUninitializedCapacity: 24) { bytes in
            bytes.writeDigits(of: year, in: 0..<4, then: "-")
            bytes.writeDigits(of: month, in: 5..<7, then: "-")
            bytes.writeDigits(of: day, in: 8..<10, then: "T")
            bytes.writeDigits(of: inDay / 3_600_000, in: 11..<13, then: ":")
            bytes.writeDigits(of: inDay / 60_000 % 60, in: 14..<16, then: ":")
            bytes.writeDigits(of: inDay / 1_000 % 60, in: 17..<19, then: ".")
            bytes.writeDigits(of: inDay % 1_000, in: 20..<23, then: "Z")
            return 24
        }
    }

    /// Creates a timestamp from RFC 3339 text, or returns `nil` if the text is not a moment.
    public init?(_ text: String) {
        guard let milliseconds = MomentReader.milliseconds(of: text) else { return nil }
        self.init(millisecondsSince1970: milliseconds)
    }
}

extension Timestamp: Codable {
    /// Decodes RFC 3339 text.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let moment = Timestamp(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "A time is RFC 3339, such as 2026-11-21T19:18:39.250Z."
            )
        }
        self = moment
    }

    /// Encodes RFC 3339 text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

// 64 bits on all platforms: `Int` has 32 on some watches, too few for milliseconds since 1970.
extension Int64 {
    func quotientAndRemainder(flooringBy divisor: Int64) -> (Int64, Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}

extension String {
    mutating func append(zeroPadded number: Int, to width: Int) {
        let digits = String(number)
        for _ in 0..<max(0, width - digits.utf8.count) { append("0") }
        append(digits)
    }
}

extension UnsafeMutableBufferPointer<UInt8> {
    /// Writes a number with leading zeros into the range, and a character after it.
    fileprivate func writeDigits(of number: Int, in places: Range<Int>, then next: Unicode.Scalar) {
        var rest = number
        for place in places.reversed() {
            self[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        self[places.upperBound] = UInt8(ascii: next)
    }
}
