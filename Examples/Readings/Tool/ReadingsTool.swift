public import ArgumentParser
import ExampleTerminal
import Foundation
import ReadingsApp
public import ReadingsModel
import ReadingsServer
import Sanguine
import SanguineServer

/// The app's command-line interface.
@main
struct ReadingsTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "Readings",
        abstract: "Have faces, palms and coffee grounds read. Without a server, it runs its own.",
        subcommands: [
            Read.self, History.self, ShowQuota.self, Register.self, Verify.self, SignIn.self,
            OtherDevice.self, ShowAccount.self, Serve.self,
        ],
        defaultSubcommand: History.self
    )
}

/// The parts of the app that a command uses.
@MainActor
struct App: Sendable {
    let client: SanguineClient
    let readings: ReadingsScreen
    let account: AccountScreen
    let identity: IdentityScreen

    fileprivate init(server: URL, folder: URL) throws {
        var configuration = SanguineClient.Configuration.readings(server: server, folder: folder)
        // A command reports an unreachable server at once.
        configuration.retries = false
        client = try SanguineClient(configuration)
        readings = ReadingsScreen(client, folder: folder)
        account = AccountScreen(client)
        identity = IdentityScreen(client)
    }
}

struct AppOptions: ParsableArguments {
    @Option(
        help: "The server's address. Default: a server in this process.",
        transform: address
    )
    var server: URL?

    @Option(help: "Where the app keeps its data.")
    var folder = NSHomeDirectory() + "/.readings"

    /// Runs the app, with a server in this process if none is named, and sends its operations.
    func withApp(_ body: @escaping @MainActor @Sendable (App) async throws -> Void) async throws {
        try await withServer(
            server,
            URL(filePath: folder),
            latency: Self.latency,
            { data, settings, use in
                try await ReadingsServer.with(
                    folder: data,
                    settings: settings,
                    logger: .errors("readings"),
                    use
                )
            },
            { try await Self.run($0, $1, body) }
        )
    }

    /// The time in which the stand-in for a language model begins an answer.
    static let latency = Duration.seconds(1)

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

extension ReadingKind: ExpressibleByArgument {}
extension Origin: ExpressibleByArgument {}

extension ReadingsTool {
    struct Read: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Upload a photo, and print its reading as it arrives."
        )
        @Option(help: "A JPEG, PNG or WebP file.") var photo: String
        @Option var kind: ReadingKind
        @Option(help: "The tradition.") var origin: Origin
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                let file = URL(filePath: photo)
                do {
                    let answer = try await app.readings.read(file, kind, origin)
                    _ = try await write(answer)
                } catch let error as SanguineError {
                    guard let quota = app.readings.quota, quota.remaining == 0 else { throw error }
                    try showPaywall(quota, app.readings.paywall.lifts.map(\.rawValue))
                    throw ExitCode.failure
                }
                try await app.readings.refresh()
                try show(app.readings.quota)
            }
        }
    }

    struct History: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show all readings, also offline, and finish those that were interrupted."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                try? await app.readings.refresh()
                await app.readings.resume()
                await app.readings.settle()
                for reading in app.readings.history {
                    try say("\(reading.day) \(reading.kind.rawValue), \(reading.origin.rawValue)")
                    try say("    \(reading.text ?? "…")")
                }
                if app.readings.history.isEmpty { try say("No readings yet.") }
            }
        }
    }

    struct ShowQuota: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "quota",
            abstract: "Show how many readings are left today."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                try? await app.readings.refresh()
                try show(app.readings.quota)
                if let quota = app.readings.quota, quota.remaining == 0 {
                    try showPaywall(quota, app.readings.paywall.lifts.map(\.rawValue))
                }
            }
        }
    }

    struct ShowAccount: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "account",
            abstract: "Show the account, and change its zone, its language and the app's settings."
        )
        @Option(help: "An IANA time zone, or 'device'.") var timeZone: String?
        @Option(help: "A BCP 47 tag.") var language: String?
        @Flag(inversion: .prefixedNo, help: "Notify when readings are available again.")
        var notifications: Bool?
        @Flag(help: "Note that the introduction was shown.") var onboarded = false
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                _ = try? await app.client.account.value()
                let account = app.account
                if let timeZone {
                    try account.setTimeZone(timeZone == "device" ? nil : timeZone)
                }
                if let language { try account.setLanguage(language) }
                if let notifications { try account.setNotifications(notifications) }
                if onboarded { try account.finishOnboarding() }
                // The model is notified of received values in a later turn.
                let known = app.client.account.current
                let settings: ReadingSettings = known.settings.decoded()
                try say("\(known.kind.rawValue) \(known.id?.description ?? "not registered yet")")
                if let email = known.email { try say(email) }
                try say("\(known.plan.rawValue), \(known.timeZone), \(known.language)")
                try say("introduction \(settings.hasOnboarded ? "shown" : "not shown")")
                try say("notifications \(settings.notifies ? "on" : "off")")
            }
        }
    }

    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Run the server, with a stand-in for the language model unless one is named."
        )
        @OptionGroup var ports: ServeOptions
        @Option(help: "Where the server keeps its data.") var data = "readings-data"
        @Option(help: "The base URL of a language model that speaks OpenAI's API.")
        var upstream: String?

        func run() async throws {
            let (settings, folder) = (ports.settings, URL(filePath: data))
            try await withModel(upstream, latency: AppOptions.latency) { model in
                var settings = settings
                settings.upstream.url = model
                try await ReadingsServer.with(
                    folder: folder,
                    settings: settings,
                    onListening: ServeOptions.announce
                ) { try await $0.serve() }
            }
        }
    }
}

private func show(_ quota: Quota?) throws {
    guard let quota else { return try say("No server has been reached yet. Set '--server'.") }
    guard let remaining = quota.remaining else { return try say("unlimited readings") }
    try say("\(remaining) of \(quota.limit) readings left until \(quota.resetsAt)")
}

/// Shows the paywall of a quota that is used up.
private func showPaywall(_ quota: Quota, _ lifts: [String]) throws {
    try say("All \(quota.limit) readings of today are used.")
    try say("The next ones: \(quota.resetsAt), or at once with \(lifts.joined(separator: " or ")).")
}
