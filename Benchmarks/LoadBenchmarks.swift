import Foundation
import NIOCore
import NIOPosix
import SanguineModel

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Many users on one machine by `sanguine load`, and the operations of PocketBase's published
/// benchmark.
///
/// Server and generator are processes of the real `sanguine`, next to this executable.
enum LoadBenchmarks {
    /// The part of the report in JSON that is used here.
    private struct Report: Decodable {
        struct Latency: Decodable { var p99: Double }
        struct Step: Decodable {
            var intended: Int
            var failed: Int
            var latency: Latency?
        }
        struct Server: Decodable {
            var memoryBytesPerUser: Double?
            var storageReadsPerList: Double?
        }

        var valid: Bool
        var invalidBecause: [String]
        var total: Step
        var serverFacts: Server?
    }

    /// The records of the lists.
    private static let lists = [10_000, 100_000]

    static func run(users: Int, roundTime: Duration) async throws -> [Figure] {
        try await crowd(of: users) + published(roundTime)
    }

    // MARK: - Users

    private static func crowd(of users: Int) async throws -> [Figure] {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-load-\(ProcessInfo.processInfo.processIdentifier)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let server = Process()
        server.executableURL = tool
        server.arguments = ["serve", "--data", folder.path, "--port", "18080"]
        server.environment = ProcessInfo.processInfo.environment.merging([
            "SANGUINE_LIMITS_GUESTS_PER_HOUR": "0",
            "SANGUINE_LIMITS_ADDRESS_REQUESTS_PER_MINUTE": "60000000",
            "SANGUINE_LIMITS_ADDRESS_PROCESSOR_TIME": "10m",
            "SANGUINE_LIMITS_LIVE_CONNECTIONS": "20000",
            "SANGUINE_LIMITS_CONNECTIONS": "60000",
            "SANGUINE_LOG_ACCESS": "false",
        ]) { $1 }
        let ready = Pipe()
        server.standardOutput = ready
        try server.run()
        defer {
            server.terminate()
            server.waitUntilExit()
        }
        // Waits for the line with its address.
        guard !ready.fileHandleForReading.availableData.isEmpty else {
            throw BenchmarkError.noServer("it ended before it was ready")
        }
        let report = try load(users)
        guard report.valid else {
            throw BenchmarkError.noServer(report.invalidBecause.joined(separator: " "))
        }
        return figures(report, users)
    }

    private static func load(_ users: Int) throws -> Report {
        let process = Process()
        process.executableURL = tool
        // A ramp and arrivals within half a minute, then a minute with everyone.
        process.arguments = [
            "load", "--server", "http://127.0.0.1:18080", "--users", "\(users)",
            "--rate", "\(max(10, users / 25))", "--ramp", "5s", "--duration", "90s",
            "--think", "5s..15s", "--max-lag", "250ms", "--report", ".build/load.html", "--json",
        ]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return try JSONDecoder().decode(Report.self, from: data)
    }

    private static func figures(_ report: Report, _ users: Int) -> [Figure] {
        let name = "load by \(users.formatted()) users"
        var figures = [
            Figure(
                cost: "\(name), p99 from the intended start",
                report.total.latency?.p99 ?? .infinity,
                unit: "ms",
                of: "one second",
                1_000,
                atMost: 1
            ),
            Figure(
                cost: "\(name), failures",
                Double(report.total.failed),
                unit: "requests",
                of: "all requests",
                Double(report.total.intended),
                atMost: 0
            ),
        ]
        if let bytes = report.serverFacts?.memoryBytesPerUser {
            figures.append(
                Figure(
                    cost: "\(name), memory per user with a live connection",
                    bytes / 1_000,
                    unit: "KB",
                    of: "the aim",
                    20,
                    atMost: 1
                )
            )
        }
        if let reads = report.serverFacts?.storageReadsPerList {
            figures.append(
                Figure(
                    cost: "\(name), storage reads per list",
                    reads,
                    unit: "reads",
                    of: "one for each list",
                    1,
                    atMost: 1
                )
            )
        }
        return figures
    }

    /// The real `sanguine`, which `make bench` builds next to this executable.
    private static var tool: URL {
        URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appending(path: "sanguine")
    }

