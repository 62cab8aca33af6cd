import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Counters, durations and limits, without a client.
@Suite("Client metrics", .bounded)
struct ClientMetricsTests {
    private let clock = ManualClock()
    private let log = RecordedLog()

    private func make(observer: (any ClientObserver)? = nil) -> ClientMetrics {
        ClientMetrics(clock: clock, observer: observer, logger: log.logger)
    }

    /// A fetch of that duration.
    private func fly(
        _ named: NamedMetrics,
        for duration: Duration,
        _ outcome: FetchOutcome = .completed
    ) {
        let ticket = named.fetchBegan()
        clock.advance(by: duration)
        named.fetchEnded(ticket, outcome: outcome)
    }

    @Test func `reads are counted by result`() throws {
        let metrics = make()
        let named = metrics.named("profile")
        for _ in 0..<6 { named.hit() }
        for _ in 0..<2 { named.staleHit() }
        for _ in 0..<2 { named.miss() }
        let row = try #require(metrics.summary()[query: "profile"])

        #expect((row.hits, row.staleHits, row.misses) == (6, 2, 2))
        #expect(row.reads == 10)
        #expect(row.hitRate == 0.6)
    }

    @Test func `a read that waits for a newer value is not a hit`() async throws {
        let test = try TestClient(network: .profiles())
        for _ in 1...3 { _ = try await test.client.value(of: .profile("ada")) }
        test.wall.advance(by: .hours(1))
        test.network.hold()
        let read = Task { try await test.client.value(of: .profile("ada")) }
        try await test.network.waitForHeld(1)
        test.network.release()
        #expect(try await read.finished().name == "ada 2")

        let row = try #require(test.client.metrics.summary()[query: "profile"])
        #expect((row.hits, row.staleHits, row.misses) == (2, 1, 1))
        #expect(row.hitRate == 0.5 && row.flights == 2)
    }

    @Test func `fetches are counted by outcome`() throws {
        let metrics = make()
        let named = metrics.named("profile")
        fly(named, for: .milliseconds(1))
        fly(named, for: .milliseconds(1), .failed(.transport(.timedOut)))
        fly(named, for: .milliseconds(1), .cancelled)
        named.fetchRetried(afterAttempt: 1, failedWith: .transport(.timedOut))
        let ticket = named.fetchBegan()
        let row = try #require(metrics.summary()[query: "profile"])
        named.fetchEnded(ticket, outcome: .completed)

        #expect((row.flights, row.failures, row.cancellations, row.retries) == (4, 1, 1, 1))
        #expect(row.inFlight == 1)
        #expect(metrics.summary()[query: "profile"]?.inFlight == 0)
    }

