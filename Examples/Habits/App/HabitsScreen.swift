import Foundation
public import HabitsModel
public import Observation
public import Sanguine

/// The state of the app's screens and the actions of their buttons.
@MainActor
@Observable
public final class HabitsScreen {
    private let client: SanguineClient
    private let clock: any WallClock
    private var shown: RecordModel<HabitProgress>
    /// The user's current day.
    public private(set) var today: CalendarDay
    /// The shown day, to which taps apply: today or an earlier one.
    public private(set) var day: CalendarDay
    private let outbox: OutboxModel

    public init(_ client: SanguineClient, clock: any WallClock = SystemWallClock()) {
        (self.client, self.clock) = (client, clock)
        outbox = client.outbox.model
        let now = Self.day(of: client, clock)
        (today, day) = (now, now)
        shown = client.model(.progress(on: now))
    }

    // MARK: - State

    public var progress: HabitProgress { shown.value }

    /// The operations that the server refused, each with its reason and for another try.
    public var refused: [Outbox.Refused] { outbox.refused }

    /// The number of operations that are not sent yet.
    public var unsent: Int { outbox.summary.unsent }

    // MARK: - Actions

    public func add(_ title: String, goal: Int = 1) throws -> Habit {
        let habit = Habit(title: title, goal: goal)
        try client.perform(AddHabit(habit))
        return habit
    }

    public func complete(_ habit: Habit) throws {
        try client.perform(LogHabit(habit.id, on: day, value: habit.goal))
    }

    public func set(_ value: Int, for habit: Habit) throws {
        try client.perform(LogHabit(habit.id, on: day, value: value))
    }

    public func clear(_ habit: Habit) throws {
        try client.perform(DeleteLog(habit.id, on: day))
    }

    public func consolidate(_ habit: Habit) throws {
        try client.perform(ConsolidateLogs(habit.id, on: day))
    }

    public func retry(_ operation: Outbox.Refused) throws { try outbox.retry(operation.id) }

    // MARK: - Days

    /// Shows another day, or today if that day is in the future.
    public func show(_ other: CalendarDay) { day = min(other, today) }

    /// Follows midnights and time zones until the task is cancelled, as `.task { await … }` of a
    /// view.
    public func followDays(clock: any Clock<Duration> = ContinuousClock()) async {
        repeat { dayMayHaveChanged() } while (try? await clock.sleep(for: .seconds(30))) != nil
    }

    /// Applies a new day or another time zone.
    ///
    /// An app also calls it when it returns.
    public func dayMayHaveChanged() {
        let now = Self.day(of: client, clock)
        guard now != today else { return }
        // A screen that shows today moves to the new day.
        (day, today) = (day == today ? now : min(day, now), now)
        shown = client.model(.progress(on: now))
    }

    private static func day(of client: SanguineClient, _ clock: any WallClock) -> CalendarDay {
        let zone = TimeZone(identifier: client.timeZone) ?? .current
        return CalendarDay(containing: clock.now(), in: zone)
    }
}
