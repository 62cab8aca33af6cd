import ArgumentParser
import Logging
import SanguineServer
import ServiceLifecycle
import UnixSignals

/// `sanguine stand-in`.
struct StandIn: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stand-in",
        abstract: "Run a local stand-in for a language model, for demonstrations and tests.",
        discussion: """
            Serves OpenAI's chat completions and embeddings on loopback, with deterministic \
            answers; a message that names a tool calls it. Prints \
            'listening on http://127.0.0.1:…' when it accepts requests.
            """
    )

    @Option(help: "The port; 0 picks a free one.")
    var port = 8_090

    @Option(help: "The time from a request to its answer, in milliseconds.")
    var latencyMs = 0

    @Option(help: "The time between two words of a streamed answer, in milliseconds.")
    var wordMs = 0

    func validate() throws {
        guard (0...65_535).contains(port) else {
            throw ValidationError("Set '--port' to 0 to 65535.")
        }
        guard (0...600_000).contains(latencyMs) else {
            throw ValidationError("Set '--latency-ms' to 0 to 600000.")
        }
        guard (0...60_000).contains(wordMs) else {
            throw ValidationError("Set '--word-ms' to 0 to 60000.")
        }
    }

    func run() async throws {
        LoggingSystem.bootstrap { JSONLogHandler(label: $0, level: .notice) }
        let server = StandInServer(
            port: port,
            latency: .milliseconds(latencyMs),
            wordInterval: .milliseconds(wordMs)
        ) { port in
            Output.announce("listening on http://127.0.0.1:\(port)")
        }
        var group = ServiceGroupConfiguration(
            services: [server],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: Logger(label: "sanguine.stand-in")
        )
        // An answer may take ten minutes, and its charge does not matter here.
        group.maximumGracefulShutdownDuration = .seconds(2)
        try await ServiceGroup(configuration: group).run()
    }
}
