import ArgumentParser
import Foundation
import SanguineModel
import SanguineServer

/// `sanguine load`.
struct LoadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load",
        abstract: "Load test a server: play many users, and report latencies with plots.",
        discussion: """
            Each user signs in as a guest, opens the feed, holds a live connection, scrolls, \
            likes, posts and asks once. All requests have intended times, which no slow response \
            changes, and latencies begin at them. Prints the report, and writes it as an HTML \
            file. SIGINT ends the run with the report so far. Exits 1 if the generator could not \
            keep up, so that the figures are invalid.
            """
    )

    @Option(help: "The server's URL. Default: SANGUINE_SERVER, or http://127.0.0.1:8080.")
    var server: String?

    @Option(help: "The URL of the admin port, for its metrics. Default: the server's port + 1.")
    var admin: String?

    @Flag(help: "Load a server on another machine. Load only a server that you may load.")
    var allowRemote = false

    @OptionGroup var options: LoadOptions

    @Option(help: "The posts to create before the run.")
    var posts = 100

    @Option(help: "The connections for requests. Default: as many as needed, at most 10000.")
    var connections: Int?

    @Option(help: "The p99 of the generator's own lag above which the run is invalid.")
    var maxLag = "100ms"

    @Option(help: "The HTML file to write; 'none' for no file.")
    var report = "sanguine-load.html"

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        guard LoadLimits.posts.contains(posts) else {
            throw ValidationError("Set '--posts' to 0 to \(LoadLimits.posts.upperBound).")
        }
        guard connections.map(LoadLimits.connections.contains) ?? true else {
            throw ValidationError("Set '--connections' to 1 to 60000.")
        }
        guard let lag = LoadScenario.duration(maxLag), lag > .zero else {
            throw ValidationError("Set '--max-lag' to a duration, such as 100ms.")
        }
        guard !report.isEmpty else {
            throw ValidationError("Set '--report' to the path of a file, or to 'none'.")
        }
    }

    func run() async throws {
        let plan = try await options.plan()
        let environment = ProcessInfo.processInfo.environment[ClientOptions.serverVariable]
        let text = server ?? environment ?? "http://127.0.0.1:8080"
        let target = try LoadTarget(text, allowsRemote: allowRemote)
        let watch = ServerWatch(try adminURL(of: target))
        defer { watch.close() }
        let limits = try LoadConnections(
            requests: connections,
            live: plan.liveUsers,
            descriptors: Descriptors.raiseLimit()
        )
        let posts = posts
        let result = try await Interruptible.run {
            try await Self.perform(
                plan,
                target: target,
                connections: limits,
                posts: posts,
                watch: watch
            )
        }
        let summary = LoadReport(
            result.outcome,
            server: text,
            began: result.began.description,
            arguments: ["sanguine", "load", "--server", text, "--posts", "\(posts)"]
                + plan.arguments,
            samples: watch.samples,
            maxLag: LoadScenario.duration(maxLag) ?? .zero
        )
        try write(summary)
        if !summary.valid { throw ExitCode.failure }
    }

    private func adminURL(of target: LoadTarget) throws -> URL {
        var parts = URLComponents()
        parts.scheme = "http"
        parts.host = target.url.host()
        parts.port = target.port + 1
        let text = admin ?? parts.string ?? ""
        guard let url = URL(string: text), url.host() != nil else {
            throw ValidationError("Set '--admin' to a URL such as http://127.0.0.1:8081.")
        }
        return url
    }

    private func write(_ summary: LoadReport) throws {
        if report != "none" {
            let file = URL(filePath: report)
            do {
                try Data(LoadPage.html(of: summary).utf8).write(to: file, options: .atomic)
            } catch {
                throw Failure(
                    "The report cannot be written to \(file.path). Set '--report'. \(error)"
                )
            }
            Output.writeError("report: \(file.path)")
        }
        if json { return try Output.write(json: summary) }
        for line in LoadText.lines(of: summary) { try Output.write(line) }
    }

    /// Creates the posts, then performs the run while it reads the server's metrics.
    ///
    /// Cancelling the task ends the run early, and its outcome so far is returned.
    static func perform(
        _ plan: LoadPlan,
        target: LoadTarget,
        connections: LoadConnections,
        posts: Int,
        watch: ServerWatch,
        clock: any WallClock = SystemWallClock()
    ) async throws -> (outcome: LoadEngine.Outcome, began: Timestamp) {
        let run = String(UInt64.random(in: 0...UInt64.max), radix: 36)
        if posts > 0 {
            let preparation = LoadPreparation(
                url: target.url,
                collection: plan.collection,
                run: run,
                clock: clock
            )
            do { try await preparation.create(posts) } catch is CancellationError {
                throw Failure("The run was interrupted before its first request.")
            }
        }
        await watch.read(at: .zero)
        let began = clock.now()
        let following = Task { await watch.follow(every: .seconds(1)) }
        defer { following.cancel() }
        let outcome = try await LoadEngine.perform(
            LoadRun(plan, run: run, start: began),
            target: target,
            connections: connections
        ) { Output.writeError("\($0)") }
        return (outcome, began)
    }
}
