import Foundation
import NIOCore

/// Measures servers in front of a language model.
///
/// The baselines are the model called directly, a bare Hummingbird route, and a bare proxy: a
/// Hummingbird route that forwards its body with AsyncHTTPClient and returns the response.
///
/// Model, servers and load are separate processes that share the machine, so calls per second are
/// those of all together. Calls per second *and core* divide one second of processor time by the
/// time that the server's process uses for a call, including the kernel's work for it. Each
/// measurement is taken in rounds, in turn with its baselines, and the first round is a warm-up.
struct ProxyMeasurement {
    /// A process that listens on a port.
    struct Endpoint {
        let port: Int
        let process: Int32

        init(port: Int, process: Int32) {
            self.port = port
            self.process = process
        }

        init(_ child: LiveServers.Child) {
            self.init(port: child.port, process: child.process.processIdentifier)
        }
    }

    /// One way to reach the model: an endpoint and its requests.
    struct Way {
        let name: String
        let endpoint: Endpoint
        /// Returns the request of a connection by its number.
        ///
        /// The text is unique to the round.
        let request: @Sendable (_ round: String, _ connection: Int, _ number: Int) -> String
    }

    static let directly = "the model called directly"
    static let bareRoute = "bare Hummingbird route"
    static let bareProxy = "bare proxy"
    /// The baseline of a figure that is compared with its target.
    static let aim = "the aim"
    /// The number of concurrent callers.
    static let callers = 64
    /// The number of rounds per measurement.
    static let rounds = 5
    /// The number of consecutive streams per round.
    private static let streams = 200

    let group: any EventLoopGroup
    let roundTime: Duration
    let upstream: Endpoint
    let bare: Endpoint

    private var direct: Way {
        Way(name: Self.directly, endpoint: upstream) { _, _, _ in FunctionRequests.chat("none") }
    }

    /// The model behind a bare proxy.
    func proxied(_ name: String, isStreamed: Bool = false) -> Way {
        Way(name: name, endpoint: bare) { _, _, _ in
            FunctionRequests.chat("none", isStreamed: isStreamed)
        }
    }

    private var bareGet: Way {
        Way(name: Self.bareRoute, endpoint: bare) { _, _, _ in FunctionRequests.get("/") }
    }

    /// Measures one round.
    private func load(_ way: Way, callers: Int) async throws -> LoadGenerator.Outcome {
        let round = UUID().uuidString
        let generator = LoadGenerator(
            port: way.endpoint.port,
            connections: callers,
            group: group,
            server: way.endpoint.process
        )
        let outcome = try await generator.run(for: roundTime, expecting: "200") {
            way.request(round, $0, $1)
        }
        guard outcome.failed == 0 else { throw BenchmarkError.refused(outcome.failed) }
        return outcome
    }

    // MARK: - One caller

    /// The latencies of all rounds, in microseconds.
    struct Latencies {
        private var all: [Double] = []

        mutating func add(_ times: [Double]) { all += times }

        func percentile(_ part: Int) -> Double {
            let sorted = all.sorted()
            return sorted.isEmpty
                ? .infinity : sorted[min(sorted.count - 1, sorted.count * part / 100)]
        }

        /// Returns the latency that is added to a baseline, at a percentile.
        func added(to baseline: Latencies, _ part: Int) -> Double {
            percentile(part) - baseline.percentile(part)
        }
    }

    /// The latencies of several ways, and of the model called directly.
    typealias Comparison = (ways: [Latencies], direct: Latencies)

    /// Measures whole answers, one after the other.
    func latencies(_ ways: [Way]) async throws -> Comparison {
        try await compare(ways) { way in
            try await load(way ?? direct, callers: 1).latencies.map { $0 * 1_000 }
        }
    }

    /// Measures the first event of streams, one after the other.
    func firstEvents(_ ways: [Way]) async throws -> Comparison {
        try await compare(ways) { way in
            let (endpoint, round) = (way?.endpoint ?? upstream, UUID().uuidString)
            return try await StreamProbe(port: endpoint.port, group: group)
                .firstEvents(Self.streams) { number in
                    way?.request(round, number, number)
                        ?? FunctionRequests.chat("none", isStreamed: true)
                }
        }
    }

