import SanguineModel

/// Insights into the user's habits over time, from the same state as ``HabitProgress``.
public struct HabitInsights: Sendable, Equatable {
    let progress: HabitProgress

    /// The number of consecutive complete days up to today.
    ///
    /// An unfinished today does not break a streak.
    public func streak(of habit: Habit) -> Int {
        var day = progress.today
        if !progress.isComplete(habit, on: day) { day = day.before }
        let last = day
        while progress.isComplete(habit, on: day) { day = day.before }
        return last.daysSince1970 - day.daysSince1970
    }

    /// The habit with the longest streak, the first of several, or `nil` without a streak.
    public var best: Habit? {
        progress.habits.filter { streak(of: $0) > 0 }.max { streak(of: $0) < streak(of: $1) }
    }
}

extension CalendarDay {
    /// The day before.
    fileprivate var before: CalendarDay { CalendarDay(daysSince1970: daysSince1970 - 1) }
}
