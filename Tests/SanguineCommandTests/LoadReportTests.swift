import Foundation
import SanguineModel
import SanguineSQLite
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineCommand

#if canImport(FoundationXML)
import FoundationXML
#endif

@Suite("The report of sanguine load", .bounded(.seconds(60)))
struct LoadReportTests {
    private static let hostile = "http://[<script>alert('x')</script>]\"&\u{1}"

    /// A run of one user whose requests succeed, fail and stay unanswered.
    private static func outcome(
        _ change: (inout LoadEngine.Outcome) -> Void = { _ in }
    ) -> LoadEngine.Outcome {
        var plan = LoadPlan()
        plan.users = 1
        plan.ramp = .zero
        plan.duration = .seconds(5)
        plan.think = .milliseconds(100) ... .milliseconds(100)
        plan.steps = [LoadStep("feed")]
        let start = Timestamp(millisecondsSince1970: 1_800_000_000_000)
        var run = LoadRun(plan, run: "test", start: start)
        var sends = run.start(at: .zero)
        for tick in 0...500 {
            let now = Duration.milliseconds(10 * tick)
            var next: [LoadRun.Send] = []
            for (index, send) in sends.enumerated() {
                let body = #"{"accessToken":"t","code":"<b>"}"#
                let status = (tick + index) % 50 == 1 ? 500 : 200
                let answer = LoadRun.Answer.response(status: status, body: Array(body.utf8))
                next += run.answer(send.number, answer, at: now + .milliseconds(3))
            }
            sends = next + run.start(at: now + .milliseconds(5))
        }
        run.finish(at: .seconds(5), isInterrupted: true)
        var outcome = LoadEngine.Outcome(run: run)
        change(&outcome)
        return outcome
    }

    private static func report(
        _ outcome: LoadEngine.Outcome = outcome(),
        samples: [ServerWatch.Sample] = []
    ) -> LoadReport {
        LoadReport(
            outcome,
            server: Self.hostile,
            began: "2026-11-28T00:00:00Z",
            arguments: ["sanguine", "load", "--server", Self.hostile],
            samples: samples,
            maxLag: .milliseconds(100)
        )
    }

    /// The elements of a well-formed document.
    private final class Elements: NSObject, XMLParserDelegate {
        var names: [String] = []
        var text = ""

        func parser(
            _ parser: XMLParser,
            didStartElement name: String,
            namespaceURI: String?,
            qualifiedName: String?,
            attributes: [String: String]
        ) { names.append(name) }

        func parser(_ parser: XMLParser, foundCharacters text: String) { self.text += text }
    }

    @Test func `the page is well-formed, and texts of others are escaped`() throws {
        let samples = [0.0, 1, 2].map { second in
            let text = "process_resident_memory_bytes \(1e6 + second)\nlive_connections 1\n"
            return ServerWatch.Sample(time: .seconds(second), facts: ServerFacts(metrics: text))
        }
        let html = LoadPage.html(of: Self.report(samples: samples))
        let parser = XMLParser(data: Data(html.utf8))
        let elements = Elements()
        parser.delegate = elements
        #expect(parser.parse(), "\(String(describing: parser.parserError))")

        #expect(!elements.names.contains("script") && !elements.names.contains("b"))
        #expect(!html.contains("<script") && elements.text.contains("<script>alert('x')</script>"))
        #expect(elements.names.contains("table"))
        // Two plots over time, one of each step with latencies, two of the server.
        #expect(elements.names.count { $0 == "svg" } == 6)
        #expect(elements.names.count { $0 == "desc" } == 6)
    }

    @Test func `the page loads nothing, and states its arguments and the seed`() {
        let html = LoadPage.html(of: Self.report())
        for name in ["src=", "href=", "url(", "@import", "<link"] {
            #expect(!html.contains(name))
        }
        #expect(html.contains("prefers-color-scheme: dark"))
        #expect(html.contains("sanguine load --server"))
        #expect(html.contains("Seed 1."))
    }

    @Test func `characters that XML does not allow are replaced`() {
        let escaped = LoadPage.escaped("a\u{0}b\u{1F}\n<&>\"'")
        #expect(escaped == "a\u{FFFD}b\u{FFFD}\n&lt;&amp;&gt;&quot;&#39;")
    }

