import Foundation
import Sanguine

/// The result of a run of `sanguine load`, as it is printed and plotted.
///
/// Durations are in milliseconds unless the name says otherwise, and begin at the intended start.
struct LoadReport: Codable, Hashable, Sendable {
    /// Percentiles, rounded up by at most 1 percent and never above the maximum, which is exact.
    struct Latency: Codable, Hashable, Sendable {
        var p50: Double
        var p90: Double
        var p95: Double
        var p99: Double
        var max: Double
    }

    struct Step: Codable, Hashable, Sendable {
        var name: String
        /// The requests whose time came.
        var intended: Int
        var succeeded: Int
        var failed: Int
        /// The successes per second of the run.
        var perSecond: Double
        /// `nil` if no request succeeded or timed out.
        var latency: Latency?
        /// The number of latencies up to each of ``LoadReport/bounds``, and of longer ones.
        var histogram: [Int]
    }

    struct Failures: Codable, Hashable, Sendable {
        var step: String
        var reason: String
        var count: Int
        /// What to do, if it is known.
        var advice: String?
    }

    struct Window: Codable, Hashable, Sendable {
        /// The beginning of the window, in seconds after the start.
        var second: Int
        var intendedPerSecond: Double
        var completedPerSecond: Double
        var failedPerSecond: Double
        /// Those of the requests that were intended in this window.
        var latency: Latency?
    }

    /// The generator's own part.
    struct Generator: Codable, Hashable, Sendable {
        /// The time from the intended to the actual start of requests.
        var lag: Latency?
        var connectionsOpened: Int
        /// The requests that waited because all connections were in use.
        var waitedForConnection: Int
        var resent: Int
        var notStarted: Int
    }

    struct Server: Codable, Hashable, Sendable {
        struct Point: Codable, Hashable, Sendable {
            var second: Double
            var memoryBytes: Double?
            var liveConnections: Double?
        }

        var memoryBytesBefore: Double?
        var memoryBytesMost: Double?
        /// The growth of memory divided by the users that arrived.
        var memoryBytesPerUser: Double?
        var liveConnectionsMost: Double?
        /// The server's processor time for each successful response, in milliseconds.
        var processorTimePerResponse: Double?
        /// The storage reads for each list that was served.
        var storageReadsPerList: Double?
        var points: [Point]
    }

    /// The upper bounds of the histograms, in milliseconds.
    static let bounds: [Double] = [
        0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000,
    ]

    /// When the run began, in RFC 3339.
    var began: String
    /// The server's URL.
    var server: String
    /// The command line that repeats the run.
    var arguments: [String]
    var seed: UInt64
    var seconds: Double
    /// Whether the run was interrupted.
    var interrupted: Bool
    /// Whether the figures can be trusted.
    var valid: Bool
    /// Why they cannot.
    var invalidBecause: [String]
    var users: Int
    var arrived: Int
    var liveConnectionsHeld: Int
    /// The first row is the sign-in.
    var steps: [Step]
    var total: Step
    var failures: [Failures]
    var windows: [Window]
    var generator: Generator
    /// `nil` if the server's metrics could not be read.
    var serverFacts: Server?

    /// Summarizes a run.
    ///
    /// - Parameters:
    ///   - outcome: The run.
    ///   - server: The server's URL.
    ///   - began: When it began, in RFC 3339.
    ///   - arguments: The command line that repeats the run.
    ///   - samples: The server's figures, beginning before the run.
    ///   - maxLag: The 99th percentile of the generator's lag above which the run is invalid.
    init(
        _ outcome: LoadEngine.Outcome,
        server: String,
        began: String,
        arguments: [String],
        samples: [ServerWatch.Sample],
        maxLag: Duration
    ) {
        let (run, tally) = (outcome.run, outcome.run.tally)
        let length = max(run.end ?? run.plan.duration, .milliseconds(1)) / .seconds(1)
        (self.server, self.began, self.arguments) = (server, began, arguments)
        (seed, seconds, interrupted) = (run.plan.seed, length, run.isInterrupted)
        (users, arrived) = (run.plan.users, tally.arrived)
        liveConnectionsHeld = tally.mostLiveConnections
        steps = tally.rows.map { Step($0, seconds: length) }
        total = Step(tally.all, seconds: length)
        failures = tally.rows.flatMap { row in
            row.reasons.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { reason, count in
                Failures(
                    step: row.name,
                    reason: reason,
                    count: count,
                    advice: LoadAdvice.advice(step: row.name, reason: reason)
                )
            }
        }
        windows = Self.windows(of: tally)
        generator = Generator(
            lag: Latency(tally.lag),
            connectionsOpened: outcome.opened,
            waitedForConnection: outcome.waited,
            resent: outcome.resent,
            notStarted: tally.overflown
        )
        invalidBecause = Self.faults(of: outcome, maxLag: maxLag)
        valid = invalidBecause.isEmpty
        serverFacts = Server(samples, users: tally.arrived, responses: tally.succeeded)
    }

