public import SanguineModel

/// All numbers about the user's habits.
///
/// They are derived from one state of the records, so they cannot contradict each other.
public struct HabitProgress: Sendable, Equatable {
    public let today: CalendarDay
    public let habits: [Habit]
    private let done: [RecordID: [CalendarDay: Int]]

    public init(habits: [Habit], logs: [HabitLog], today: CalendarDay) {
        (self.habits, self.today) = (habits, today)
        done = logs.reduce(into: [:]) { done, log in
            done[log.habit, default: [:]][log.day, default: 0] += log.value
        }
    }

    public func value(of habit: Habit, on day: CalendarDay) -> Int { done[habit.id]?[day] ?? 0 }

    public func isComplete(_ habit: Habit, on day: CalendarDay) -> Bool {
        value(of: habit, on: day) >= habit.goal
    }

    /// The number of habits that are complete today.
    public var completeToday: Int { complete(on: today) }

    /// Returns the number of habits that are complete on a day.
    public func complete(on day: CalendarDay) -> Int { habits.count { isComplete($0, on: day) } }

    /// Returns the complete share of all habits' days in a range, from 0 to 1.
    ///
    /// The range ends today if its last day is later.
    public func completion(in days: ClosedRange<CalendarDay>) -> Double {
        let last = min(days.upperBound, today)
        guard days.lowerBound <= last, !habits.isEmpty else { return 0 }
        let days = days.lowerBound.daysSince1970...last.daysSince1970
        let complete = days.reduce(0) { sum, day in
            sum + habits.count { isComplete($0, on: CalendarDay(daysSince1970: day)) }
        }
        return Double(complete) / Double(habits.count * days.count)
    }

    /// Streaks, from the same state.
    public var insights: HabitInsights { HabitInsights(progress: self) }
}