    @Test func `percentiles ascend to the maximum`() throws {
        let report = Self.report()
        for latency in report.steps.compactMap(\.latency) + report.windows.compactMap(\.latency) {
            let all = [latency.p50, latency.p90, latency.p95, latency.p99, latency.max]
            #expect(all == all.sorted())
        }
        #expect(report.total.intended == report.steps.map(\.intended).reduce(0, +))
        #expect(report.total.failed == report.failures.map(\.count).reduce(0, +))
        #expect(report.total.failed > 0 && report.interrupted && report.valid)
        let intended = report.windows.map(\.intendedPerSecond).reduce(0, +)
        #expect(intended == Double(report.total.intended))
    }

    @Test func `a generator that could not keep up makes the run invalid, and says so`() {
        let waited = Self.report(Self.outcome { $0.waited = 3 })
        #expect(!waited.valid)
        #expect(LoadText.lines(of: waited).contains { $0.hasPrefix("INVALID: 3 requests waited") })
        #expect(LoadPage.html(of: waited).contains("<strong>Invalid.</strong>"))

        var run = Self.outcome().run
        run = LoadRun(run.plan, run: "late", start: Timestamp(millisecondsSince1970: 0))
        _ = run.start(at: .seconds(4))
        run.finish(at: .seconds(4), isInterrupted: false)
        let late = Self.report(LoadEngine.Outcome(run: run))
        #expect(!late.valid && late.invalidBecause.first?.contains("--max-lag") == true)
    }

    @Test func `the report in JSON decodes to the same report`() throws {
        let report = Self.report()
        let data = try JSONEncoder().encode(report)
        #expect(try JSONDecoder().decode(LoadReport.self, from: data) == report)
    }

    @Test func `the server's figures come from its metrics`() throws {
        let before = ServerFacts(
            metrics: """
                # TYPE x counter
                process_resident_memory_bytes 1000000.0
                process_cpu_seconds_total 1.0
                storage_reads_total{kind="records"} 10
                http_server_requests_total{method="GET",route="/v1/collections/{name}/records",\
                status="200"} 10
                """
        )
        let after = ServerFacts(
            metrics: """
                process_resident_memory_bytes 3000000.0
                process_cpu_seconds_total 3.0
                live_connections 7.0
                storage_reads_total{kind="records"} 60
                storage_reads_total{kind="load"} 900
                http_server_requests_total{method="GET",route="/v1/collections/{name}/records",\
                status="200"} 100
                http_server_requests_total{method="GET",route="/v1/collections/{name}/records",\
                status="304"} 10
                """
        )
        let samples = [
            ServerWatch.Sample(time: .zero, facts: before),
            ServerWatch.Sample(time: .seconds(1), facts: after),
        ]
        let server = try #require(LoadReport.Server(samples, users: 100, responses: 1_000))
        #expect(server.memoryBytesPerUser == 20_000)
        #expect(server.processorTimePerResponse == 2)
        #expect(server.storageReadsPerList == 0.5)
        #expect(server.liveConnectionsMost == 7)
        #expect(LoadReport.Server([], users: 1, responses: 1) == nil)
    }

    // MARK: - A real server