    @Test func `percentiles are accurate to one percent, and the maximum is exact`() throws {
        let metrics = make()
        let named = metrics.named("profile")
        for milliseconds in 1...1_000 { fly(named, for: .milliseconds(milliseconds)) }
        let durations = try #require(metrics.summary()[query: "profile"]?.durations)
        let expected: [(Duration, Int)] = [
            (durations.p50, 500), (durations.p90, 900), (durations.p99, 990),
        ]

        for (duration, milliseconds) in expected {
            let error = duration / .milliseconds(milliseconds) - 1
            #expect(abs(error) <= 0.01, "\(duration) is not \(milliseconds) ms.")
        }
        #expect(durations.max == .milliseconds(1_000))
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func `percentiles match those of the sorted list, to one percent`(
        seed: UInt64
    ) throws {
        var random = SplitMix64(seed: seed)
        var histogram = DurationHistogram()
        let all = (0..<2_000).map { _ in
            let most = 1 << Int.random(in: 0...29, using: &random)
            return Int.random(in: 0...most, using: &random)
        }
        for microseconds in all { histogram.record(.microseconds(microseconds)) }
        let (sorted, found) = (all.sorted(), try #require(histogram.percentiles))
        for (percent, duration) in [(50, found.p50), (90, found.p90), (99, found.p99)] {
            let exact = sorted[2_000 * percent / 100 - 1]
            let bounds = exact...(exact + exact / 100)
            let microseconds = Int(duration.microseconds)
            #expect(bounds.contains(microseconds), "Seed \(seed): \(percent) %, not \(exact)")
        }
        #expect(found.max == .microseconds(sorted[1_999]))
    }

    @Test func `a cancelled fetch is not part of the durations`() {
        let metrics = make()
        fly(metrics.named("profile"), for: .seconds(5), .cancelled)

        #expect(metrics.summary()[query: "profile"]?.durations == nil)
        #expect(metrics.summary()[query: "profile"]?.slow == 0)
    }

    @Test func `a duration beyond the largest bucket is kept, and percentiles stay bounded`() throws
    {
        let metrics = make()
        fly(metrics.named("profile"), for: .seconds(3_600))
        let durations = try #require(metrics.summary()[query: "profile"]?.durations)

        #expect(durations.max == .seconds(3_600))
        #expect(durations.p50 >= .seconds(595) && durations.p50 <= .seconds(606))
    }

    @Test func `the durations of a name take less than 20 KB`() {
        let named = make().named("profile")
        #expect(named.footprint == 0)
        fly(named, for: .seconds(3_600))

        #expect(named.footprint > 10_000)
        #expect(named.footprint < 20_000)
    }

    @Test func `names beyond the limit are counted together`() throws {
        let metrics = make()
        for number in 0..<MetricsLimits.names + 100 { metrics.named("query \(number)").hit() }
        let summary = metrics.summary()

        #expect(summary.queries.count == MetricsLimits.names)
        #expect(summary[query: "other"]?.hits == 101)
        #expect(metrics.named("query 3") === metrics.named("query 3"))
    }

    @Test func `a long name is truncated`() {
        let metrics = make()
        metrics.named(String(repeating: "a", count: 5_000)).hit()

        #expect(metrics.summary().queries.map(\.name.count) == [MetricsLimits.nameCharacters])
    }

    @Test func `a reset starts over and keeps fetches in flight`() throws {
        let metrics = make()
        let named = metrics.named("profile")
        named.hit()
        fly(named, for: .seconds(2))
        let ticket = named.fetchBegan()
        metrics.reset()
        let row = try #require(metrics.summary()[query: "profile"])
        named.fetchEnded(ticket, outcome: .completed)

        #expect((row.reads, row.flights, row.slow, row.inFlight) == (0, 0, 0, 1))
        #expect(row.durations == nil)
        #expect(metrics.summary()[query: "profile"]?.inFlight == 0)
    }

    @Test func `an operation that takes over a second is logged once, by name`() {
        let metrics = make()
        fly(metrics.named("quick"), for: .seconds(1))
        fly(metrics.named("slow"), for: .milliseconds(1_001))

        #expect(log.messages == ["An operation took over a second."])
        #expect(metrics.summary()[query: "slow"]?.slow == 1)
        #expect(metrics.summary()[query: "quick"]?.slow == 0)
    }

    @Test func `the summary is a table that marks slow operations`() {
        let metrics = make()
        let balance = metrics.named("balance")
        for _ in 0..<1_234 { balance.hit() }
        fly(balance, for: .milliseconds(80))
        fly(metrics.named("profile"), for: .milliseconds(2_500), .failed(.closed))
        metrics.named("profile").miss()

        #expect(
            metrics.summary().description == """
                   query    reads   hits  flights  in flight  retried  failed    p50    p90    p99\
                    max  slow
                   balance  1,234  100 %        1          0        0       0  80 ms  80 ms  80 ms\
                  80 ms     0
                !  profile      1    0 %        1          0        0       1  2.5 s  2.5 s  2.5 s\
                  2.5 s     1
                """
        )
        #expect(make().summary().description == "Nothing has been measured yet.")
    }

    @Test func `a summary survives encoding`() throws {
        let metrics = make()
        fly(metrics.named("profile"), for: .microseconds(1_234_567))
        let summary = metrics.summary()
        let data = try JSONEncoder().encode(summary)

        #expect(try JSONDecoder().decode(MetricsSummary.self, from: data) == summary)
        #expect(String(decoding: data, as: UTF8.self).contains("\"maxSeconds\":1.234567"))
    }
}
