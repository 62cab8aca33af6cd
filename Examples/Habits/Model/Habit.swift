public import SanguineModel

/// A daily task, done once or up to a goal.
public struct Habit: SyncedRecord {
    public static let collection = RecordCollection("habits")

    public let id: RecordID
    public var title: String
    /// The value that completes a day, which is 1 for a habit that is either done or not.
    public var goal: Int

    public init(id: RecordID = .new(), title: String, goal: Int = 1) {
        (self.id, self.title, self.goal) = (id, title, goal)
    }
}

/// The value of a habit on one of the user's days.
public struct HabitLog: SyncedRecord {
    public static let collection = RecordCollection("logs", indexes: ["day", "habit"])
    public static let byDay = RecordIndex<HabitLog, CalendarDay>("day")

    public let id: RecordID
    public let habit: RecordID
    public let day: CalendarDay
    public var value: Int

    public init(id: RecordID, habit: RecordID, day: CalendarDay, value: Int) {
        (self.id, self.habit, self.day, self.value) = (id, habit, day, value)
    }

    /// Returns the id that every device derives for a habit's day, so that the day has one log.
    public static func id(of habit: RecordID, on day: CalendarDay) throws -> RecordID {
        try RecordID(derivedFrom: habit, day)
    }
}

/// The types that both client and server register.
public let habitTypes: [any Registrable.Type] = [
    Habit.self, HabitLog.self, AddHabit.self, LogHabit.self, DeleteLog.self, ImportLog.self,
    ConsolidateLogs.self,
]
