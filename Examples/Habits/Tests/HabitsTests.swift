import Foundation
import HabitsApp
import HabitsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The rows of the habit tracker's README, with the real server.
@MainActor
@Suite("Habits", .bounded(.seconds(60)))
struct HabitsTests {
    @Test func `a tap is shown at once, written once, and never read back`() async throws {
        try await HabitsWorld.with { world in
            // A manual clock, so that no wait times out on a busy machine and causes another
            // request.
            let (network, delay) = (RecordedNetwork(), ManualClock())
            let client = try world.client { ($0.transport, $0.delay) = (network, delay) }
            let screen = await HabitsScreen(client)
            let run = try await screen.add("Run")
            let water = try await screen.add("Water", goal: 8)
            try await eventually("a live connection") {
                delay.advance(by: .milliseconds(100))  // It waits after its first attempt.
                return network.isLive
            }
            try await client.settle()
            let taps: [@MainActor @Sendable () throws -> Int] = [
                {
                    try screen.complete(run)
                    return screen.progress.value(of: run, on: screen.day)
                },
                {
                    try screen.set(3, for: water)
                    return screen.progress.value(of: water, on: screen.day)
                },
                {
                    try screen.clear(run)
                    return screen.progress.value(of: run, on: screen.day)
                },
            ]

            var times: [Duration] = []
            var requests: [String] = []
            let today = await screen.today
            // On the same day repeatedly, and on another one.
            for back in [0, 0, 1] {
                await screen.show(CalendarDay(daysSince1970: today.daysSince1970 - back))
                for (tap, shown) in zip(taps, [1, 3, 0]) {
                    _ = network.take()
                    let start = ContinuousClock.now
                    #expect(try await MainActor.run { try tap() } == shown)
                    times.append(start.duration(to: .now))
                    // The test requests nothing itself, so all counted requests are the client's.
                    try await client.settle()
                    let made = network.take().requests
                    #expect(made == ["POST /v1/sync/push"])
                    requests += made
                }
            }

            let writes = requests.count { $0.hasPrefix("POST ") }
            printFigure(
                "O1",
                ours: """
                    \(writes) writes and \(requests.count - writes) reads for \(times.count) taps, \
                    shown in \(times.sorted()[times.count / 2].milliseconds)
                    """,
                theirs: "500 ms, and 16 ms in their plan"
            )
            let tablet = try world.client("tablet")
            try await tablet.synchronize()
            #expect(tablet.records(HabitLog.self).map(\.value) == [3, 3])
            client.close()
            tablet.close()
        }
    }

