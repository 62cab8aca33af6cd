extension Quota {
    /// The span of time for which a limit holds, in the account's time zone.
    public enum Period: String, Hashable, Codable, Sendable, CaseIterable {
        /// From midnight to midnight.
        case day
        /// From Monday to Sunday (ISO 8601).
        case week
        /// From the first day of a month to its last.
        case month

        /// Returns the first day of the period that contains the day.
        package func first(of day: CalendarDay) -> CalendarDay {
            switch self {
            case .day: return day
            case .week:
                // 1970 began on a Thursday, the fourth day of its week.
                let weekday = ((day.daysSince1970 + 3) % 7 + 7) % 7
                return CalendarDay(daysSince1970: day.daysSince1970 - weekday)
            case .month:
                return CalendarDay(String(day.description.prefix(8)) + "01") ?? day
            }
        }

        /// Returns the first day of the period after the one that contains the day.
        package func next(after day: CalendarDay) -> CalendarDay {
            let first = first(of: day)
            switch self {
            case .day: return day.next
            case .week: return CalendarDay(daysSince1970: first.daysSince1970 + 7)
            case .month:
                // At most 31 days later, a month has another first day.
                return self.first(of: CalendarDay(daysSince1970: first.daysSince1970 + 31))
            }
        }
    }
}
