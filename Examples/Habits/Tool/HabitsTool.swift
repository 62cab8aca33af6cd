import ArgumentParser
import ExampleTerminal
import Foundation
import HabitsApp
import HabitsModel
import HabitsServer
import Sanguine
import SanguineServer

/// The app's command-line interface.
@main
struct HabitsTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "Habits",
        abstract: "Track habits at once and offline. 'serve' runs the server.",
        subcommands: [
            List.self, Watch.self, Add.self, Done.self, Clear.self, Month.self, Retry.self,
            Serve.self,
        ],
        defaultSubcommand: List.self
    )
}

struct AppOptions: ParsableArguments {
    @Option(help: "The server's address. Default: port 8080 of this machine.", transform: address)
    var server: URL?

    @Option(help: "Where the app keeps its data.")
    var folder = NSHomeDirectory() + "/.habits"

    @Flag(help: "Work offline. The next command sends the changes.")
    var offline = false

    /// Runs the app for one command, and sends its operations.
    ///
    /// - Parameters:
    ///   - day: The day to show. Default: today.
    ///   - body: The work of the command.
    /// - Throws: The errors of `body`.
    @MainActor
    func withScreen(
        on day: DayOption? = nil,
        _ body: @MainActor (HabitsScreen) async throws -> Void
    ) async throws {
        let server = server ?? URL(string: "http://127.0.0.1:8080")
        let client = try SanguineClient(.habits(server: server, folder: URL(filePath: folder)))
        defer { client.close() }
        let screen = HabitsScreen(client)
        try day?.show(on: screen)
        try await body(screen)
        if !offline { try? await client.synchronize() }
        // The screen is notified of received changes in a later turn. A new one has them from the
        // start.
        let next = HabitsScreen(client)
        next.show(screen.day)
        show(next)
    }

    @MainActor
    fileprivate func show(_ screen: HabitsScreen) {
        let progress = screen.progress
        for habit in progress.habits {
            let value = progress.value(of: habit, on: screen.day)
            let mark = progress.isComplete(habit, on: screen.day) ? "✓" : " "
            let amount = habit.goal > 1 ? " \(value)/\(habit.goal)" : ""
            let streak = progress.insights.streak(of: habit)
            print("[\(mark)] \(habit.title)\(amount), streak \(streak)")
        }
        let day = screen.day == screen.today ? "today" : "on \(screen.day)"
        print("\(progress.complete(on: screen.day)) of \(progress.habits.count) \(day)")
        if screen.unsent > 0 { print("\(screen.unsent) to be sent") }
        for operation in screen.refused {
            print("refused: \(operation.name), \(operation.problem.detail)")
        }
    }
}

struct DayOption: ParsableArguments {
    @Option(help: "The day, as 2026-11-27. Default: today.") var day: String?

    @MainActor
    func show(on screen: HabitsScreen) throws {
        guard let day else { return }
        guard let day = CalendarDay(day), day <= screen.today else {
            throw ValidationError("'\(day)' is not a day up to today in the form 2026-11-27.")
        }
        screen.show(day)
    }
}

extension HabitsScreen {
    fileprivate func habit(_ title: String) throws -> Habit {
        guard let habit = progress.habits.first(where: { $0.title == title }) else {
            throw ValidationError("There is no habit '\(title)'. 'Habits add' creates one.")
        }
        return habit
    }
}

extension HabitsTool {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show a day.")
        @OptionGroup var day: DayOption
        @OptionGroup var options: AppOptions

        func run() async throws { try await options.withScreen(on: day) { _ in } }
    }

    struct Watch: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show today and every change, also at midnight, until you stop it."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withScreen { screen in
                let days = Task { await screen.followDays() }
                defer { days.cancel() }
                while !Task.isCancelled {
                    options.show(screen)
                    fflush(nil)
                    await change {
                        _ = (screen.progress, screen.day, screen.unsent, screen.refused)
                    }
                }
            }
        }
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Add a habit.")
        @Argument var title: String
        @Option(help: "The amount that completes a day.") var goal = 1
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withScreen { _ = try $0.add(title, goal: goal) }
        }
    }

    struct Done: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Log what was done on a day.")
        @Argument var title: String
        @Argument(help: "The amount. Default: the goal.") var value: Int?
        @OptionGroup var day: DayOption
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withScreen(on: day) { screen in
                let habit = try screen.habit(title)
                try screen.set(value ?? habit.goal, for: habit)
            }
        }
    }

    struct Clear: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove what was logged on a day."
        )
        @Argument var title: String
        @OptionGroup var day: DayOption
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withScreen(on: day) { try $0.clear(try $0.habit(title)) }
        }
    }

    struct Month: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show the last thirty days.")
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withScreen { screen in
                let (progress, today) = (screen.progress, screen.today.daysSince1970)
                for habit in progress.habits {
                    let days = (today - 29...today).map { CalendarDay(daysSince1970: $0) }
                    let marks = days.map { progress.isComplete(habit, on: $0) ? "█" : "·" }
                    print("\(marks.joined()) \(habit.title)")
                }
                let month = CalendarDay(daysSince1970: today - 29)...screen.today
                print("\(Int(progress.completion(in: month) * 100)) % of the month")
                if let best = progress.insights.best { print("longest streak: \(best.title)") }
            }
        }
    }

    struct Retry: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Retry refused changes.")
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withScreen { screen in
                for operation in screen.refused { try screen.retry(operation) }
            }
        }
    }

    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Run the server.")
        @OptionGroup var ports: ServeOptions
        @Option(help: "Where the server keeps its data.") var data = "habits-data"

        func run() async throws {
            try await HabitsServer.with(
                folder: URL(filePath: data),
                settings: ports.settings,
                onListening: ServeOptions.announce
            ) { try await $0.serve() }
        }
    }
}
