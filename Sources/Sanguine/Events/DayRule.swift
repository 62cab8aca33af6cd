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

}

extension Policy.Freshness {
    /// Whether a value still counts as true that arrived then.
    ///
    /// A moment in the future counts as stale: the clock was set back, and nobody knows by how
    /// much.
    ///
    /// - Parameters:
    ///   - asOf: When it arrived.
    ///   - day: The user's day on which it was fetched; `nil` if it was not noted.
    ///   - isOfSession: Whether this process fetched it.
    ///   - now: The present moment.
    ///   - zone: Where the user's days begin and end now.
    /// - Returns: Whether it need not be asked for again.
    func holds(
        since asOf: Timestamp,
        day: @autoclosure () -> CalendarDay?,
        isOfSession: Bool,
        at now: Timestamp,
        in zone: TimeZone
    ) -> Bool {
        guard asOf <= now else { return false }
        return switch self {
        case .duration(let duration): now - asOf < duration
        case .never: false
        case .session: isOfSession
        case .untilMidnight:
            day().map {
                DayRule.isFresh(fetchedOn: $0, asOf: asOf, now: now, zone: zone)
            } ?? false
        case .forever: true
        }
    }
}
