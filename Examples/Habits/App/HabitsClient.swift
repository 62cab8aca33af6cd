public import Foundation
public import HabitsModel
public import Sanguine

extension SanguineClient.Configuration {
    /// The configuration of the app, its widget and its tests.
    public static func habits(server: URL?, folder: URL) -> Self {
        var configuration = Self(server: server)
        configuration.folder = folder
        configuration.register(habitTypes)
        return configuration
    }
}

extension RecordQuery where Value == HabitProgress {
    /// Everything that a screen shows, from one state of the records.
    public static func progress(on today: CalendarDay) -> Self {
        RecordQuery(reading: Habit.collection, HabitLog.collection) { records in
            HabitProgress(habits: records.records(), logs: records.records(), today: today)
        }
    }
}
