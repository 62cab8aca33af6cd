import ArgumentParser
import ExampleTerminal
import FeedApp
import FeedModel
import FeedServer
import Foundation
import Sanguine
import SanguineServer

/// The app's command-line interface.
@main
struct FeedTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "Feed",
        abstract: "Scroll, post, like, reply, follow and write. Without a server, it runs its own.",
        subcommands: [
            Scroll.self, Publish.self, SetLike.self, Replies.self, ShowProfile.self,
            Follows.self, Search.self, Conversations.self, SendMessage.self, Fill.self, Matrix.self,
            Serve.self,
        ],
        defaultSubcommand: Scroll.self
    )
}

struct AppOptions: ParsableArguments {
    @Option(
        help: "The server's address. Default: a server in this process.",
        transform: address
    )
    var server: URL?

    @Option(help: "Where the app keeps its data.")
    var folder = NSHomeDirectory() + "/.feed"

    @Flag(help: "Print what was cached, shared and prefetched.")
    var statistics = false

    /// Runs the app, with a server in this process if none is named, and sends its operations.
    func withApp(
        _ body: @escaping @MainActor @Sendable (SanguineClient) async throws -> Void
    ) async throws {
        let shows = statistics
        try await withServer(
            server,
            URL(filePath: folder),
            latency: .zero,
            { data, settings, use in
                try await FeedServer.with(
                    folder: data,
                    settings: settings,
                    logger: .errors("feed"),
                    use
                )
            },
            { try await Self.run($0, $1, shows, body) }
        )
    }

    @MainActor
    private static func run(
        _ server: URL,
        _ folder: URL,
        _ shows: Bool,
        _ body: @MainActor (SanguineClient) async throws -> Void
    ) async throws {
        var configuration = SanguineClient.Configuration.feed(server: server, folder: folder)
        // A command reports an unreachable server at once.
        configuration.retries = false
        let client = try SanguineClient(configuration)
        defer { client.close() }
        try await body(client)
        try? await client.synchronize()
        for refused in client.outbox.refused {
            try say("refused: \(refused.problem.detail)")
        }
        if shows { try Statistics.show(client.metrics.summary()) }
    }
}

/// The figures of a client, for a reader.
enum Statistics {
    /// Prints what was answered from the cache, what shared a request, and what was loaded.
    static func show(_ summary: MetricsSummary) throws {
        for row in summary.queries where row.reads + row.flights > 0 {
            // A read that waited without a request of its own has shared one.
            let shared = max(0, row.misses + row.staleHits - row.flights)
            let slow = row.slow > 0 ? ", \(row.slow) over a second" : ""
            try say(
                """
                \(row.name): \(row.hits) of \(row.reads) reads cached, \(shared) shared, \
                \(row.flights) requests\(slow)
                """
            )
        }
        try say("\(summary)")
    }
}

/// Returns the id in an argument, as other commands print it.
///
/// - Throws: `ValidationError` for text that is not an id.
func recordID(_ text: String) throws -> RecordID {
    guard let id = RecordID(text) else {
        throw ValidationError("'\(text)' is not an id. Use one that another command has printed.")
    }
    return id
}
