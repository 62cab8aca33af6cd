import Foundation
import HabitsApp
import HabitsModel
import HabitsServer
import Sanguine
import SanguineServer

/// The example `Habits` with the real server in another process.
///
/// Compares the cost of a tap with that of loading everything again, and measures the most memory
/// that 100 taps allocate.
enum HabitBenchmarks {
    static let serverArgument = "--habits-server"
    private static let clock = ContinuousClock()
    private static let today = CalendarDay(daysSince1970: 20_000)

    static func run() async throws -> [Figure] {
        let server = try Server()
        defer { server.end() }
        let (seeder, other) = (try Folder(), try Folder())
        let habits = try await fill(seeder.url, server.url)
        try identity(of: seeder.url, to: other.url)
        let reload = try await median(5) {
            try await load(server.url) { try identity(of: seeder.url, to: $0) }
        }
        return try await taps(habits, other.url, server.url, reload: reload)
    }

    /// Serves in this process until it is terminated, if its argument says so.
    ///
    /// Returns whether it did.
    static func serveIfAsked() async throws -> Bool {
        guard CommandLine.arguments.dropFirst().first == serverArgument else { return false }
        let folder = FileManager.default.temporaryDirectory.appending(path: "habits-\(UUID())")
        var settings = ServerSettings()
        (settings.http.port, settings.http.adminPort) = (0, 0)
        try await HabitsServer.with(
            folder: folder,
            settings: settings,
            onListening: { ports in
                // Open files stay usable without their names, and nothing remains when the process
                // is terminated.
                try? FileManager.default.removeItem(at: folder)
                try? FileHandle.standardOutput.write(contentsOf: Data("\(ports.http)\n".utf8))
            }
        ) { try await $0.run() }
        return true
    }

    // MARK: - Parts

    /// Creates 20 habits with 50 days of logs each.
    private static func fill(_ folder: URL, _ server: URL) async throws -> [Habit] {
        let client = try SanguineClient(.habits(server: server, folder: folder))
        let habits = (1...20).map { Habit(title: "Habit \($0)") }
        for habit in habits {
            try client.perform(AddHabit(habit))
            for back in 1...50 {
                let day = CalendarDay(daysSince1970: today.daysSince1970 - back)
                try client.perform(LogHabit(habit.id, on: day, value: 1))
            }
        }
        try await client.synchronize()
        client.close()
        return habits
    }

    /// Returns the time in which an app without data loads everything for its screen, in µs.
    private static func load(
        _ server: URL,
        _ prepare: (URL) throws -> Void
    ) async throws -> Double {
        let folder = try Folder()
        try prepare(folder.url)
        let start = clock.now
        let client = try SanguineClient(.habits(server: server, folder: folder.url))
        let progress = try await client.value(of: .progress(on: today))
        let time = start.duration(to: clock.now)
        guard progress.habits.count == 20 else { throw BenchmarkError.wrong("the habits") }
        client.close()
        return time / .microseconds(1)
    }

    private static func taps(
        _ habits: [Habit],
        _ folder: URL,
        _ server: URL,
        reload: Double
    ) async throws -> [Figure] {
        let client = try SanguineClient(.habits(server: server, folder: folder))
        _ = try await client.value(of: .progress(on: today))
        let before = try AllocatedMemory.megabytes()
        var most = before
        var (taps, screens): ([Double], [Double]) = ([], [])
        for number in 0..<100 {
            let habit = habits[number % habits.count]
            let start = clock.now
            try client.perform(LogHabit(habit.id, on: today, value: 1))
            let log = client.record(HabitLog.self, try HabitLog.id(of: habit.id, on: today))
            taps.append(start.duration(to: clock.now) / .microseconds(1))
            let shown = client.cached(.progress(on: today)).isComplete(habit, on: today)
            screens.append(start.duration(to: clock.now) / .microseconds(1))
            guard log?.value == 1, shown else { throw BenchmarkError.wrong("a tap") }
            most = max(most, try AllocatedMemory.megabytes())
        }
        try await client.synchronize()
        most = max(most, try AllocatedMemory.megabytes())
        client.close()
        return [
            // Both end when all numbers of the screen are available.
            Figure(
                cost: "Habits: a full reload, with the sign-in",
                reload,
                unit: "µs",
                of: "a tap until all numbers of the screen are recomputed",
                screens.median,
                atMost: nil
            ),
            Figure(
                cost: "Habits: a tap until its log is shown",
                taps.median,
                unit: "µs",
                of: "a tap until all numbers of the screen are recomputed",
                screens.median,
                atMost: nil
            ),
            Figure(
                cost: "Habits: memory of 100 taps on 20 habits with 1,000 logs",
                most - before,
                unit: "MB",
                of: "the limit of 10 MB",
                10,
                atMost: 1
            ),
        ]
    }

    private static func median(
        _ rounds: Int,
        _ body: () async throws -> Double
    ) async throws -> Double {
        var samples: [Double] = []
        for _ in 0..<rounds { samples.append(try await body()) }
        return samples.median
    }

    private static func identity(of first: URL, to second: URL) throws {
        let file = "device-identity.json"
        try FileManager.default.createDirectory(at: second, withIntermediateDirectories: true)
        try FileManager.default.copyItem(
            at: first.appending(path: file),
            to: second.appending(path: file)
        )
    }

    /// A server of the habits in a separate process.
    private struct Server {
        let url: URL
        private let process = Process()

        init() throws {
            process.executableURL = URL(filePath: CommandLine.arguments[0])
            process.arguments = [serverArgument]
            let output = Pipe()
            process.standardOutput = output
            try process.run()
            var line = Data()
            while let byte = try output.fileHandleForReading.read(upToCount: 1),
                byte != Data("\n".utf8)
            { line += byte }
            guard let port = Int(String(decoding: line, as: UTF8.self)),
                let url = URL(string: "http://127.0.0.1:\(port)")
            else { throw BenchmarkError.noServer("it ended before it was ready") }
            self.url = url
        }

        func end() {
            process.terminate()
            process.waitUntilExit()
        }
    }
}
