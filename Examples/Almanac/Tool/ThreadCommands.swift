import AlmanacApp
public import AlmanacModel
public import ArgumentParser
import ExampleTerminal
import Sanguine

extension AlmanacTool {
    struct Threads: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List your questions by thread, also offline."
        )
        @Option(help: "Only threads of this part of life.") var area: Area?
        @OptionGroup var options: AppOptions

        func run() async throws {
            let area = area
            try await options.withApp { app in
                try await app.update()
                for thread in app.screen.threads(in: area) {
                    let title = thread.title ?? "untitled"
                    try say("\(thread.id) \(thread.area ?? "-") \(title), \(thread.messages)")
                }
            }
        }
    }

    struct ShowThread: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "thread",
            abstract: "Show the last messages of a thread, also offline."
        )
        @Argument(transform: threadID) var thread: RecordID
        @OptionGroup var options: AppOptions

        func run() async throws {
            let thread = thread
            try await options.withApp { app in
                try await app.update()
                for message in app.screen.thread(thread).messages {
                    let price = message.charged.map { ", \($0) tokens" } ?? ""
                    try say("\(message.role.rawValue), \(message.phase)\(price): \(message.text)")
                }
            }
        }
    }

    struct Rename: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give a thread your own title, on all of your devices."
        )
        @Argument(transform: threadID) var thread: RecordID
        @Argument var title: String
        @OptionGroup var options: AppOptions

        func run() async throws {
            let (thread, title) = (thread, title)
            try await options.withApp { app in
                try await app.update()
                try app.screen.thread(thread).rename(to: title)
            }
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete a thread with its messages, on all of your devices."
        )
        @Argument(transform: threadID) var thread: RecordID
        @OptionGroup var options: AppOptions

        func run() async throws {
            let thread = thread
            try await options.withApp { app in try app.screen.delete(thread) }
        }
    }

    struct Search: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Find messages and titles by the beginnings of their words, also offline."
        )
        @Argument var text: String
        @OptionGroup var options: AppOptions

        func run() async throws {
            let text = text
            try await options.withApp { app in
                try await app.update()
                for result in try await app.found(text) {
                    let found = result.message?.text ?? result.thread.title ?? ""
                    try say("\(result.thread.id) \(found)")
                }
            }
        }
    }

    struct Restore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Restore everything on a new device, and print the progress."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                let updates = app.client.updates(of: .restoreProgress)
                let printing = Task {
                    for await progress in updates {
                        try say("\(Int(progress.fraction * 100)) %")
                        if progress.isComplete { break }
                    }
                }
                defer { printing.cancel() }
                try await app.client.synchronize()
                try await printing.value
                let (threads, matches) = (app.screen.threads(), app.screen.matches)
                try say("\(threads.count) threads, \(matches.count) matches")
            }
        }
    }
}

extension App {
    /// Fetches what other devices have changed, if there is a network.
    fileprivate func update() async throws {
        do throws(SanguineError) {
            try await client.synchronize()
        } catch {
            guard case .transport = error else { throw error }
        }
    }

    /// Returns the results of a search, once the index is complete, or after two seconds.
    fileprivate func found(_ text: String) async throws -> [ThreadSearch.Result] {
        var search = try await client.threads.search(prefix: text)
        for _ in 0..<40 where !search.isComplete {
            try await ContinuousClock().sleep(for: .milliseconds(50))
            search = try await client.threads.search(prefix: text)
        }
        return search.results
    }
}

/// Reads the id of a thread.
@Sendable
func threadID(_ text: String) throws -> RecordID {
    guard let id = Identifier(text) else {
        throw ValidationError("'\(text)' is not the id of a thread. See 'Almanac threads'.")
    }
    return RecordID(id)
}

extension Area: ExpressibleByArgument {}
