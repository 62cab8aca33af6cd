public import SanguineModel

/// All that the app says about the user's habits, made of one state of the records: so no two
/// numbers of it can contradict each other.
public struct HabitProgress: Sendable, Equatable {
    public let today: CalendarDay
    public let habits: [Habit]
    private let done: [RecordID: [CalendarDay: Int]]

    public init(habits: [Habit], logs: [HabitLog], today: CalendarDay) {
        (self.habits, self.today) = (habits, today)
        var done: [RecordID: [CalendarDay: Int]] = [:]
        for log in logs { done[log.habit, default: [:]][log.day, default: 0] += log.value }
        self.done = done
    }

    public func value(of habit: Habit, on day: CalendarDay) -> Int { done[habit.id]?[day] ?? 0 }

    public func isComplete(_ habit: Habit, on day: CalendarDay) -> Bool {
        value(of: habit, on: day) >= habit.goal
    }

    /// How many habits are complete today.
    public var completeToday: Int { habits.count { isComplete($0, on: today) } }

    /// Complete days in a row, up to today; a day that is not over breaks nothing.
    public func streak(of habit: Habit) -> Int {
        var day = today.daysSince1970
        if !isComplete(habit, on: today) { day -= 1 }
        let last = day
        while isComplete(habit, on: CalendarDay(daysSince1970: day)) { day -= 1 }
        return last - day
    }

    /// The part of all habits' days that is complete, from the first day of the stretch to its
    /// last, or today if that is earlier; from 0 to 1.
    public func completion(in days: ClosedRange<CalendarDay>) -> Double {
        let last = min(days.upperBound, today).daysSince1970
        let first = days.lowerBound.daysSince1970
        guard first <= last, !habits.isEmpty else { return 0 }
        let complete = (first...last).reduce(0) { sum, day in
            sum + habits.count { isComplete($0, on: CalendarDay(daysSince1970: day)) }
        }
        return Double(complete) / Double(habits.count * (last - first + 1))
    }

    /// The habit with the longest streak, if one has any.
    public var best: Habit? {
        habits.max { streak(of: $0) < streak(of: $1) }.flatMap { streak(of: $0) > 0 ? $0 : nil }
    }
}
