import AlmanacApp
import AlmanacModel
import AlmanacServer
public import AlmanacSky
public import ArgumentParser
import ExampleTerminal
import Foundation
import Sanguine
import SanguineServer

/// The app's command-line interface.
@main
struct AlmanacTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "Almanac",
        abstract: "Compute charts, and have them explained. Without a server, it runs its own.",
        subcommands: [
            Birth.self, ShowChart.self, Periods.self, Transits.self, Today.self, Ask.self,
            CompareBirths.self, Threads.self, ShowThread.self, Rename.self, Delete.self,
            Search.self, Restore.self, ShowSky.self, Rate.self, Matrix.self, Serve.self,
        ],
        defaultSubcommand: ShowChart.self
    )
}

/// The parts of the app that a command uses.
@MainActor
struct App: Sendable {
    let client: SanguineClient
    let screen: AlmanacScreen

    fileprivate init(server: URL, folder: URL) throws {
        var configuration = SanguineClient.Configuration.almanac(server: server, folder: folder)
        // A command reports an unreachable server at once.
        configuration.retries = false
        client = try SanguineClient(configuration)
        screen = AlmanacScreen(client)
    }

    /// The values of the user's birth, fetched if the device has none.
    func data() async throws -> AstroData {
        let birth = try await birth()
        let year = Int("\(screen.today)".prefix(4)) ?? 0
        return try await client.value(of: .astroData(of: birth, in: year))
    }

    func birth() async throws -> BirthData {
        if screen.birth == nil { _ = try? await client.account.value() }
        guard let birth = screen.birth else {
            throw ValidationError("No birth is known. Set one with 'Almanac birth'.")
        }
        return birth
    }
}

struct AppOptions: ParsableArguments {
    @Option(
        help: "The server's address. Default: a server in this process.",
        transform: address
    )
    var server: URL?

    @Option(help: "Where the app keeps its data.")
    var folder = NSHomeDirectory() + "/.almanac"

    /// Runs the app, with a server in this process if none is named, and sends its operations.
    func withApp(_ body: @escaping @MainActor @Sendable (App) async throws -> Void) async throws {
        try await withServer(
            server,
            URL(filePath: folder),
            latency: Self.latency,
            { data, settings, use in
                try await AlmanacServer.with(
                    folder: data,
                    settings: settings,
                    logger: .errors("almanac"),
                    use
                )
            },
            { try await Self.run($0, $1, body) }
        )
    }

    /// The time in which the stand-in for a language model begins an answer.
    static let latency = Duration.seconds(3)

    @MainActor
    private static func run(
        _ server: URL,
        _ folder: URL,
        _ body: @MainActor (App) async throws -> Void
    ) async throws {
        let app = try App(server: server, folder: folder)
        defer { app.client.close() }
        try await body(app)
        try? await app.client.synchronize()
    }
}

/// The data of a birth as options.
struct BirthOptions: ParsableArguments {
    @Option(help: "As 1990-05-17.") var date: String
    @Option(help: "As 14:35.") var time: String
    @Option(help: "An IANA time zone.") var zone: String
    @Option(help: "Degrees, north positive.") var latitude: Double
    @Option(help: "Degrees, east positive.") var longitude: Double

    func birth() throws -> BirthData {
        do throws(SkyError) {
            return try BirthData(
                date: date,
                time: time,
                zone: zone,
                latitude: latitude,
                longitude: longitude
            )
        } catch {
            throw ValidationError(error.description)
        }
    }
}

extension Zodiac: ExpressibleByArgument {}

extension AlmanacTool {
    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Run the server, with a stand-in for the language model unless one is named."
        )
        @OptionGroup var ports: ServeOptions
        @Option(help: "Where the server keeps its data.") var data = "almanac-data"
        @Option(help: "The base URL of a language model that speaks OpenAI's API.")
        var upstream: String?

        func run() async throws {
            let (settings, folder) = (ports.settings, URL(filePath: data))
            try await withModel(upstream, latency: AppOptions.latency) { model in
                var settings = settings
                settings.upstream.url = model
                try await AlmanacServer.with(
                    folder: folder,
                    settings: settings,
                    onListening: ServeOptions.announce
                ) { try await $0.serve() }
            }
        }
    }
}
