public import Foundation

/// A day of the Gregorian calendar without a time zone: `2026-11-21`.
///
/// The current day depends on the user's location, so a day is derived from a timestamp *and* a
/// zone:
///
/// ```swift
/// let today = CalendarDay(containing: clock.now(), in: zone)
/// let reset = today.next.start(in: zone)  // The user's next midnight.
/// ```
///
/// Days of 23 and 25 hours are handled correctly, because the zone's own rules determine their
/// ends.
public struct CalendarDay: Hashable, Comparable, Sendable {
    // A count of days makes order and arithmetic trivial; the text form is derived from it.
    /// The number of days since January 1, 1970.
    public let daysSince1970: Int

    /// Creates the day that is the given number of days after January 1, 1970.
    public init(daysSince1970: Int) { self.daysSince1970 = daysSince1970 }

    /// Creates the day that the zone's clocks show at the moment.
    public init(containing moment: Timestamp, in zone: TimeZone) {
        let offset = zone.secondsFromGMT(for: moment.date)
        let local = moment.millisecondsSince1970 + Int64(offset) * 1_000
        daysSince1970 = Int(local.quotientAndRemainder(flooringBy: 86_400_000).0)
    }

    /// The following day.
    public var next: CalendarDay { CalendarDay(daysSince1970: daysSince1970 + 1) }

    /// The first moment of the day in the zone.
    ///
    /// This is midnight, or the first moment after it where a clock change skips midnight.
    public func start(in zone: TimeZone) -> Timestamp {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = zone
        let (year, month, day) = Self.civil(fromDaysSince1970: daysSince1970)
        // Noon exists on every day except those that a zone skipped when it crossed the date line.
        // Such a day starts when the next one does.
        let noon = DateComponents(year: year, month: month, day: day, hour: 12)
        guard let date = calendar.date(from: noon) else {
            preconditionFailure("The Gregorian calendar has a noon on every day.")
        }
        return Timestamp(calendar.startOfDay(for: date))
    }

    /// Returns the first moment after the given one at which the zone's clocks show a later day.
    ///
    /// The result is always later than the given moment, by about 26 hours at most. In zones that
    /// set their clocks back across midnight, as St. John's did at 00:01 until 2011, a day ends
    /// twice, and the result is the next of the two.
    public static func nextMidnight(after moment: Timestamp, in zone: TimeZone) -> Timestamp {
        let today = CalendarDay(containing: moment, in: zone)
        let start = today.next.start(in: zone)
        guard start <= moment else { return start }
        // The day has ended once. The rest of the repeated hour ends by the current offset.
        let offset = zone.secondsFromGMT(for: moment.date)
        let end = Int64(today.daysSince1970 + 1) * 86_400_000 - Int64(offset) * 1_000
        return Timestamp(millisecondsSince1970: end)
    }

    /// Orders days from earlier to later.
    public static func < (lhs: CalendarDay, rhs: CalendarDay) -> Bool {
        lhs.daysSince1970 < rhs.daysSince1970
    }

    /// `civil_from_days` (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    static func civil(fromDaysSince1970 days: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    /// `days_from_civil`, the inverse, from the same source.
    private static func days(year: Int, month: Int, day: Int) -> Int {
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = (shiftedYear >= 0 ? shiftedYear : shiftedYear - 399) / 400
        let yearOfEra = shiftedYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }
}

extension CalendarDay: CustomStringConvertible {
    /// The form `YYYY-MM-DD`.
    public var description: String {
        let (year, month, day) = Self.civil(fromDaysSince1970: daysSince1970)
        var text = ""
        text.append(zeroPadded: year, to: 4)
        text += "-"
        text.append(zeroPadded: month, to: 2)
        text += "-"
        text.append(zeroPadded: day, to: 2)
        return text
    }

    /// Creates a day from `YYYY-MM-DD`, or returns `nil` if the text is not an existing day.
    public init?(_ text: String) {
        // Check the length before splitting: the text is untrusted, and a character can have any
        // length.
        guard text.utf8.count == 10 else { return nil }
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.utf8.count) == [4, 2, 2],
            text.utf8.allSatisfy({ $0 == UInt8(ascii: "-") || (48...57).contains($0) }),
            let year = Int(parts[0]), let month = Int(parts[1]), let day = Int(parts[2])
        else { return nil }
        daysSince1970 = Self.days(year: year, month: month, day: day)
        // A day that does not exist, such as February 30, converts back to a different day.
        guard Self.civil(fromDaysSince1970: daysSince1970) == (year, month, day) else { return nil }
    }
}

extension CalendarDay: Codable {
    /// Decodes `YYYY-MM-DD`.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let day = CalendarDay(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "A day must exist and have the form YYYY-MM-DD."
            )
        }
        self = day
    }

    /// Encodes `YYYY-MM-DD`.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
