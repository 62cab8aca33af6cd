import AlmanacApp
import AlmanacModel
import AlmanacServer
public import AlmanacSky
public import ArgumentParser
import Foundation
import Observation
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
            Match.self, ShowSky.self, Rate.self, Matrix.self, Serve.self,
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
    @Option(help: "The server's address. Default: a server in this process.")
    var server: String?

    @Option(help: "Where the app keeps its data.")
    var folder = NSHomeDirectory() + "/.almanac"

    /// Runs the app, with a server in this process if none is named, and sends its operations.
    func withApp(_ body: @escaping @MainActor @Sendable (App) async throws -> Void) async throws {
        let folder = URL(filePath: folder)
        if let server {
            guard let address = URL(string: server) else {
                throw ValidationError("'\(server)' is not a valid address.")
            }
            return try await Self.run(address, folder, body)
        }
        try await Self.withModel(nil) { model in
            var settings = ServerSettings()
            settings.upstream.url = model
            let data = folder.appending(path: "server")
            try await RunningServer.withAlmanac(folder: data, settings: settings) { addresses in
                try await Self.run(addresses.http, folder.appending(path: "app"), body)
            }
        }
    }

    /// Runs the body with the address of a language model.
    ///
    /// Without an address, this is a stand-in that takes three seconds to begin.
    static func withModel(
        _ address: String?,
        _ body: @escaping @Sendable (String) async throws -> Void
    ) async throws {
        if let address { return try await body(address) }
        try await RunningServer.withStandIn(
            latency: .seconds(3),
            wordInterval: .milliseconds(40),
            body
        )
    }

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
        @Option var port = 8_080
        @Option(help: "The port for administration and metrics. Default: the port + 1.")
        var adminPort: Int?
        @Option(help: "Where the server keeps its data.") var data = "almanac-data"
        @Option(help: "The base URL of a language model that speaks OpenAI's API.")
        var upstream: String?

        func run() async throws {
            let (port, adminPort, folder) = (port, adminPort, URL(filePath: data))
            try await AppOptions.withModel(upstream) { model in
                var settings = ServerSettings()
                (settings.http.port, settings.http.adminPort) = (port, adminPort)
                settings.upstream.url = model
                try await AlmanacServer.with(
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
func write(_ answer: AnswerModel<String>) async throws {
    var written = 0
    while true {
        let more = Data(answer.text.utf8.dropFirst(written))
        try FileHandle.standardOutput.write(contentsOf: more)
        written += more.count
        guard answer.phase == .waiting || answer.phase == .answering else { break }
        await withCheckedContinuation { continuation in
            withObservationTracking {
                _ = (answer.text, answer.phase)
            } onChange: {
                continuation.resume()
            }
        }
        await Task.yield()
    }
    try say("")
    _ = try await answer.finished()
}

/// Writes a line at once.
///
/// `print` buffers lines while the output is a pipe, and parts of answers are written in between.
func say(_ line: String) throws {
    try FileHandle.standardOutput.write(contentsOf: Data("\(line)\n".utf8))
}
