import ArgumentParser
import Foundation
import Logging
import SanguineServer

/// `sanguine demo`.
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Play a guest's first minutes: a real server, a real client, a stand-in model.",
        discussion: """
            Starts both servers on free ports in a folder that is removed afterwards, prints what \
            the user sees and when, and verifies the ledger. Exits 1 if anything differs from the \
            expected.
            """
    )

    @Option(help: "The time that the stand-in model takes for an answer, in milliseconds.")
    var latencyMs = 1_200

    func validate() throws {
        guard (50...10_000).contains(latencyMs) else {
            throw ValidationError("Set '--latency-ms' to 50 to 10000.")
        }
    }

    func run() async throws {
        LoggingSystem.bootstrap { JSONLogHandler(label: $0, level: .error) }
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-demo-\(UUID().uuidString)", directoryHint: .isDirectory)
        defer { try? FileManager.default.removeItem(at: folder) }
        let timeline = Timeline()
        let latency = Duration.milliseconds(latencyMs)
        let standIn = StandInServer(
            port: 0,
            latency: latency,
            logger: Logger(label: "sanguine.demo")
        )
        try await standIn.serve { upstream in
            let story = Story(
                folder: folder,
                upstream: upstream,
                latency: latency,
                timeline: timeline
            )
            try await story.play()
        }
        try timeline.printSummary()
    }
}
