import Foundation
import SanguineTesting
import TestSupport
import Testing

/// Many users at the same time, played by `sanguine load`.
@Suite("Load of the feed", .bounded(.seconds(600)))
struct FeedLoadTests {
    /// The members of the report that are printed.
    private struct Report: Decodable {
        struct Latency: Decodable {
            let p50: Double
            let p99: Double
        }

        struct Step: Decodable {
            let succeeded: Int
            let failed: Int
            let latency: Latency?
        }

        struct Facts: Decodable {
            let memoryBytesPerUser: Double?
            let storageReadsPerList: Double?
        }

        let arrived: Int
        let liveConnectionsHeld: Int
        let total: Step
        let serverFacts: Facts?
    }

    @Test func `many users scroll, like and post while each holds a live connection`() async throws
    {
        // The README says how to run it with 10,000.
        let users = environmentNumber("FEED_USERS", or: 50)
        try await TemporaryFolder.with { root in
            let arguments = [
                "serve", "--load-test", "--port", "0", "--data", root.appending(path: "data").path,
            ]
            try await Tool.with(arguments, of: "Feed") { tool in
                let port = try await tool.listeningPort()
                let admin = try #require(tool.output.value.lines.first { $0.contains("admin") })
                let ended = try await Tool.with(
                    [
                        "load", "--server", "http://127.0.0.1:\(port)", "--admin",
                        String(admin.split(separator: " ").last ?? ""), "--scenario",
                        Self.scenario, "--users", "\(users)", "--rate", "\(max(50, users / 60))",
                        "--duration", "\(max(12, users / 50))s", "--think", "500ms..1s",
                        // On a busy machine requests may start late.
                        "--max-lag", "10m", "--report", "none", "--json",
                    ]
                ) { try await $0.ended() }
                #expect(ended.status == 0, "\(ended.errors)")
                let report = try JSONDecoder().decode(Report.self, from: Data(ended.output.utf8))
                try Self.check(report, users)
                tool.signal(SIGTERM)
                #expect(try await tool.ended().status == 0)
            }
        }
    }

    private static func check(_ report: Report, _ users: Int) throws {
        #expect(report.arrived == users && report.liveConnectionsHeld == users)
        #expect(report.total.failed == 0 && report.total.succeeded > 5 * users)
        let latency = try #require(report.total.latency)
        let facts = try #require(report.serverFacts)
        let memory = facts.memoryBytesPerUser.map { "\(Int($0 / 1_024)) KiB" } ?? "unknown memory"
        printFigure(
            "K15",
            ours: """
                \(users) users: p50 \(latency.p50) ms, p99 \(latency.p99) ms, \(memory) per user, \
                \(report.total.failed) of \(report.total.succeeded) requests failed
                """,
            theirs: "10,000 users"
        )
    }

    private static var scenario: String {
        SystemTool.repository.appending(path: "Examples/Feed/load.yaml").path
    }
}