    @Test func `two hundred users on a real server, without a failure`() async throws {
        var settings = ServerSettings()
        (settings.http.port, settings.http.adminPort) = (0, 0)
        settings.limits.guestsPerHour = 0
        var plan = LoadPlan()
        plan.users = 200
        plan.rate = 200
        plan.ramp = .zero
        plan.duration = .seconds(3)
        plan.think = .milliseconds(100) ... .milliseconds(900)
        let report = try await Self.load(settings, plan)

        #expect(report.total.failed == 0, "\(report.failures)")
        #expect(report.arrived == 200)
        #expect(
            report.steps.map(\.name) == [
                "guest", "feed", "live", "page", "like", "post", "ask",
            ]
        )
        #expect(report.steps.allSatisfy { $0.intended == $0.succeeded && $0.intended > 0 })
        #expect(report.steps.first?.intended == 200)
        #expect(report.liveConnectionsHeld > 100)
        #expect((report.serverFacts?.liveConnectionsMost ?? 0) > 0)
        #if os(Linux)
        #expect((report.serverFacts?.memoryBytesMost ?? 0) > 0)
        #endif
        #expect((report.serverFacts?.storageReadsPerList ?? 0) > 0)
    }

    @Test func `a server that limits guests is named, with the setting to change`() async throws {
        var settings = ServerSettings()
        (settings.http.port, settings.http.adminPort) = (0, 0)
        settings.limits.guestsPerHour = 5
        var plan = LoadPlan()
        plan.users = 10
        plan.rate = 100
        plan.ramp = .zero
        plan.duration = .seconds(1)
        plan.think = .milliseconds(100) ... .milliseconds(200)
        plan.steps = [LoadStep("feed", isOnce: true)]
        // Guests are counted by address; so few connections come from one.
        let report = try await Self.load(settings, plan, posts: 0, requests: 10)

        let refused = report.failures.first { $0.reason == "429 rate_limited" }
        #expect(refused?.step == "guest")
        #expect(refused?.advice?.contains("SANGUINE_LIMITS_GUESTS_PER_HOUR=0") == true)
        #expect(report.steps.last?.succeeded == 5)
    }

    @Test func `without a server every request fails with the reason`() async throws {
        let target = try LoadTarget("http://127.0.0.1:1", allowsRemote: false)
        var plan = LoadPlan()
        plan.users = 3
        plan.rate = 100
        plan.ramp = .zero
        plan.duration = .seconds(1)
        plan.steps = [LoadStep("feed", isOnce: true)]
        plan.think = .milliseconds(10) ... .milliseconds(20)
        let outcome = try await LoadEngine.perform(
            LoadRun(plan, run: "none", start: Timestamp(millisecondsSince1970: 0)),
            target: target,
            connections: try LoadConnections(requests: 10, live: 0, descriptors: 1_000)
        )
        let report = Self.report(outcome)
        #expect(report.total.succeeded == 0)
        let isRefused = report.failures.contains { $0.reason == "connection refused" }
        #expect(isRefused, "\(report.failures)")
    }

    @Test func `a cancelled run ends with the outcome so far`() async throws {
        var plan = LoadPlan()
        plan.users = 1
        plan.rate = 1
        plan.ramp = .zero
        plan.duration = .seconds(500)
        let run = LoadRun(plan, run: "none", start: Timestamp(millisecondsSince1970: 0))
        let task = Task {
            try await LoadEngine.perform(
                run,
                target: try LoadTarget("http://127.0.0.1:1", allowsRemote: false),
                connections: try LoadConnections(requests: 10, live: 1, descriptors: 1_000)
            )
        }
        task.cancel()
        let outcome = try await task.finished()
        #expect(outcome.run.isInterrupted && outcome.run.openRequests == 0)
    }

    private static func load(
        _ settings: ServerSettings,
        _ plan: LoadPlan,
        posts: Int = 100,
        requests: Int? = nil
    ) async throws -> LoadReport {
        try await TemporaryFolder.with { folder in
            try await SQLiteStorage.with(folder: folder) { storage in
                let server = try await SanguineServer(
                    storage: storage,
                    keys: try KeyFile.loadOrCreate(in: folder),
                    settings: settings
                )
                return try await server.serve { addresses in
                    let text = addresses.http.absoluteString
                    let target = try LoadTarget(text, allowsRemote: false)
                    let watch = ServerWatch(addresses.admin)
                    defer { watch.close() }
                    let result = try await LoadCommand.perform(
                        plan,
                        target: target,
                        connections: try LoadConnections(
                            requests: requests,
                            live: plan.liveUsers,
                            descriptors: Descriptors.raiseLimit()
                        ),
                        posts: posts,
                        watch: watch
                    )
                    return LoadReport(
                        result.outcome,
                        server: text,
                        began: result.began.description,
                        arguments: plan.arguments,
                        samples: watch.samples,
                        maxLag: .seconds(30)
                    )
                }
            }
        }
    }
}
