import Foundation
import HabitsApp
import HabitsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The cost of taps in an app with many records.
///
/// Their times and bytes are benchmarks.
@Suite("Cost of habits", .bounded(.seconds(60)))
struct CostTests {
    private static let today = CalendarDay(daysSince1970: 20_000)

    @Test func `a hundred rapid taps keep one operation per habit, and none once settled`()
        async throws
    {
        try await HabitsWorld.with { world in
            let network = ManualConnectivity()
            let client = try world.client { $0.connectivity = network }
            let habits = try Self.fill(client)
            try await client.synchronize()
            try await client.settle()

            network.disconnect()
            var most = 0
            let taps = 100
            for number in 0..<taps {
                let habit = habits[number % habits.count]
                try client.perform(LogHabit(habit.id, on: Self.today, value: number + 1))
                most = max(most, client.outbox.pending.count)
            }
            #expect(most == 20)
            network.connect()
            try await client.synchronize()
            try await client.settle()

            #expect(client.outbox.pending.isEmpty && client.outbox.refused.isEmpty)
            #expect(client.records(HabitLog.self).count == 1_020)
            let shown = client.records(where: HabitLog.byDay, is: Self.today).map(\.value).sorted()
            #expect(shown == Array(81...100))
            printFigure(
                "O9",
                ours: """
                    \(most) operations held of \(taps) taps, \(client.outbox.pending.count) once \
                    settled
                    """,
                theirs: "at most +10 MB"
            )
            client.close()
        }
    }

    @Test func `an update transfers a hundredth of the bytes of loading everything`() async throws {
        try await HabitsWorld.with { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            let habits = try Self.fill(client)
            try await client.synchronize()
            try await eventually("a live connection") { network.isLive }
            try await client.settle()

            _ = network.take()
            var start = ContinuousClock.now
            try client.perform(LogHabit(habits[0].id, on: Self.today, value: 1))
            let log = client.record(
                HabitLog.self,
                try HabitLog.id(of: habits[0].id, on: Self.today)
            )
            let tapTime = start.duration(to: .now)
            #expect(log?.value == 1)
            try await client.settle()
            let update = network.take()

            let other = RecordedNetwork()
            let tablet = try world.client("tablet") { $0.transport = other }
            start = .now
            let progress = try await tablet.value(of: .progress(on: Self.today))
            let loadTime = start.duration(to: .now)
            #expect(progress.habits.count == 20 && progress.completeToday == 1)
            let load = other.take()

            #expect(update.requests == ["POST /v1/sync/push"])
            #expect((update.operations, update.rows) == (1, 0))
            #expect(load.rows >= 1_021)  // Including the account, its balance and similar records.
            #expect(load.bytes >= 100 * update.bytes)
            printFigure(
                "O10",
                ours: """
                    \(update.operations) row and \(update.bytes) bytes in \
                    \(tapTime.milliseconds), against \
                    \(load.rows) rows and \(load.bytes) bytes in \(loadTime.milliseconds)
                    """,
                theirs: "100 times faster"
            )
            client.close()
            tablet.close()
        }
    }

    /// Creates 20 habits with 50 days of logs each.
    private static func fill(_ client: SanguineClient) throws -> [Habit] {
        let habits = (1...20).map { Habit(title: "Habit \($0)") }
        for habit in habits {
            try client.perform(AddHabit(habit))
            for back in 1...50 {
                let day = CalendarDay(daysSince1970: today.daysSince1970 - back)
                try client.perform(LogHabit(habit.id, on: day, value: 1))
            }
        }
        return habits
    }
}
