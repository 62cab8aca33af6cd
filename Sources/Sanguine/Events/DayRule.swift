import Foundation
import SanguineModel

/// The rule of ``Policy/untilMidnight``: a value is good until the user's first midnight after the
/// fetch, wherever that comes.
///
/// The day is noted with the value when it arrives, with its end in the zone that is stored then. A
/// value is stale once that moment has come, whatever zone is stored now; once a midnight of the
/// zone that is stored now has passed since the fetch; and where it is another day. No length of a
/// day is assumed, so days of 23 and 25 hours, skipped midnights and skipped days come out right.
/// In one zone a value that is stale stays so: a user who moves west does not get yesterday's value
/// for another day, and one who moves east into the next day gets a new one.
enum DayRule {
    /// Whether a value counts as true without asking again.
    ///
    /// A value from the future does not: the clock was set back, and nobody knows by how much.
    ///
    /// - Parameters:
    ///   - day: The local day on which the value was fetched, in the zone of then.
    ///   - asOf: When it was fetched.
    ///   - now: The present moment.
    ///   - zone: Where the user's days begin and end now.
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
