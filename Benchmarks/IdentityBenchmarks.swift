import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// Sign-ins of known devices, new guests, refreshes and merges over HTTP, each as a share of a bare
/// route.
///
/// All write to the disk: a session, an account with its first balance, a rotated token, everything
/// that a guest has.
enum IdentityBenchmarks {
    private struct Round {
        let bare: LoadGenerator.Outcome
        let signIn: LoadGenerator.Outcome
        let guest: LoadGenerator.Outcome
        let refresh: LoadGenerator.Outcome
        let merge: LoadGenerator.Outcome
    }

    /// The refresh tokens of the connections, each of which has a session of its own.
    private final class RefreshTokens: Sendable {
        private let tokens: Mutex<[Int: String]> = Mutex([:])

        subscript(connection: Int) -> String {
            tokens.withLock { $0[connection] ?? "" }
        }

        /// Keeps the token of a response.
        func keep(_ response: String, of connection: Int) {
            let parts = response.split(separator: "\"refreshToken\":\"", maxSplits: 1)
            guard parts.count == 2, let token = parts[1].split(separator: "\"").first else {
                return
            }
            tokens.withLock { $0[connection] = String(token) }
        }
    }

    static func run(roundTime: Duration) async throws -> [Figure] {
        try await BenchmarkedServer.with { server in
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
            let samples = try await rounds(of: server, group, roundTime)
            try await group.shutdownGracefully()
            return share("sign-ins of known devices", \.signIn, of: samples)
                + share("new guests", \.guest, of: samples)
                + share("refreshes", \.refresh, of: samples)
                + share(
                    "merges of guests with \(MergeLoad.notes) notes each",
                    \.merge,
                    of: samples
                )
        }
    }

    private static func rounds(
        of server: BenchmarkedServer,
        _ group: any EventLoopGroup,
        _ roundTime: Duration
    ) async throws -> [Round] {
        let connections = HTTPBenchmarks.connections
        let bare = LoadGenerator(port: server.barePort, connections: connections, group: group)
        let real = LoadGenerator(port: server.port, connections: connections, group: group)
        let tokens = RefreshTokens()
        var refreshing = real
        refreshing.onResponse = { tokens.keep($1, of: $0) }
        let run = UUID().uuidString
        var samples: [Round] = []
        // A warm-up, in which the devices become known, then the rounds.
        for round in 0...HTTPBenchmarks.rounds {
            let time = round == 0 ? .seconds(1) : roundTime
            let plain = try await bare.run(for: time, expecting: "200") { _, _ in
                "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
            }
            // Also gives each connection a session for the refreshes. Its last response may not
            // arrive, so its last token may be one of an older session, which is as good.
            let signIn = try await refreshing.run(for: time, expecting: "20") { connection, _ in
                guest("known-\(run)-\(connection)")
            }
            let created = try await real.run(for: time, expecting: "201") { connection, number in
                guest("new-\(run)-\(round)-\(connection)-\(number)")
            }
            let refresh = try await refreshing.run(for: time, expecting: "200") { connection, _ in
                post("/v1/sessions/refresh", #"{"refreshToken":"\#(tokens[connection])"}"#)
            }
            let merge = try await MergeLoad(port: server.port, run: "\(run)-\(round)").measure()
            for outcome in [plain, signIn, created, refresh, merge] where outcome.failed > 0 {
                throw BenchmarkError.refused(outcome.failed)
            }
            if round > 0 {
                samples.append(
                    Round(
                        bare: plain,
                        signIn: signIn,
                        guest: created,
                        refresh: refresh,
                        merge: merge
                    )
                )
            }
        }
        return samples
    }

    /// The rate as a share of the bare route's, which has no target.
    private static func share(
        _ name: String,
        _ path: KeyPath<Round, LoadGenerator.Outcome>,
        of rounds: [Round]
    ) -> [Figure] {
        [
            Figure(
                rate: name,
                rounds.map { $0[keyPath: path].perSecond }.median,
                unit: "1/s",
                of: "bare Hummingbird route",
                rounds.map(\.bare.perSecond).median,
                ratio: rounds.map { $0[keyPath: path].perSecond / $0.bare.perSecond }.median,
                atLeast: nil
            ),
            Figure(
                cost: "\(name), processor time",
                rounds.map { $0[keyPath: path].processorTime }.median,
                unit: "µs",
                of: "bare Hummingbird route",
                rounds.map(\.bare.processorTime).median,
                atMost: nil
            ),
        ]
    }

    /// A device's first call, or its sign-in if it is known.
    private static func guest(_ device: String) -> String {
        let secret = String(repeating: "A", count: 43)
        return post(
            "/v1/accounts/guest",
            #"{"deviceId":"\#(device)","deviceSecret":"\#(secret)"}"#
        )
    }

    private static func post(_ path: String, _ body: String) -> String {
        """
        POST \(path) HTTP/1.1\r
        Host: localhost\r
        Content-Type: application/json\r
        Content-Length: \(body.utf8.count)\r
        \r
        \(body)
        """
    }
}
