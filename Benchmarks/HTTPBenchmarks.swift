import Foundation
import NIOCore
import NIOPosix

/// Durable spends and balance reads over HTTP, each as a share of a bare route.
enum HTTPBenchmarks {
    /// Connections at a time: 128, unless `--connections=<n>` says otherwise.
    static let connections =
        CommandLine.arguments.compactMap { argument in
            argument.wholeMatch(of: /--connections=(\d+)/).flatMap { Int($0.1) }
        }.first ?? 128
    /// Rounds; each measures all three in turn, so that a ratio compares neighbours in time.
    static let rounds = 5

    static func run(roundTime: Duration) async throws -> [Figure] {
        try await BenchmarkedServer.with { server in
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
            let bare = LoadGenerator(port: server.barePort, connections: connections, group: group)
            let real = LoadGenerator(port: server.port, connections: connections, group: group)
            let run = UUID().uuidString
            // One warm-up, then the rounds.
            var samples: [(bare: Double, spend: Double, balance: Double)] = []
            for round in 0...rounds {
                let time = round == 0 ? .seconds(1) : roundTime
                let plain = try await bare.run(for: time, expecting: "200") { _, _ in
                    "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
                }
                let spend = try await real.run(for: time, expecting: "200") { connection, number in
                    Self.spend(
                        server.tokens[connection % server.tokens.count],
                        key: "\(run)-\(round)-\(connection)-\(number)"
                    )
                }
                let balance = try await real.run(for: time, expecting: "200") { connection, _ in
                    Self.balance(server.tokens[connection % server.tokens.count])
                }
                for outcome in [plain, spend, balance] where outcome.failed > 0 {
                    throw BenchmarkError.refused(outcome.failed)
                }
                if round > 0 {
                    samples.append((plain.perSecond, spend.perSecond, balance.perSecond))
                }
            }
            try await group.shutdownGracefully()
            let base = samples.map(\.bare).median
            let baseline = "bare Hummingbird route"
            return [
                Figure(
                    rate: "durable spends over HTTP",
                    samples.map(\.spend).median,
                    unit: "1/s",
                    of: baseline,
                    base,
                    ratio: samples.map { $0.spend / $0.bare }.median,
                    atLeast: 0.4
                ),
                Figure(
                    rate: "cached balance GETs",
                    samples.map(\.balance).median,
                    unit: "1/s",
                    of: baseline,
                    base,
                    ratio: samples.map { $0.balance / $0.bare }.median,
                    atLeast: 0.6
                ),
            ]
        }
    }

    private static func spend(_ token: String, key: String) -> String {
        let body = #"{"amount":1,"reason":"bench"}"#
        return """
            POST /v1/spend HTTP/1.1\r
            Host: localhost\r
            Authorization: Bearer \(token)\r
            Content-Type: application/json\r
            Idempotency-Key: \(key)\r
            Content-Length: \(body.utf8.count)\r
            \r
            \(body)
            """
    }

    private static func balance(_ token: String) -> String {
        """
        GET /v1/balance HTTP/1.1\r
        Host: localhost\r
        Authorization: Bearer \(token)\r
        \r\n
        """
    }
}

/// Why a benchmark measured nothing.
enum BenchmarkError: Error, CustomStringConvertible {
    case refused(Int)
    case noServer(String)
    case wrong(String)

    var description: String {
        switch self {
        case .refused(let count):
            "\(count) requests were not answered with 200: there is no figure."
        case .wrong(let name): "\(name) gave another value than it was given: there is no figure."
        case .noServer(let reason): "The server could not be measured: \(reason)"
        }
    }
}

extension [Double] {
    /// The middle of the sorted values; of an even count the upper middle.
    var median: Double {
        isEmpty ? .nan : sorted()[count / 2]
    }
}