    @Test func `a refusal removes exactly its own effect and can be retried`() async throws {
        try await HabitsWorld.with { world in
            let network = ManualConnectivity()
            let client = try world.client { $0.connectivity = network }
            let screen = await HabitsScreen(client)
            let (run, read) = (try await screen.add("Run"), try await screen.add("Read"))
            try await client.synchronize()

            network.disconnect()
            try await screen.complete(run)
            try await screen.complete(read)
            let waiting = client.records(HabitLog.self)
            #expect(waiting.count == 2)
            let tablet = try world.client("tablet")
            try await tablet.synchronize()
            try tablet.perform(DeleteRecord(Habit.self, run.id))
            try await tablet.synchronize()
            network.connect()
            try await client.synchronize()

            try await eventually("the refusal is shown") { await screen.refused.count == 1 }
            let (progress, refused, today) = await (screen.progress, screen.refused, screen.today)
            #expect(progress.habits == [read])
            #expect(progress.isComplete(read, on: today))
            #expect(refused.first?.problem.code == .notFound)
            let left = client.records(HabitLog.self)
            #expect(left == waiting.filter { $0.habit == read.id })
            printFigure(
                "O2",
                ours: """
                    \(waiting.count - left.count) of \(waiting.count) pending effects is removed, \
                    and \(refused.count) is refused
                    """
            )

            try tablet.perform(AddHabit(run))
            try await tablet.synchronize()
            try await client.synchronize()
            try await screen.retry(try #require(refused.first))
            try await client.synchronize()

            #expect(await screen.progress.isComplete(run, on: today))
            #expect(await screen.refused.isEmpty)
            client.close()
            tablet.close()
        }
    }

    @Test func `ten concurrent taps leave one log`() async throws {
        try await HabitsWorld.with { world in
            let client = try world.client()
            let screen = await HabitsScreen(client)
            let run = try await screen.add("Run")
            try await client.synchronize()
            let tablet = try world.client("tablet")
            try await tablet.synchronize()
            let today = await screen.today

            let taps = try await withThrowingTaskGroup(of: Receipt.self) { group in
                for number in 0..<10 {
                    group.addTask {
                        let device = number.isMultiple(of: 2) ? client : tablet
                        return try device.perform(LogHabit(run.id, on: today, value: 1))
                    }
                }
                var taken = 0
                for try await _ in group { taken += 1 }
                return taken
            }
            try await client.synchronize()
            try await tablet.synchronize()
            try await client.synchronize()

            let third = try world.client("third")
            try await third.synchronize()
            let logs = third.records(HabitLog.self).count
            printFigure("O3", ours: "\(logs) log of \(taps) taps on two devices", theirs: "1 log")
            for device in [client, tablet, third] {
                #expect(device.records(HabitLog.self).count == 1)
                device.close()
            }
        }
    }

    @Test func `browsing ninety days sends no further requests`() async throws {
        try await HabitsWorld.with { world in
            let first = try world.client()
            let screen = await HabitsScreen(first)
            let run = try await screen.add("Run")
            let today = await screen.today
            for back in 0..<90 {
                let day = CalendarDay(daysSince1970: today.daysSince1970 - back)
                try first.perform(LogHabit(run.id, on: day, value: 1))
            }
            try await first.synchronize()
            first.close()

            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            _ = try await client.value(of: .progress(on: today))
            var complete = 0.0
            for back in 0..<90 {
                let last = CalendarDay(daysSince1970: today.daysSince1970 - back)
                let progress = client.cached(.progress(on: last))
                let month = CalendarDay(daysSince1970: last.daysSince1970 - 29)...last
                complete += progress.completion(in: month)
            }
            try await client.waitUntilIdle()
            let asked = network.take().ofData

            #expect(complete > 0)
            #expect(asked.count <= 2, "\(asked)")
            printFigure(
                "O5",
                ours: "\(asked.count) requests in a session of 90 days",
                theirs: "30 queries, and at most 2 in their plan"
            )
            client.close()
        }
    }

    @Test func `changes of a widget and of another device appear`() async throws {
        try await HabitsWorld.with { world in
            let client = try world.client()
            let screen = await HabitsScreen(client)
            let (run, read) = (try await screen.add("Run"), try await screen.add("Read"))
            try await client.synchronize()
            let today = await screen.today

            let widget = try SanguineCompanion(
                .habits(server: nil, folder: world.folder("phone"))
            )
            var start = ContinuousClock.now
            try widget.perform(LogHabit(run.id, on: today, value: 1))
            try await eventually("the app shows what the widget did") {
                await screen.progress.isComplete(run, on: today)
            }
            let widgetTime = start.duration(to: .now)
            let tablet = try world.client("tablet")
            try await tablet.synchronize()
            start = .now
            try tablet.perform(LogHabit(read.id, on: today, value: 1))
            try await tablet.synchronize()
            try await eventually("the app shows what the tablet did, live") {
                await screen.progress.isComplete(read, on: today)
            }
            let tabletTime = start.duration(to: .now)
            printFigure(
                "O6",
                ours: """
                    a widget's change after \(widgetTime.milliseconds), another device's after \
                    \(tabletTime.milliseconds)
                    """,
                theirs: "at the return after 5 minutes"
            )

            #expect(await screen.progress.completeToday == 2)
            #expect(tablet.cached(.progress(on: today)).completeToday == 2)
            widget.close()
            client.close()
            tablet.close()
        }
    }

    @Test func `a return after five minutes refreshes`() async throws {
        try await HabitsWorld.with { world in
            let (network, lifecycle) = (RecordedNetwork(), ManualLifecycle())
            let (clock, delay) = (ManualWallClock(SystemWallClock().now()), ManualClock())
            let client = try world.client {
                ($0.transport, $0.lifecycle) = (network, lifecycle)
                ($0.clock, $0.delay) = (clock, delay)
            }
            let screen = await HabitsScreen(client, clock: clock)
            let run = try await screen.add("Run")
            try await eventually("a live connection") {
                delay.advance(by: .milliseconds(100))  // It waits after its first attempt.
                return network.isLive
            }
            try await client.settle()
            let today = await screen.today

            lifecycle.enterBackground()
            _ = network.take()
            let tablet = try world.client("tablet")
            try await tablet.synchronize()
            try tablet.perform(LogHabit(run.id, on: today, value: 1))
            try await tablet.synchronize()
            clock.advance(by: .minutes(5))
            delay.advance(by: .minutes(5))
            try await client.waitUntilIdle()
            #expect(network.take().requests.isEmpty)
            #expect(await !screen.progress.isComplete(run, on: today))

            lifecycle.enterForeground()
            try await eventually("the app shows the changes made meanwhile") {
                await screen.progress.isComplete(run, on: today)
            }
            try await client.settle()
            #expect(await screen.progress.completeToday == 1)
            let fetched = network.take()
            #expect(Set(fetched.ofData) == ["GET /v1/sync/pull", "GET /v1/live"])
            #expect(fetched.rows == 1 && fetched.operations == 0)
            client.close()
            tablet.close()
        }
    }

    @Test func `the widget is notified once the log is durable, and not before`() async throws {
        try await HabitsWorld.with { world in
            let folder = world.folder("phone")
            let seen = WatchedState<[Int]>([])
            let client = try world.client { configuration in
                configuration.durableWrites = {
                    // The records that another process reads from disk at this moment.
                    let widget = try? SanguineCompanion(.habits(server: nil, folder: folder))
                    let count = widget?.records(HabitLog.self).count ?? -1
                    widget?.close()
                    seen.withLock { $0.append(count) }
                }
            }
            let screen = await HabitsScreen(client)
            let run = try await screen.add("Run")
            try await client.settle()
            seen.withLock { $0 = [] }

            try await screen.complete(run)
            try await client.settle()
            try await seen.wait(for: "a notification of the widget") { !$0.isEmpty }

            let reported = seen.value
            #expect(reported.allSatisfy { $0 == 1 })
            let early = reported.count { $0 != 1 }
            printFigure("O7", ours: "notified \(reported.count) times, \(early) of them too early")
            client.close()
        }
    }
}
