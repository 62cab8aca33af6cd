public import SanguineModel

/// Adds a habit.
public struct AddHabit: RecordMutation {
    public static let name = "habit.add"
    let habit: Habit

    public init(_ habit: Habit) { self.habit = habit }

    public func apply(to records: inout Records) throws {
        guard (1...1_000_000).contains(habit.goal) else {
            throw Refusal(.invalidContent, "Set a goal from 1 to 1,000,000.")
        }
        guard records.get(Habit.self, habit.id) == nil else { return }
        records.set(habit)
    }
}

/// Logs the value of a day.
///
/// A habit is completed with its goal.
///
/// However often a day is logged, on any number of devices, it has one log. It replaces other logs
/// of the day, such as a pedometer's.
public struct LogHabit: RecordMutation, Superseding {
    public static let name = "habit.log"
    let habit: RecordID
    let day: CalendarDay
    let value: Int
    public var lane: String { habit.text }

    public init(_ habit: RecordID, on day: CalendarDay, value: Int) {
        (self.habit, self.day, self.value) = (habit, day, value)
    }

    public func apply(to records: inout Records) throws {
        guard records.get(Habit.self, habit) != nil else {
            throw Refusal(.notFound, "The habit is gone.")
        }
        guard (1...1_000_000).contains(value) else {
            throw Refusal(.invalidContent, "Log from 1 to 1,000,000, or delete the log.")
        }
        for log in records.query(where: HabitLog.byDay, is: day) where log.habit == habit {
            records.delete(HabitLog.self, log.id)
        }
        let id = try HabitLog.id(of: habit, on: day)
        records.set(HabitLog(id: id, habit: habit, day: day, value: value))
    }

    // The last of several taps replaces the earlier ones.
    public func supersedes(_ earlier: any Mutation) -> Supersession? {
        guard let earlier = earlier as? LogHabit else { return nil }
        return earlier.habit == habit && earlier.day == day ? .replaces : nil
    }
}

/// Deletes the logs of a day.
public struct DeleteLog: RecordMutation {
    public static let name = "habit.delete-log"
    let habit: RecordID
    let day: CalendarDay
    public var lane: String { habit.text }

    public init(_ habit: RecordID, on day: CalendarDay) { (self.habit, self.day) = (habit, day) }

    public func apply(to records: inout Records) throws {
        for log in records.query(where: HabitLog.byDay, is: day) where log.habit == habit {
            records.delete(HabitLog.self, log.id)
        }
    }
}

/// Adds a log of another source, such as a pedometer, to the existing ones.
public struct ImportLog: RecordMutation {
    public static let name = "habit.import-log"
    let log: HabitLog
    public var lane: String { log.habit.text }

    public init(_ log: HabitLog) { self.log = log }

    public func apply(to records: inout Records) throws { records.set(log) }
}

/// Merges all logs of a habit on a day into one.
public struct ConsolidateLogs: RecordMutation {
    public static let name = "habit.consolidate"
    let habit: RecordID
    let day: CalendarDay
    public var lane: String { habit.text }

    public init(_ habit: RecordID, on day: CalendarDay) { (self.habit, self.day) = (habit, day) }

    public func apply(to records: inout Records) throws {
        let logs = records.query(where: HabitLog.byDay, is: day).filter { $0.habit == habit }
        guard logs.count > 1 else { return }
        for log in logs { records.delete(HabitLog.self, log.id) }
        let sum = logs.reduce(0) { $0 + $1.value }
        let id = try HabitLog.id(of: habit, on: day)
        records.set(HabitLog(id: id, habit: habit, day: day, value: sum))
    }
}