    private static func faults(of outcome: LoadEngine.Outcome, maxLag: Duration) -> [String] {
        let tally = outcome.run.tally
        var faults: [String] = []
        if let lag = tally.lag.percentile(99), lag > maxLag {
            faults.append(
                """
                The generator started requests late: p99 of its lag is \(lag.inMilliseconds) ms, \
                more than '--max-lag'. Lower '--rate' or '--users', or run it on another machine.
                """
            )
        }
        if outcome.waited > 0 {
            faults.append(
                """
                \(outcome.waited) requests waited for a free connection, so the server was spared \
                them. Raise '--connections', or lower the rate.
                """
            )
        }
        if tally.overflown > 0 {
            faults.append(
                """
                \(tally.overflown) requests were not started, because \
                \(LoadLimits.openRequests) were open. Lower '--rate' or '--timeout'.
                """
            )
        }
        return faults
    }

    private static func windows(of tally: LoadTally) -> [Window] {
        let length = tally.windowLength / .seconds(1)
        return tally.windows.enumerated().map { index, window in
            Window(
                second: Int(Double(index) * length),
                intendedPerSecond: Double(window.intended) / length,
                completedPerSecond: Double(window.completed) / length,
                failedPerSecond: Double(window.failed) / length,
                latency: Latency(window.latencies)
            )
        }
    }
}

extension LoadReport.Latency {
    /// Returns the percentiles, or `nil` for an empty histogram.
    init?(_ histogram: DurationHistogram) {
        func at(_ percent: Int) -> Double? { histogram.percentile(percent)?.inMilliseconds }
        guard let p50 = at(50), let p90 = at(90), let p95 = at(95), let p99 = at(99) else {
            return nil
        }
        self.init(p50: p50, p90: p90, p95: p95, p99: p99, max: histogram.longest.inMilliseconds)
    }
}

extension LoadReport.Step {
    fileprivate init(_ row: LoadTally.Row, seconds: Double) {
        self.init(
            name: row.name,
            intended: row.intended,
            succeeded: row.succeeded,
            failed: row.failed,
            perSecond: Double(row.succeeded) / seconds,
            latency: LoadReport.Latency(row.latencies),
            histogram: row.latencies.counts(
                between: LoadReport.bounds.map { .microseconds(Int64($0 * 1_000)) }
            )
        )
    }
}

extension LoadReport.Server {
    /// Returns the figures, or `nil` without samples.
    init?(_ samples: [ServerWatch.Sample], users: Int, responses: Int) {
        guard let first = samples.first?.facts, let last = samples.last?.facts else { return nil }
        memoryBytesBefore = first.memoryBytes
        memoryBytesMost = samples.compactMap(\.facts.memoryBytes).max()
        liveConnectionsMost = samples.compactMap(\.facts.liveConnections).max()
        if let before = memoryBytesBefore, let most = memoryBytesMost, users > 0 {
            memoryBytesPerUser = (most - before) / Double(users)
        }
        if let before = first.processorSeconds, let after = last.processorSeconds, responses > 0 {
            processorTimePerResponse = (after - before) * 1_000 / Double(responses)
        }
        let lists = last.lists - first.lists
        if let after = last.listReads, lists > 0 {
            storageReadsPerList = (after - (first.listReads ?? 0)) / lists
        }
        points = samples.map { sample in
            Point(
                second: sample.time / .seconds(1),
                memoryBytes: sample.facts.memoryBytes,
                liveConnections: sample.facts.liveConnections
            )
        }
    }
}
