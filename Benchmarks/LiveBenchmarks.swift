import Foundation
import NIOCore
import NIOPosix
import SanguineModel

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Thousands of live connections on one server.
///
/// Measures the memory of each and the time from a commit to its arrival, and compares them with
/// bare NIO channels that get the same bytes. Server, bare server and clients are separate
/// processes, and the clients measure the time.
enum LiveBenchmarks {
    /// The number of concurrent connections.
    static let connections = 5_000
    /// The number of commits sent to all connections.
    static let rounds = 20

    private struct Times {
        let middle: Double
        let high: Double

        /// Computes the percentiles of latencies in milliseconds.
        init(_ latencies: [Double]) {
            let sorted = latencies.sorted()
            middle = sorted[sorted.count / 2]
            high = sorted[min(sorted.count - 1, sorted.count * 99 / 100)]
        }
    }

    private struct Measured {
        let kilobytes: Double
        let toAll: Times
        let inTurn: Times
    }

    static func run() async throws -> [Figure] {
        LiveServers.raiseDescriptorLimit()
        let (real, event) = try await measureServer()
        let bare = try await measureBare(event)
        let baseline = "bare NIO channels"
        let ways = [("one account", \Measured.toAll), ("an account each", \Measured.inTurn)]
        return [
            Figure(
                cost: "memory of a live connection",
                real.kilobytes,
                unit: "KB",
                of: baseline,
                bare.kilobytes,
                atMost: nil
            )
        ]
            + ways.flatMap { name, way in
                [("p50", \Times.middle), ("p99", \Times.high)].map { percentile, time in
                    Figure(
                        cost: "commit to \(connections) live connections, \(name), \(percentile)",
                        real[keyPath: way][keyPath: time],
                        unit: "ms",
                        of: baseline,
                        bare[keyPath: way][keyPath: time],
                        atMost: nil
                    )
                }
            }
    }

    // MARK: - The server

    private static func measureServer() async throws -> (Measured, [UInt8]) {
        let child = try LiveServers.Child(LiveServers.serverArgument)
        defer { child.end() }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let guests = try await signIn(connections, port: child.port)
        let before = try MemoryBenchmarks.residentMegabytes(child.process.processIdentifier)
        let (one, kilobytes, toAll, event) = try await measureOneAccount(
            guests[0],
            child,
            group,
            before
        )
        for client in one { try await client.channel.close() }
        let each = try await LiveClient.connect(
            connections,
            to: child.port,
            on: group,
            isAnswered: true
        ) {
            request(guests[$0])
        }
        let spender = try await LiveClient.connect(1, to: child.port, on: group) { _ in "" }[0]
        var latencies: [Double] = []
        for index in each.indices {
            let arrival = each[index].arm()
            let start = ContinuousClock.now
            try await spender.send(spend(guests[index]))
            latencies.append(milliseconds(from: start, to: try await arrival.get()))
        }
        for client in each + [spender] { try await client.channel.close() }
        try await group.shutdownGracefully()
        let measured = Measured(kilobytes: kilobytes, toAll: toAll, inTurn: Times(latencies))
        return (measured, event)
    }

    private static func measureOneAccount(
        _ guest: String,
        _ child: LiveServers.Child,
        _ group: MultiThreadedEventLoopGroup,
        _ before: Double
    ) async throws -> ([LiveClient], Double, Times, [UInt8]) {
        let clients = try await LiveClient.connect(
            connections,
            to: child.port,
            on: group,
            isAnswered: true
        ) { _ in
            request(guest)
        }
        let after = try MemoryBenchmarks.residentMegabytes(child.process.processIdentifier)
        let spender = try await LiveClient.connect(1, to: child.port, on: group) { _ in "" }[0]
        let times = try await toAll(clients) { try await spender.send(spend(guest)) }
        try await spender.channel.close()
        let kilobytes = (after - before) * 1_024 / Double(connections)
        return (clients, kilobytes, times, clients[0].lastBytes)
    }

