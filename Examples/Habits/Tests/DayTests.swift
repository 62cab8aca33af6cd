import Foundation
import HabitsApp
import HabitsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Days are the user's, in any time zone and with 23 or 25 hours.
@MainActor
@Suite("Days of habits", .bounded(.seconds(60)))
struct DayTests {
    /// A time in UTC, the user's time zone, and the day there.
    private struct Tap: Sendable {
        let moment: String
        let zone: String
        let day: String
    }

    private static let taps = [
        // The day of 23 hours, from its first hour to the last UTC hour of the day before.
        Tap(moment: "2026-03-28T22:30:00Z", zone: "Europe/Berlin", day: "2026-03-28"),
        Tap(moment: "2026-03-28T23:30:00Z", zone: "Europe/Berlin", day: "2026-03-29"),
        Tap(moment: "2026-03-29T22:30:00Z", zone: "Europe/Berlin", day: "2026-03-30"),
        // The day of 25 hours.
        Tap(moment: "2026-10-24T22:30:00Z", zone: "Europe/Berlin", day: "2026-10-25"),
        Tap(moment: "2026-10-25T22:30:00Z", zone: "Europe/Berlin", day: "2026-10-25"),
        Tap(moment: "2026-10-25T23:30:00Z", zone: "Europe/Berlin", day: "2026-10-26"),
        // Across the date line, the same moment is on the day before.
        Tap(moment: "2026-11-22T23:30:00Z", zone: "Pacific/Auckland", day: "2026-11-23"),
        Tap(moment: "2026-11-22T23:30:00Z", zone: "America/Los_Angeles", day: "2026-11-22"),
    ]

    @Test func `a tap is logged on the user's day, and every device shows it there`() async throws {
        let taps = Self.taps
        try await HabitsWorld.with { world in
            let clock = ManualWallClock()
            let client = try world.client { $0.clock = clock }
            let screen = await HabitsScreen(client, clock: clock)
            let run = try await screen.add("Run")

            for tap in taps {
                clock.set(try #require(Timestamp(tap.moment)))
                try client.setTimeZone(tap.zone)
                await screen.dayMayHaveChanged()
                #expect(await screen.today.description == tap.day)
                try await screen.complete(run)
            }
            try await client.synchronize()

            let tablet = try world.client("tablet") { $0.timeZone = "Asia/Kolkata" }
            try await tablet.synchronize()
            let days = tablet.records(HabitLog.self).map(\.day.description).sorted()
            #expect(days == Set(taps.map(\.day)).sorted())
            let right = taps.count { days.contains($0.day) }
            printFigure(
                "O11",
                ours: "\(right) of \(taps.count) taps on the user's day, over 2 clock changes"
            )
            client.close()
            tablet.close()
        }
    }

    @Test func `an earlier day is shown and logged, and midnight does not change it`() async throws
    {
        try await HabitsWorld.with { world in
            let clock = ManualWallClock(try #require(Timestamp("2026-11-22T23:59:50Z")))
            let client = try world.client { ($0.clock, $0.timeZone) = (clock, "Etc/UTC") }
            let screen = await HabitsScreen(client, clock: clock)
            let run = try await screen.add("Run")
            let friday = try #require(CalendarDay("2026-11-20"))
            await screen.show(friday)
            try await screen.complete(run)
            #expect(client.records(HabitLog.self).map(\.day) == [friday])

            let time = ManualClock()
            let following = Task { await screen.followDays(clock: time) }
            try await time.waitForSleepers(1)
            clock.advance(by: .seconds(30))
            time.advance(by: .seconds(30))
            try await eventually("midnight") { await screen.today.description == "2026-11-23" }
            #expect(await screen.day == friday)
            await screen.show(try #require(CalendarDay("2026-12-24")))
            #expect(await screen.day.description == "2026-11-23")
            // Today moves to the next day.
            try await time.waitForSleepers(1)
            clock.advance(by: .hours(24))
            time.advance(by: .seconds(30))
            try await eventually("the next day") { await screen.day.description == "2026-11-24" }
            following.cancel()
            try await following.finished("the end of following")
            client.close()
        }
    }

    @Test func `a streak continues over a daylight saving night and over travel`() async throws {
        try await HabitsWorld.with { world in
            let clock = ManualWallClock(try #require(Timestamp("2026-03-28T12:00:00Z")))
            let client = try world.client { ($0.clock, $0.timeZone) = (clock, "Europe/Berlin") }
            let screen = await HabitsScreen(client, clock: clock)
            let run = try await screen.add("Run")
            for _ in 1...3 {
                try await screen.complete(run)
                clock.advance(by: .hours(24))
                await screen.dayMayHaveChanged()
            }
            try await client.synchronize()
            #expect(await screen.progress.insights.streak(of: run) == 3)

            // Possibly an earlier day. No log is lost.
            try client.setTimeZone("America/New_York")
            await screen.dayMayHaveChanged()
            #expect(await screen.progress.insights.streak(of: run) == 3)
            // And a later one.
            try client.setTimeZone("Pacific/Auckland")
            await screen.dayMayHaveChanged()

            let tablet = try world.client("tablet")
            try await tablet.synchronize()
            let shown = tablet.cached(.progress(on: await screen.today))
            #expect(shown == (await screen.progress))
            client.close()
            tablet.close()
        }
    }
}
