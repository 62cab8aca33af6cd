import ArgumentParser
import AssistantApp
import AssistantModel
import AssistantServer
import Foundation
import Observation
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
    @Option(help: "The server's address. Default: a server in this process.")
    var server: String?

    @Option(help: "Where the app keeps its data.")
    var folder = NSHomeDirectory() + "/.assistant"

    /// Runs the app, with a server in this process if none is named.
    func withScreen(
        _ body:
            @escaping @MainActor @Sendable (SanguineClient, AssistantScreen) async throws -> Void
    ) async throws {
        if let server {
            guard let address = URL(string: server) else {
                throw ValidationError("'\(server)' is not a valid address.")
            }
            return try await Self.withApp(address, URL(filePath: folder), body)
        }
        let folder = URL(filePath: folder)
        try await Self.withModel(nil) { model in
            var settings = ServerSettings()
            settings.upstream.url = model
            let data = folder.appending(path: "server")
            try await RunningServer.withAssistant(folder: data, settings: settings) { address in
                try await Self.withApp(address, folder.appending(path: "app"), body)
            }
        }
    }

    /// Runs the body with the address of a language model.
    ///
    /// Without an address, this is a stand-in that takes two seconds to begin, as such models do.
    static func withModel(
        _ address: String?,
        _ body: @escaping @Sendable (String) async throws -> Void
    ) async throws {
        if let address { return try await body(address) }
        try await RunningServer.withStandIn(
            latency: .seconds(2),
            wordInterval: .milliseconds(40),
            body
        )
    }

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
                try say("\n\(result.charged) charged, \(predicted.expected) predicted")
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
                    try say("\n\(result.charged) charged")
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
        @Option var port = 8_080
        @Option(help: "The port for administration and metrics. Default: the port + 1.")
        var adminPort: Int?
        @Option(help: "Where the server keeps its data.") var data = "assistant-data"
        @Option(help: "The base URL of a language model that speaks OpenAI's API.")
        var upstream: String?

        func run() async throws {
            let (port, adminPort, folder) = (port, adminPort, URL(filePath: data))
            try await AppOptions.withModel(upstream) { model in
                var settings = ServerSettings()
                (settings.http.port, settings.http.adminPort) = (port, adminPort)
                settings.upstream.url = model
                try await AssistantServer.with(
                    folder: folder,
                    settings: settings,
                    onListening: { ports in
                        try? say("administration on http://127.0.0.1:\(ports.admin)")
                        try? say("listening on http://127.0.0.1:\(ports.http)")
                    }
                ) { server in try await server.serve() }
            }
        }
    }
}

/// Writes the answer as it grows.
@MainActor
private func write(_ answer: AnswerModel<String>) async throws -> FunctionResult<String> {
    var written = 0
    while true {
        let more = Data(answer.text.utf8.dropFirst(written))
        try FileHandle.standardOutput.write(contentsOf: more)
        written += more.count
        guard answer.phase == .waiting || answer.phase == .answering else { break }
        await change { _ = (answer.text, answer.phase) }
    }
    return try await answer.finished()
}

/// Returns when a value that the body reads has changed.
@MainActor
private func change(_ body: () -> Void) async {
    await withCheckedContinuation { continuation in
        withObservationTracking(body) { continuation.resume() }
    }
}

/// Writes a line at once.
///
/// `print` buffers lines while the output is a pipe, and parts of answers are written in between.
private func say(_ line: String) throws {
    try FileHandle.standardOutput.write(contentsOf: Data("\(line)\n".utf8))
}
