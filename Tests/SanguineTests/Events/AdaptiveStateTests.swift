import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Adaptive freshness", .bounded)
struct AdaptiveStateTests {
    private let range: ClosedRange<Duration> = .minutes(1) ... .hours(24)

    /// Fetches from a source that many times, each time when the last TTL has expired.
    ///
    /// The source changes as a Poisson process. Returns the geometric mean of the TTLs of the
    /// second half, in seconds.
    private func settledTTL(
        meanSecondsBetweenChanges mean: Double,
        looks: Int = 2_000,
        seed: UInt64
    ) -> Double {
        var random = SplitMix64(seed: seed)
        var state = AdaptiveState()
        var now = Timestamp(millisecondsSince1970: 1_795_262_400_000)
        state.fetchCompleted(changed: true, at: now)
        var logs = 0.0
        for look in 0..<looks {
            let ttl = state.ttl(within: range)
            now = now + ttl
            let seconds = Double(ttl.wholeMilliseconds) / 1_000
            let changed = Double.random(in: 0..<1, using: &random) > exp(-seconds / mean)
            state.fetchCompleted(changed: changed, at: now)
            if look >= looks / 2 { logs += log(seconds) }
        }
        return exp(logs / Double(looks - looks / 2))
    }

    @Test(arguments: [600.0, 3_600, 14_400, 86_400], UInt64(1)...3)
    func `the time to live settles at a quarter of the mean time between changes`(
        mean: Double,
        seed: UInt64
    ) {
        let ttl = settledTTL(meanSecondsBetweenChanges: mean, seed: seed)

        #expect((0.7...1.4).contains(ttl / (mean / 4)), "\(ttl) s, not about \(mean / 4) s")
    }

    @Test func `the time to live of a source that never changes grows up to the limit`() {
        var state = AdaptiveState()
        var now = Timestamp(millisecondsSince1970: 0)
        state.fetchCompleted(changed: true, at: now)
        var ttls: [Duration] = []
        for _ in 0..<12 {
            ttls.append(state.ttl(within: range))
            now = now + (ttls.last ?? .zero)
            state.fetchCompleted(changed: false, at: now)
        }

        #expect(ttls.first == .minutes(1))
        #expect(ttls[1] == .minutes(2) && ttls[2] == .minutes(4))
        #expect(ttls.last == .hours(24))
    }

    @Test func `a source that always changes is fetched as often as the range allows`() {
        var state = AdaptiveState()
        var now = Timestamp(millisecondsSince1970: 0)
        for _ in 0..<20 {
            state.fetchCompleted(changed: true, at: now)
            now = now + .hours(2)
        }

        #expect(state.ttl(within: range) == .minutes(1))
    }

    @Test func `a source that begins to change is noticed within a few fetches`() {
        var state = AdaptiveState()
        var now = Timestamp(millisecondsSince1970: 0)
        for _ in 0..<40 {
            state.fetchCompleted(changed: false, at: now)
            now = now + state.ttl(within: range)
        }
        #expect(state.ttl(within: range) == .hours(24))
        for _ in 0..<20 {
            now = now + .minutes(10)
            state.fetchCompleted(changed: true, at: now)
        }

        #expect(state.ttl(within: range) < .minutes(10))
    }

    @Test func `one fetch proves nothing`() {
        var state = AdaptiveState()
        #expect(state.ttl(within: range) == .minutes(1))
        state.fetchCompleted(changed: false, at: Timestamp(millisecondsSince1970: 0))

        #expect(state.ttl(within: range) == .minutes(1))
        #expect(state.meanTimeBetweenChanges == nil)
    }

    @Test func `a clock that was set back restarts the count and breaks nothing`() {
        var state = AdaptiveState()
        let now = Timestamp(millisecondsSince1970: 1_000_000)
        state.fetchCompleted(changed: false, at: now)
        state.fetchCompleted(changed: false, at: now + .minutes(10))
        let before = state.ttl(within: range)
        state.fetchCompleted(changed: true, at: now - .hours(1))

        #expect(state.ttl(within: range) == before)
    }

    @Test(arguments: UInt64(1)...10)
    func `the time to live always stays within the range`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var state = AdaptiveState()
        var now = Timestamp(millisecondsSince1970: .random(in: -1_000...1_000, using: &random))
        for _ in 0..<5_000 {
            let milliseconds: Int64 =
                switch Int.random(in: 0..<10, using: &random) {
                case 0: 0
                case 1: -Int64.random(in: 0...100_000_000, using: &random)
                case 2: .random(in: 0...1_000_000_000_000, using: &random)
                default: .random(in: 0...10_000_000, using: &random)
                }
            now = now + .milliseconds(milliseconds)
            state.fetchCompleted(changed: Bool.random(using: &random), at: now)
            let lower = Duration.milliseconds(Int64.random(in: 0...10_000_000, using: &random))
            let upper = lower + .milliseconds(Int64.random(in: 0...10_000_000, using: &random))
            guard (lower...upper).contains(state.ttl(within: lower...upper)) else {
                Issue.record("\(state) gave \(state.ttl(within: lower...upper))")
                return
            }
        }
    }
}
