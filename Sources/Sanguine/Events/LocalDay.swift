import Foundation
import SanguineModel

/// A day of the user, and its end in the zone where the user is.
///
/// The date does not determine its end: in another zone the same day ends up to 26 hours earlier or
/// later.
struct LocalDay: Hashable, Sendable, Codable {
    var day: CalendarDay
    /// The first moment after this day, in the zone where it was recorded.
    var end: Timestamp

    init(day: CalendarDay, end: Timestamp) {
        self.day = day
        self.end = end
    }

    /// Creates the day that the zone's clocks show at the moment.
    init(containing moment: Timestamp, in zone: TimeZone) {
        day = CalendarDay(containing: moment, in: zone)
        end = CalendarDay.nextMidnight(after: moment, in: zone)
    }
}
