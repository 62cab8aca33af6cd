import SanguineModel

/// What the user's habits show over time; made of the same state as ``HabitProgress``.
public struct HabitInsights: Sendable, Equatable {
    let progress: HabitProgress

    /// Complete days in a row, up to today; a day that is not over breaks nothing.
    public func streak(of habit: Habit) -> Int {
        var day = progress.today
        if !progress.isComplete(habit, on: day) { day = day.before }
        let last = day
        while progress.isComplete(habit, on: day) { day = day.before }
        return last.daysSince1970 - day.daysSince1970
    }

    /// The habit with the longest streak, the first of several; none if no habit has any.
    public var best: Habit? {
        progress.habits.filter { streak(of: $0) > 0 }.max { streak(of: $0) < streak(of: $1) }
    }
}

extension CalendarDay {
    /// The day before.
    fileprivate var before: CalendarDay { CalendarDay(daysSince1970: daysSince1970 - 1) }
}
