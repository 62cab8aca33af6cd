import Foundation
public import HabitsModel
public import Observation
public import Sanguine

/// What the app's screens show, and what a tap does.
@MainActor
@Observable
public final class HabitsScreen {
    private let client: SanguineClient
    private let clock: any WallClock
    private var shown: RecordModel<HabitProgress>
    /// The day that is shown as today.
    public private(set) var today: CalendarDay
    private let outbox: OutboxModel

    public init(_ client: SanguineClient, clock: any WallClock = SystemWallClock()) {
        (self.client, self.clock) = (client, clock)
        outbox = client.outbox.model
        let day = Self.day(of: client, clock)
        today = day
        shown = client.model(.progress(on: day))
    }

    // MARK: - What is shown

    public var progress: HabitProgress { shown.value }

    /// What the server refused, with its reason and a button to try again.
    public var refused: [Outbox.Refused] { outbox.refused }

    /// What is still to be sent.
    public var unsent: Int { outbox.summary.unsent }

    // MARK: - What a tap does

    public func add(_ title: String, goal: Int = 1) throws -> Habit {
        let habit = Habit(title: title, goal: goal)
        try client.perform(AddHabit(habit))
        return habit
    }

    public func complete(_ habit: Habit) throws {
        try client.perform(LogHabit(habit.id, on: today, value: habit.goal))
    }

    public func set(_ value: Int, for habit: Habit) throws {
        try client.perform(LogHabit(habit.id, on: today, value: value))
    }

    public func clear(_ habit: Habit) throws {
        try client.perform(DeleteLog(habit.id, on: today))
    }

    public func consolidate(_ habit: Habit) throws {
        try client.perform(ConsolidateLogs(habit.id, on: today))
    }

    public func retry(_ operation: Outbox.Refused) throws { try outbox.retry(operation.id) }

    // MARK: - Days

    /// A new day, or another time zone: called at midnight, and when the app comes back.
    public func dayMayHaveChanged() {
        let day = Self.day(of: client, clock)
        guard day != today else { return }
        today = day
        shown = client.model(.progress(on: day))
    }

    private static func day(of client: SanguineClient, _ clock: any WallClock) -> CalendarDay {
        let zone = TimeZone(identifier: client.timeZone) ?? .current
        return CalendarDay(containing: clock.now(), in: zone)
    }
}
