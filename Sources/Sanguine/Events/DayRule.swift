import Foundation
import SanguineModel

/// The rule of ``Policy/untilMidnight``: a value is good for the local day on which it was fetched.
///
/// The day is noted with the value when it arrives, in the zone that is stored then, and compared
/// with the day that it is now, in the zone that is stored now. No length of a day is assumed, so
/// days of 23 and 25 hours, skipped midnights and skipped days come out right; and a user who moves
/// to a zone where it is another day gets a new value, but never an old one for longer.
enum DayRule {
    /// Whether a value counts as true without asking again.
    ///
    /// A value from the future does not: the clock was set back, and nobody knows by how much.
    ///
    /// - Parameters:
    ///   - day: The local day on which the value was fetched, in the zone of then.
    ///   - asOf: When it was fetched.
    ///   - now: The present moment.
    ///   - today: The present local day, in the zone of now.
    /// - Returns: Whether it is still the day of the fetch.
    static func isFresh(
        fetchedOn day: CalendarDay,
        asOf: Timestamp,
        now: Timestamp,
        today: CalendarDay
    ) -> Bool {
        asOf <= now && day == today
    }

    /// Whether a value counts as true without asking again, in the zone that is stored now.
    static func isFresh(
        fetchedOn day: CalendarDay,
        asOf: Timestamp,
        now: Timestamp,
        zone: TimeZone
    ) -> Bool {
        let today = CalendarDay(containing: now, in: zone)
        return isFresh(fetchedOn: day, asOf: asOf, now: now, today: today)
    }

    /// When values fetched now cease to be fresh in the zone.
    static func nextMidnight(after now: Timestamp, zone: TimeZone) -> Timestamp {
        CalendarDay.nextMidnight(after: now, in: zone)
    }
}