    private func compare(
        _ ways: [Way],
        _ measure: (Way?) async throws -> [Double]
    ) async throws -> Comparison {
        var comparison: Comparison = (ways.map { _ in Latencies() }, Latencies())
        for round in 0...Self.rounds {
            let alone = try await measure(nil)
            if round > 0 { comparison.direct.add(alone) }
            for (index, way) in ways.enumerated() {
                let times = try await measure(way)
                if round > 0 { comparison.ways[index].add(times) }
            }
        }
        return comparison
    }

    /// Returns the rows of added latency, at the median and the 99th percentile.
    static func added(_ ways: [Way], _ comparison: Comparison) -> [Figure] {
        zip(ways, comparison.ways).flatMap { way, latencies in
            [50, 99].map { part in
                Figure(
                    cost: "\(way.name): added, p\(part)",
                    latencies.added(to: comparison.direct, part),
                    unit: "µs",
                    of: directly,
                    comparison.direct.percentile(part),
                    atMost: nil
                )
            }
        }
    }

    // MARK: - Many callers

    /// Measures calls per second.
    ///
    /// - Parameters:
    ///   - way: The endpoint and its requests.
    ///   - perCore: The target for calls per second and core, or `nil` without a target.
    /// - Returns: The rows: calls per second, processor time, calls per second and core, and their
    ///   share of a bare proxy's.
    /// - Throws: ``BenchmarkError`` if a call is refused.
    func rates(_ way: Way, perCore: Double?) async throws -> [Figure] {
        let (ours, direct, bare, proxy) = try await measured(way)
        let cost = ours.map(\.serverTime).median
        let proxyRate = 1_000_000 / proxy.map(\.serverTime).median
        let name = "\(way.name), \(Self.callers) callers"
        let figures = [
            Figure(
                rate: name,
                ours.map(\.perSecond).median,
                unit: "1/s",
                of: Self.directly,
                direct.map(\.perSecond).median,
                ratio: Self.share(ours, direct),
                atLeast: nil
            ),
            Figure(
                cost: "\(name): processor time",
                cost,
                unit: "µs",
                of: Self.bareRoute,
                bare.map(\.serverTime).median,
                atMost: nil
            ),
        ]
        let rate = 1_000_000 / cost
        return figures + [
            Figure(
                rate: "\(name): a core",
                rate,
                unit: "1/s",
                of: perCore == nil ? Self.bareRoute : Self.aim,
                perCore ?? 1_000_000 / bare.map(\.serverTime).median,
                ratio: rate / (perCore ?? 1_000_000 / bare.map(\.serverTime).median),
                atLeast: perCore.map { _ in 1 }
            ),
            Figure(
                rate: "\(name): a core",
                rate,
                unit: "1/s",
                of: Self.bareProxy,
                proxyRate,
                ratio: rate / proxyRate,
                atLeast: nil
            ),
        ]
    }

    /// Returns calls per second as a share of the bare route's.
    func share(_ way: Way) async throws -> Figure {
        let (ours, _, bare, _) = try await measured(way)
        return Figure(
            rate: "\(way.name), \(Self.callers) callers",
            ours.map(\.perSecond).median,
            unit: "1/s",
            of: Self.bareRoute,
            bare.map(\.perSecond).median,
            ratio: Self.share(ours, bare),
            atLeast: nil
        )
    }

    private typealias Rounds = [LoadGenerator.Outcome]

    private typealias Measured = (ours: Rounds, direct: Rounds, bare: Rounds, proxy: Rounds)

    private func measured(_ way: Way) async throws -> Measured {
        var all: Measured = ([], [], [], [])
        for round in 0...Self.rounds {
            let ours = try await load(way, callers: Self.callers)
            let direct = try await load(direct, callers: Self.callers)
            let bare = try await load(bareGet, callers: Self.callers)
            let proxy = try await load(proxied(Self.bareProxy), callers: Self.callers)
            guard round > 0 else { continue }
            all.ours.append(ours)
            all.direct.append(direct)
            all.bare.append(bare)
            all.proxy.append(proxy)
        }
        return all
    }

    private static func share(_ ours: Rounds, _ baseline: Rounds) -> Double {
        zip(ours, baseline).map { $0.perSecond / $1.perSecond }.median
    }
}
