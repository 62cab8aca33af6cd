import Foundation
import SanguineModel

/// The rule of ``Policy/untilMidnight``: a value is fresh until the user's first midnight after the
/// fetch, wherever that comes.
///
/// The day is stored with the value when it arrives, with its end in the zone that is set then. A
/// value is stale if that end has passed, if a midnight of the current zone has passed since the
/// fetch, or if the current zone has a different date. No length of a day is assumed, so days of 23
/// and 25 hours, skipped midnights and skipped days are handled correctly. In one zone a stale
/// value stays stale: a user who moves west does not get yesterday's value for another day, and one
/// who moves east into the next day gets a new one.
enum DayRule {
    /// Returns whether a value can be used without a fetch.
    ///
    /// A value from the future is stale: the clock was set back, by an unknown amount.
    ///
    /// - Parameters:
    ///   - day: The local day of the fetch, in the zone at that time.
    ///   - asOf: When the value was fetched.
    ///   - now: The current time.
    ///   - zone: The current zone of the user's days.
    /// - Returns: Whether no midnight has come since the fetch.
    static func isFresh(
        fetchedOn day: LocalDay,
        asOf: Timestamp,
        now: Timestamp,
        zone: TimeZone
    ) -> Bool {
        guard asOf <= now, now < day.end else { return false }
        let today = CalendarDay(containing: now, in: zone)
        return day.day == today && CalendarDay(containing: asOf, in: zone) == today
    }
}

extension Policy.Freshness {
    /// Returns whether a value that arrived at that time is still fresh.
    ///
    /// A time in the future counts as stale: the clock was set back, by an unknown amount.
    ///
    /// - Parameters:
    ///   - asOf: When it arrived.
    ///   - day: The user's day on which it was fetched; `nil` if it was not recorded.
    ///   - isOfSession: Whether this process fetched it.
    ///   - now: The current time.
    ///   - zone: The current zone of the user's days.
    /// - Returns: Whether it need not be fetched again.
    func holds(
        since asOf: Timestamp,
        day: LocalDay?,
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
            day.map {
                DayRule.isFresh(fetchedOn: $0, asOf: asOf, now: now, zone: zone)
            } ?? false
        case .forever: true
        }
    }
}
