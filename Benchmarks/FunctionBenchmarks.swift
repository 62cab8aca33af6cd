import Foundation
import NIOCore
import NIOPosix

/// The overhead of a server for a call to a language model that costs next to nothing.
///
/// ``ProxyMeasurement`` describes the method.
///
/// | | before the call is sent | when it has ended |
/// |---|---|---|
/// | *passed through* | its function is free: nothing is held | its answer is stored |
/// | *metered* | its price is held, in a durable commit | charge and answer, in another one |
/// | *metered, without the disk* | the same, with a storage in memory | the same |
struct FunctionBenchmarks {
    typealias Kind = FunctionServers.Kind
    typealias Way = ProxyMeasurement.Way

    /// The number of concurrently open streams.
    static let streams = 1_000
    /// The target for the latency that a call without the disk adds at the 99th percentile, in
    /// microseconds.
    static let addedAim = 300.0
    /// The target for the latency that is added to a stream's first event, in microseconds.
    static let firstEventAim = 350.0

    /// A server and the guests that call it.
    private struct Target: Sendable {
        let endpoint: ProxyMeasurement.Endpoint
        let tokens: [String]

        init(_ child: LiveServers.Child) async throws {
            endpoint = .init(child)
            var tokens: [String] = []
            for number in 0..<BenchmarkedServer.accounts {
                tokens.append(try await LiveBenchmarks.signIn(number: number, port: child.port))
            }
            self.tokens = tokens
        }

        func token(_ number: Int) -> String { tokens[number % tokens.count] }
    }

    private let measurement: ProxyMeasurement
    /// The servers with a disk, by the way they meter OpenAI clients.
    private let servers: [(kind: Kind, target: Target)]
    private let inMemory: Target

    static func run(roundTime: Duration) async throws -> [Figure] {
        LiveServers.raiseDescriptorLimit()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let upstream = try FunctionServers.upstream()
        defer { upstream.end() }
        let bare = try FunctionServers.bare(before: upstream.port)
        defer { bare.end() }
        let passed = try FunctionServers.server(before: upstream.port, .disk, door: .passed)
        defer { FunctionServers.end(passed) }
        let metered = try FunctionServers.server(before: upstream.port, .disk, door: .metered)
        defer { FunctionServers.end(metered) }
        let memory = try FunctionServers.server(before: upstream.port, .memory, door: .metered)
        defer { FunctionServers.end(memory) }
        let benchmarks = FunctionBenchmarks(
            measurement: ProxyMeasurement(
                group: group,
                roundTime: roundTime,
                upstream: .init(upstream),
                bare: .init(bare)
            ),
            servers: [
                (.passed, try await Target(passed)), (.metered, try await Target(metered)),
            ],
            inMemory: try await Target(memory)
        )
        let figures =
            try await benchmarks.latency() + benchmarks.firstEvents() + benchmarks.rates()
            + benchmarks.kept() + benchmarks.openStreams()
        try await group.shutdownGracefully()
        return figures
    }

    /// Calls of a function, each with its own key.
    private func calls(
        _ name: String,
        _ function: String,
        of target: Target,
        isStreamed: Bool = false
    ) -> Way {
        Way(name: name, endpoint: target.endpoint) { round, connection, number in
            FunctionRequests.call(
                function,
                target.token(connection),
                key: "\(round)-\(connection)-\(number)",
                isStreamed: isStreamed
            )
        }
    }

    // MARK: - One caller

    private func latency() async throws -> [Figure] {
        let onDisk = servers.map { kind, target in
            calls("call \(kind.name)", kind.rawValue, of: target)
        }
        let ways =
            onDisk + [
                calls("call metered, without the disk", Kind.metered.rawValue, of: inMemory),
                measurement.proxied("call of a bare proxy"),
            ]
        let comparison = try await measurement.latencies(ways)
        return ProxyMeasurement.added(ways, comparison) + [
            Figure(
                cost: "call metered, without the disk: added, p99",
                comparison.ways[onDisk.count].added(to: comparison.direct, 99),
                unit: "µs",
                of: ProxyMeasurement.aim,
                Self.addedAim,
                atMost: 1
            )
        ]
    }

    private func firstEvents() async throws -> [Figure] {
        let onDisk = servers.map { kind, target in
            calls("first event \(kind.name)", kind.rawValue, of: target, isStreamed: true)
        }
        let ways =
            onDisk + [
                calls(
                    "first event metered, without the disk",
                    Kind.metered.rawValue,
                    of: inMemory,
                    isStreamed: true
                ), measurement.proxied("first event of a bare proxy", isStreamed: true),
            ]
        let comparison = try await measurement.firstEvents(ways)
        return ProxyMeasurement.added(ways, comparison)
            + zip(ways, comparison.ways).dropLast().map { way, latencies in
                Figure(
                    cost: "\(way.name): added, p50",
                    latencies.added(to: comparison.direct, 50),
                    unit: "µs",
                    of: ProxyMeasurement.aim,
                    Self.firstEventAim,
                    atMost: 1
                )
            }
    }

    // MARK: - Many callers

    private func rates() async throws -> [Figure] {
        var figures: [Figure] = []
        for (kind, target) in servers {
            let plain = calls("calls \(kind.name)", kind.rawValue, of: target)
            let door = Way(name: "OpenAI's routes, \(kind.name)", endpoint: target.endpoint) {
                _,
                connection,
                _ in
                FunctionRequests.chat(target.token(connection))
            }
            for way in [plain, door] {
                figures += try await measurement.rates(way, perCore: kind.perCoreAim)
            }
        }
        return figures
    }

    private func kept() async throws -> [Figure] {
        var figures: [Figure] = []
        for (kind, target) in servers {
            let name = "kept answer \(kind == .passed ? "for free" : "for a token")"
            figures.append(try await measurement.share(calls(name, kind.kept, of: target)))
        }
        return figures
    }

    // MARK: - Open streams

    private func openStreams() async throws -> [Figure] {
        let bare = try await bytes(of: measurement.bare) { _ in FunctionRequests.get("/stream") }
        let round = UUID().uuidString
        var figures: [Figure] = []
        for (kind, target) in servers {
            let ours = try await bytes(of: target.endpoint) { number in
                FunctionRequests.call(
                    kind.rawValue,
                    target.token(number),
                    key: "\(round)-\(number)",
                    question: CannedUpstream.waiting,
                    isStreamed: true
                )
            }
            figures.append(
                Figure(
                    cost: "memory of an open stream, \(kind.name)",
                    ours,
                    unit: "B",
                    of: "a stream of a bare Hummingbird route",
                    bare,
                    atMost: nil
                )
            )
        }
        return figures
    }

    /// Returns the growth of a process's resident set per open stream, after a first batch of
    /// streams.
    private func bytes(
        of endpoint: ProxyMeasurement.Endpoint,
        _ request: (Int) -> String
    ) async throws -> Double {
        let probe = StreamProbe(port: endpoint.port, group: measurement.group)
        let first = Self.streams / 5
        var channels = try await probe.open(first, request)
        let before = try MemoryBenchmarks.residentMegabytes(endpoint.process)
        channels += try await probe.open(Self.streams) { request($0 + first) }
        let after = try MemoryBenchmarks.residentMegabytes(endpoint.process)
        for channel in channels { try await channel.close() }
        return (after - before) * 1_048_576 / Double(Self.streams)
    }
}

extension FunctionServers.Kind {
    /// The name in a table.
    fileprivate var name: String { self == .passed ? "passed through" : "metered" }

    /// The target for calls per second and core.
    fileprivate var perCoreAim: Double { self == .passed ? 3_000 : 1_500 }
}
