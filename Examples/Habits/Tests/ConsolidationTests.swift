import Foundation
import HabitsApp
import HabitsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Several logs of one day become one.
@MainActor
@Suite("Consolidation of logs", .bounded(.seconds(60)))
struct ConsolidationTests {
    @Test func `several logs of a day become one on every device`() async throws {
        try await HabitsWorld.with { world in
            let client = try world.client()
            let screen = await HabitsScreen(client)
            let walk = try await screen.add("Walk", goal: 10)
            try await Self.importThree(walk, screen, client)
            try await client.synchronize()

            try await screen.consolidate(walk)
            try await client.synchronize()

            let tablet = try world.client("tablet")
            try await tablet.synchronize()
            for device in [client, tablet] {
                #expect(device.records(HabitLog.self).map(\.value) == [6])
                device.close()
            }
        }
    }

    @Test func `a set value replaces all logs of the day`() async throws {
        try await HabitsWorld.with { world in
            let client = try world.client()
            let screen = await HabitsScreen(client)
            let walk = try await screen.add("Walk", goal: 10)
            try await Self.importThree(walk, screen, client)
            try await client.synchronize()

            try await screen.set(4, for: walk)
            #expect(await screen.progress.value(of: walk, on: screen.day) == 4)
            try await client.synchronize()
            #expect(client.records(HabitLog.self).map(\.value) == [4])
            client.close()
        }
    }

    @Test func `a refused consolidation restores all logs exactly`() async throws {
        try await HabitsWorld.with(registering: HabitsWorld.refusingTypes) { world in
            let network = ManualConnectivity()
            let client = try world.client { $0.connectivity = network }
            let screen = await HabitsScreen(client)
            let walk = try await screen.add("Walk", goal: 10)
            try await Self.importThree(walk, screen, client)
            try await client.synchronize()
            let before = client.records(HabitLog.self)

            network.disconnect()
            try await screen.consolidate(walk)
            let merged = client.records(HabitLog.self)
            #expect(merged.map(\.value) == [6])
            network.connect()
            try await client.synchronize()

            try await eventually("the refusal is shown") { await screen.refused.count == 1 }
            let restored = client.records(HabitLog.self)
            #expect(restored == before)
            let same = zip(restored, before).count { $0 == $1 }
            printFigure(
                "O8",
                ours: """
                    \(before.count) logs became \(merged.count), and \(same) of \(before.count) \
                    again when it was refused
                    """
            )
            #expect(await screen.refused.first?.problem.code == .invalidContent)
            client.close()
        }
    }

    private static func importThree(
        _ habit: Habit,
        _ screen: HabitsScreen,
        _ client: SanguineClient
    ) async throws {
        let today = screen.today
        for value in 1...3 {
            let log = HabitLog(id: .new(), habit: habit.id, day: today, value: value)
            try client.perform(ImportLog(log))
        }
        #expect(screen.progress.value(of: habit, on: today) == 6)
    }
}