    // MARK: - PocketBase's operations

    private static func published(_ roundTime: Duration) async throws -> [Figure] {
        try await BenchmarkedServer.with { server in
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
            let run = UUID().uuidString.lowercased()
            var figures: [Figure] = []
            var made = 0
            for count in lists {
                try await create(made..<count, on: server, run)
                made = count
                let rate = try await LoadGenerator(
                    port: server.port,
                    connections: 1_000,
                    group: group
                ).run(for: roundTime, expecting: "200") { connection, _ in
                    list(server.tokens[connection % server.tokens.count])
                }
                guard rate.failed == 0 else { throw BenchmarkError.refused(rate.failed) }
                figures.append(
                    Figure(
                        rate: "lists of 20 of \(count.formatted()), 1,000 at once",
                        rate.perSecond,
                        unit: "1/s",
                        beside: "PocketBase's published benchmark on 2 vCPU",
                        recorded: 1_316
                    )
                )
            }
            var generator = LoadGenerator(port: server.port, connections: 500, group: group)
            // A refused operation has the status 200, too.
            let refused = Counter()
            generator.onResponse = { _, text in
                if !text.contains(#""status":"applied""#) { _ = refused.add() }
            }
            let rate = try await generator.run(for: roundTime, expecting: "200") {
                connection,
                number in
                push(
                    server.tokens[connection % server.tokens.count],
                    device: "bench-load-\(run)-\(connection)",
                    [(number + 1, "\(run)-\(connection)-\(number)")]
                )
            }
            guard rate.failed + refused.value == 0 else {
                throw BenchmarkError.refused(rate.failed + refused.value)
            }
            figures.append(
                Figure(
                    rate: "creates, 500 at once",
                    rate.perSecond,
                    unit: "1/s",
                    beside: "PocketBase's published benchmark on 2 vCPU",
                    recorded: 2_015
                )
            )
            try await group.shutdownGracefully()
            return figures
        }
    }

    /// Creates posts, a hundred with each request.
    private static func create(
        _ numbers: Range<Int>,
        on server: BenchmarkedServer,
        _ run: String
    ) async throws {
        guard let url = URL(string: "http://127.0.0.1:\(server.port)/v1/sync/push") else { return }
        for first in stride(from: numbers.lowerBound, to: numbers.upperBound, by: 100) {
            let records = (first..<min(first + 100, numbers.upperBound)).map {
                ($0 + 1, "\(run)-\($0)")
            }
            let author = first / 100 % server.tokens.count
            var request = URLRequest(url: url)
            request.httpMethod = "POST"
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
            request.setValue(
                "Bearer \(server.tokens[author])",
                forHTTPHeaderField: "Authorization"
            )
            request.httpBody = Data(body(device: "bench-load-\(run)-author", records).utf8)
            let (data, _) = try await URLSession.shared.data(for: request)
            let answer = try JSONDecoder().decode(PushAnswer.self, from: data)
            guard answer.results.allSatisfy({ $0.status == .applied }) else {
                throw BenchmarkError.wrong("create")
            }
        }
    }

    private static func list(_ token: String) -> String {
        """
        GET /v1/collections/posts/records?limit=20 HTTP/1.1\r
        Host: localhost\r
        Authorization: Bearer \(token)\r
        \r\n
        """
    }

    private static func push(
        _ token: String,
        device: String,
        _ records: [(Int, String)]
    ) -> String {
        let body = body(device: device, records)
        return """
            POST /v1/sync/push HTTP/1.1\r
            Host: localhost\r
            Authorization: Bearer \(token)\r
            Content-Type: application/json\r
            Content-Length: \(body.utf8.count)\r
            \r
            \(body)
            """
    }

    private static func body(
        device: String,
        _ records: [(Int, String)]
    ) -> String {
        let now = SystemWallClock().now()
        let operations = records.map { sequence, id in
            """
            {"id":"\(Identifier(at: now))","sequence":\(sequence),"lane":"posts",\
            "mutator":"record.create","arguments":{"collection":"posts","id":"\(id)",\
            "fields":{"text":"Post \(sequence)"}}}
            """
        }
        return #"{"device":"\#(device)","operations":[\#(operations.joined(separator: ","))]}"#
    }
}
