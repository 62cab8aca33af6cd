import Foundation
import NIOCore
import NIOPosix

/// Durable spends and balance reads over HTTP, each as a share of a bare route.
enum HTTPBenchmarks {
    /// The number of connections.
    static let connections = BenchmarkOptions.current.connections
    /// The number of rounds.
    ///
    /// Each measures all three in turn, so that a ratio compares adjacent runs.
    static let rounds = 5

    private struct Round {
        let bare: LoadGenerator.Outcome
        let spend: LoadGenerator.Outcome
        let balance: LoadGenerator.Outcome
    }

    /// The rate as a share of the bare route's, and the processor time, which has no target.
    private static func share(
        _ name: String,
        _ path: KeyPath<Round, LoadGenerator.Outcome>,
        of rounds: [Round],
        atLeast aim: Double
    ) -> [Figure] {
        let baseline = "bare Hummingbird route"
        return [
            Figure(
                rate: name,
                rounds.map { $0[keyPath: path].perSecond }.median,
                unit: "1/s",
                of: baseline,
                rounds.map(\.bare.perSecond).median,
                ratio: rounds.map { $0[keyPath: path].perSecond / $0.bare.perSecond }.median,
                atLeast: aim
            ),
            Figure(
                cost: "\(name), processor time",
                rounds.map { $0[keyPath: path].processorTime }.median,
                unit: "µs",
                of: baseline,
                rounds.map(\.bare.processorTime).median,
                atMost: nil
            ),
        ]
    }

    static func run(roundTime: Duration) async throws -> [Figure] {
        try await BenchmarkedServer.with { server in
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
            let bare = LoadGenerator(port: server.barePort, connections: connections, group: group)
            let real = LoadGenerator(port: server.port, connections: connections, group: group)
            let run = UUID().uuidString
            // A warm-up, then the rounds.
            var samples: [Round] = []
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
                    samples.append(Round(bare: plain, spend: spend, balance: balance))
                }
            }
            try await group.shutdownGracefully()
            return
                share("durable spends over HTTP", \.spend, of: samples, atLeast: 0.4)
                + share("cached balance GETs", \.balance, of: samples, atLeast: 0.6)
        }
    }

    static func spend(_ token: String, key: String) -> String {
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

    static func balance(_ token: String) -> String {
        """
        GET /v1/balance HTTP/1.1\r
        Host: localhost\r
        Authorization: Bearer \(token)\r
        \r\n
        """
    }
}

/// The reason why a benchmark has no result.
enum BenchmarkError: Error, CustomStringConvertible {
    case refused(Int)
    case noServer(String)
    case wrong(String)

    var description: String {
        switch self {
        case .refused(let count):
            "No figure: \(count) requests were not answered with 200."
        case .wrong(let name): "No figure, because this gave a wrong value: \(name)."
        case .noServer(let reason): "The server could not be measured: \(reason)"
        }
    }
}

extension [Double] {
    /// The median, or the upper middle of an even number of values.
    var median: Double {
        isEmpty ? .nan : sorted()[count / 2]
    }
}