    /// Triggers writes to all clients repeatedly, and returns the times of arrival.
    private static func toAll(
        _ clients: [LiveClient],
        _ trigger: () async throws -> Void
    ) async throws -> Times {
        var latencies: [Double] = []
        for round in 0...rounds {
            let arrivals = clients.map { $0.arm() }
            let start = ContinuousClock.now
            try await trigger()
            for arrival in arrivals {
                let latency = milliseconds(from: start, to: try await arrival.get())
                if round > 0 { latencies.append(latency) }  // The first round is a warm-up.
            }
        }
        return Times(latencies)
    }

    // MARK: - The baseline

    private static func measureBare(_ event: [UInt8]) async throws -> Measured {
        let child = try LiveServers.Child(LiveServers.bareArgument)
        defer { child.end() }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let before = try MemoryBenchmarks.residentMegabytes(child.process.processIdentifier)
        let clients = try await LiveClient.connect(connections, to: child.port, on: group) {
            "L\($0)\n"
        }
        let after = try MemoryBenchmarks.residentMegabytes(child.process.processIdentifier)
        let trigger = try await LiveClient.connect(1, to: child.port, on: group) { _ in "" }[0]
        let text = String(decoding: event, as: UTF8.self).replacing("\n", with: " ")
        let toAll = try await toAll(clients) { try await trigger.send("A\(text)\n") }
        var latencies: [Double] = []
        for index in clients.indices {
            let arrival = clients[index].arm()
            let start = ContinuousClock.now
            try await trigger.send("O\(index) \(text)\n")
            latencies.append(milliseconds(from: start, to: try await arrival.get()))
        }
        for client in clients + [trigger] { try await client.channel.close() }
        try await group.shutdownGracefully()
        return Measured(
            kilobytes: (after - before) * 1_024 / Double(connections),
            toAll: toAll,
            inTurn: Times(latencies)
        )
    }

    // MARK: - Requests

    private static func milliseconds(
        from start: ContinuousClock.Instant,
        to end: ContinuousClock.Instant
    ) -> Double {
        start.duration(to: end) / .milliseconds(1)
    }

    private static func request(_ token: String) -> String {
        """
        GET /v1/live HTTP/1.1\r
        Host: localhost\r
        Authorization: Bearer \(token)\r
        \r\n
        """
    }

    private static func spend(_ token: String) -> String {
        let body = #"{"amount":1,"reason":"bench"}"#
        return """
            POST /v1/spend HTTP/1.1\r
            Host: localhost\r
            Authorization: Bearer \(token)\r
            Content-Type: application/json\r
            Idempotency-Key: \(UUID().uuidString)\r
            Content-Length: \(body.utf8.count)\r
            \r
            \(body)
            """
    }

    /// Signs devices in and returns their access tokens.
    private static func signIn(_ count: Int, port: Int) async throws -> [String] {
        try await withThrowingTaskGroup(of: (Int, String).self) { group in
            var tokens = Array(repeating: "", count: count)
            for number in 0..<count {
                if number >= 32, let (done, token) = try await group.next() { tokens[done] = token }
                group.addTask { (number, try await signIn(number: number, port: port)) }
            }
            for try await (done, token) in group { tokens[done] = token }
            return tokens
        }
    }

    static func signIn(number: Int, port: Int) async throws -> String {
        let body = GuestRequest(
            deviceId: "live-device-\(100_000 + number)",
            deviceSecret: String(repeating: "A", count: 43)
        )
        let (data, _) = try await post(
            "/v1/accounts/guest",
            nil,
            try JSONEncoder().encode(body),
            port: port
        )
        return try JSONDecoder().decode(SignedIn.self, from: data).session.accessToken
    }

    static func post(
        _ path: String,
        _ token: String?,
        _ body: Data,
        type: String = "application/json",
        port: Int
    ) async throws -> (Data, Int) {
        guard let url = URL(string: "http://127.0.0.1:\(port)\(path)") else {
            throw BenchmarkError.noServer("no port")
        }
        var request = URLRequest(url: url)
        request.httpMethod = "POST"
        request.setValue(type, forHTTPHeaderField: "Content-Type")
        if let token { request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization") }
        request.httpBody = body
        let (data, response) = try await URLSession.shared.data(for: request)
        return (data, (response as? HTTPURLResponse)?.statusCode ?? 0)
    }
}
