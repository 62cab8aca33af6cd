import Foundation
import HabitsApp
import HabitsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Numbers that follow from the records, and days that are the user's.
@Suite("Progress of habits", .bounded)
struct HabitProgressTests {
    @Test(arguments: 1...20)
    func `summary, streaks and completion agree, whatever is pending`(seed: UInt64) async throws {
        let authority = InMemoryAuthority(schema: RecordSchema(habitTypes))
        let device = TestDevice(network: authority, seed: seed) { $0.register(habitTypes) }
        let client = try device.launch()
        var random = SplitMix64(seed: seed)
        let habits = (0..<3).map { Habit(title: "\($0)", goal: $0 + 1) }
        for habit in habits { try client.perform(AddHabit(habit)) }
        let today = CalendarDay(daysSince1970: 20_000)

        // One read of both: the feed may bring something between two.
        let both = RecordQuery(reading: Habit.collection, HabitLog.collection) { records in
            let logs: [HabitLog] = records.records()
            return Both(
                progress: HabitProgress(habits: records.records(), logs: logs, today: today),
                logs: logs
            )
        }
        for _ in 0..<60 {
            let habit = habits[Int.random(in: 0..<3, using: &random)]
            let day = CalendarDay(daysSince1970: 20_000 - Int.random(in: 0..<6, using: &random))
            switch Int.random(in: 0..<6, using: &random) {
            // A habit that was refused cannot be logged.
            case 0...2: _ = try? client.perform(LogHabit(habit.id, on: day, value: habit.goal))
            case 3: try client.perform(DeleteLog(habit.id, on: day))
            case 4:
                let refuses = Bool.random(using: &random)
                authority.refuse { _ in refuses ? Refusal(.notOwner, "No.") : nil }
            default: try? await client.synchronize()
            }
            let seen = client.cached(both)
            Self.check(seen.progress, seen.logs, seed)
        }
        client.close()
    }

    private struct Both: Sendable, Equatable {
        let progress: HabitProgress
        let logs: [HabitLog]
    }

    /// Each number, counted again from the records as they are visible.
    private static func check(_ progress: HabitProgress, _ logs: [HabitLog], _ seed: UInt64) {
        let days = (19_995...20_000).map { CalendarDay(daysSince1970: $0) }
        var complete = 0
        for habit in progress.habits {
            let done = Set(
                days.filter { day in
                    logs.filter { $0.habit == habit.id && $0.day == day }
                        .reduce(0) { $0 + $1.value } >= habit.goal
                }
            )
            complete += done.count
            var streak = 0
            for day in days.reversed() {
                if done.contains(day) { streak += 1 } else if day != progress.today { break }
            }
            #expect(progress.streak(of: habit) == streak, "seed \(seed)")
        }
        let whole = progress.habits.count * days.count
        let share = whole == 0 ? 0 : Double(complete) / Double(whole)
        #expect(progress.completion(in: days[0]...days[5]) == share, "seed \(seed)")
        let today = progress.habits.count { progress.isComplete($0, on: progress.today) }
        #expect(progress.completeToday == today, "seed \(seed)")
    }

    @MainActor
    @Test(arguments: [
        // The moment in UTC, the zone, the user's day: both nights of daylight saving, and travel.
        ("2026-03-29T00:30:00Z", "Europe/Berlin", "2026-03-29"),
        ("2026-03-29T22:30:00Z", "Europe/Berlin", "2026-03-30"),
        ("2026-10-24T22:30:00Z", "Europe/Berlin", "2026-10-25"),
        ("2026-10-25T22:30:00Z", "Europe/Berlin", "2026-10-25"),
        ("2026-11-22T23:30:00Z", "Pacific/Auckland", "2026-11-23"),
        ("2026-11-22T23:30:00Z", "America/Los_Angeles", "2026-11-22"),
    ])
    func `a tap is logged on the user's day`(moment: String, zone: String, day: String) throws {
        let clock = ManualWallClock(try #require(Timestamp(moment)))
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.register(habitTypes)
        (configuration.clock, configuration.timeZone) = (clock, zone)
        let client = try SanguineClient(configuration)
        let screen = HabitsScreen(client, clock: clock)

        try screen.complete(try screen.add("Run"))

        #expect(client.records(HabitLog.self).map(\.day.description) == [day])
        client.close()
    }

    @MainActor
    @Test func `a streak goes on over a night of daylight saving, and over travel`() throws {
        let clock = ManualWallClock(try #require(Timestamp("2026-03-28T12:00:00Z")))
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.register(habitTypes)
        (configuration.clock, configuration.timeZone) = (clock, "Europe/Berlin")
        let client = try SanguineClient(configuration)
        let screen = HabitsScreen(client, clock: clock)
        let run = try screen.add("Run")

        for _ in 1...3 {
            try screen.complete(run)
            clock.advance(by: .hours(24))
            screen.dayMayHaveChanged()
        }
        #expect(screen.progress.streak(of: run) == 3)
        try client.setTimeZone("America/New_York")  // An earlier day, perhaps; none is lost.
        screen.dayMayHaveChanged()

        #expect(screen.progress.streak(of: run) == 3)
        client.close()
    }
}
