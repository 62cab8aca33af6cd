import ArgumentParser
import AssistantApp
import AssistantModel
import AssistantServer
import ExampleTerminal
import Foundation
import Sanguine
import SanguineServer

/// The app's command-line interface.
@main
struct AssistantTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "Assistant",
        abstract: "An assistant that counts its tokens. Without a server, it runs its own.",
        subcommands: [Ask.self, Resume.self, Show.self, Serve.self],
        defaultSubcommand: Ask.self
    )
}

struct AppOptions: ParsableArguments {
    @Option(
        help: "The server's address. Default: a server in this process.",
        transform: address
    )
    var server: URL?

    @Option(help: "Where the app keeps its data.")
    var folder = NSHomeDirectory() + "/.assistant"

    /// Runs the app, with a server in this process if none is named.
    func withScreen(
        _ body:
            @escaping @MainActor @Sendable (SanguineClient, AssistantScreen) async throws -> Void
    ) async throws {
        try await withServer(
            server,
            URL(filePath: folder),
            latency: Self.latency,
            { data, settings, use in
                try await AssistantServer.with(
                    folder: data,
                    settings: settings,
                    logger: .errors("assistant"),
                    use
                )
            },
            { try await Self.withApp($0, $1, body) }
        )
    }

    /// The time in which the stand-in begins an answer, as such models do.
    static let latency = Duration.seconds(2)

    @MainActor
    private static func withApp(
        _ server: URL,
        _ folder: URL,
        _ body: @MainActor (SanguineClient, AssistantScreen) async throws -> Void
    ) async throws {
        var configuration = SanguineClient.Configuration(server: server)
        configuration.folder = folder
        configuration.prepareForAssistant()
        let client = try SanguineClient(configuration)
        defer { client.close() }
        try await body(client, AssistantScreen(client))
    }
}

extension AssistantTool {
    struct Ask: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Ask a question, and print the answer as it arrives."
        )
        @Argument(help: "The question.") var question = "Why is the sky blue?"
        @Option(help: "A picture that the question is about; up to four.") var image: [String] = []
        @Option(help: "A video that the question is about.") var video: String?
        @OptionGroup var options: AppOptions

        func validate() throws {
            if video != nil, !image.isEmpty {
                throw ValidationError("Pass pictures or a video, not both.")
            }
        }

        func run() async throws {
            try await options.withScreen { client, screen in
                _ = try await client.value(of: AssistantScreen.balanceQuery)
                let predicted =
                    if video != nil {
                        client.predictedCost(of: AskVideo.self)
                    } else if !image.isEmpty {
                        client.predictedCost(of: AskImage.self)
                    } else {
                        screen.cost
                    }
                let answer =
                    if let video {
                        try await screen.ask(question, about: Self.file(video))
                    } else if !image.isEmpty {
                        try await screen.ask(question, about: image.map(Self.file))
                    } else {
                        try screen.ask(question)
                    }
                let held = screen.balance.map { "\($0.available) tokens, \($0.held) held" }
                try say(held ?? "The balance is not known yet.")
                let result = try await write(answer)
                try say("\(result.charged) charged, \(predicted.expected) predicted")
                try say("\(result.tokensRemaining) tokens")
            }
        }

        private static func file(_ path: String) -> RequestBody {
            .file(URL(filePath: path))
        }
    }

    struct Resume: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Resume the answers that were incomplete when the app ended."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withScreen { _, screen in
                screen.resume()
                for turn in screen.turns {
                    let result = try await write(turn.answer)
                    try say("\(result.charged) charged")
                }
            }
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "balance",
            abstract: "Show the balance and its last ten values."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withScreen { client, screen in
                await screen.refresh()
                guard let balance = screen.balance else {
                    throw ValidationError("No server has been reached yet. Set '--server'.")
                }
                try say("\(balance.available) tokens, \(balance.held) held")
                for recorded in screen.history {
                    try say("\(recorded.receivedAt): \(recorded.balance.available)")
                }
            }
        }
    }

    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Run the server, with a stand-in for the language model unless one is named."
        )
        @OptionGroup var ports: ServeOptions
        @Option(help: "Where the server keeps its data.") var data = "assistant-data"
        @Option(help: "The base URL of a language model that speaks OpenAI's API.")
        var upstream: String?

        func run() async throws {
            let (settings, folder) = (ports.settings, URL(filePath: data))
            try await withModel(upstream, latency: AppOptions.latency) { model in
                var settings = settings
                settings.upstream.url = model
                try await AssistantServer.with(
                    folder: folder,
                    settings: settings,
                    onListening: ServeOptions.announce
                ) { try await $0.serve() }
            }
        }
    }
}
