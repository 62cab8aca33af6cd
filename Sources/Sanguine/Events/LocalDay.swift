import Foundation
import SanguineModel

/// A day of the user: which one it is, and when it ends in the zone where they are on it.
///
/// The day alone says nothing of its end: in another zone the same day ends up to 26 hours earlier
/// or later.
struct LocalDay: Hashable, Sendable, Codable {
    var day: CalendarDay
    /// The first moment that is not of this day any more, in the zone where it was noted.
    var end: Timestamp

    init(day: CalendarDay, end: Timestamp) {
        self.day = day
        self.end = end
    }

    /// The day that the zone's clocks show at the moment.
    init(containing moment: Timestamp, in zone: TimeZone) {
        day = CalendarDay(containing: moment, in: zone)
        end = CalendarDay.nextMidnight(after: moment, in: zone)
    }
}
