import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Rate limiter", .bounded)
struct RateLimiterTests {
    private let clock = ManualClock()

    private func limiter(_ limit: Int, keys: Int = 100) -> RateLimiter<String> {
        let policy = RatePolicy(limit: limit)
        return RateLimiter(policy: policy, keyLimit: keys, shards: 1, clock: clock)
    }

    @Test func `a key may use its whole limit at once, and no more`() {
        let limiter = limiter(3)
        let decisions = (1...4).map { _ in limiter.admit("a") }
        #expect(decisions.map(\.isAdmitted) == [true, true, true, false])
        #expect(decisions.map(\.remaining) == [2, 1, 0, 0])
        #expect(decisions.map(\.resetSeconds) == [20, 40, 60, 60])
        #expect(decisions.map(\.retryAfterSeconds) == [nil, nil, nil, 20])
        #expect(limiter.admit("b").isAdmitted)
    }

    @Test func `a key that waits for the given time is admitted`() throws {
        let limiter = limiter(7)
        for _ in 1...7 { _ = limiter.admit("a") }
        for _ in 1...20 {
            clock.advance(by: .milliseconds(700))
            let refused = limiter.admit("a")
            guard let seconds = refused.retryAfterSeconds else { continue }
            clock.advance(by: .seconds(seconds))
            #expect(limiter.admit("a").isAdmitted)
        }
    }

    @Test func `a refusal does not count against the limit`() {
        let limiter = limiter(1)
        #expect(limiter.admit("a").isAdmitted)
        for _ in 1...59 {
            clock.advance(by: .seconds(1))
            #expect(!limiter.admit("a").isAdmitted)
        }
        clock.advance(by: .seconds(1))
        #expect(limiter.admit("a").isAdmitted)
    }

    @Test func `the header fields follow the draft`() {
        let limiter = limiter(60_000)
        #expect(limiter.policy.headerValue == #""default";q=60000;w=60"#)
        #expect(limiter.admit("a").headerValue == #""default";r=59999;t=1"#)
    }

    @Test func `buckets are limited, and full ones are removed`() {
        let limiter = limiter(2, keys: 10)
        for number in 1...1_000 { _ = limiter.admit("key \(number)") }
        #expect(limiter.count == 10)
        clock.advance(by: .seconds(60))
        #expect(limiter.admit("new").isAdmitted)
        #expect(limiter.count == 1)
    }

    @Test func `a flood of keys does not use a known key's limit`() {
        let limiter = limiter(5, keys: 10)
        #expect(limiter.admit("known").isAdmitted)
        for number in 1...1_000 { _ = limiter.admit("flood \(number)") }
        for _ in 2...5 { #expect(limiter.admit("known").isAdmitted) }
        #expect(!limiter.admit("unknown").isAdmitted)
    }

    @Test func `concurrent callers never exceed the limit`() async {
        let policy = RatePolicy(limit: 500)
        let limiter = RateLimiter<Int>(policy: policy, clock: clock)
        let admitted = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<8 {
                group.addTask { (0..<1_000).count { limiter.admit($0 % 4).isAdmitted } }
            }
            return await group.reduce(0, +)
        }
        #expect(admitted == 4 * 500)
    }

    /// Random keys at random times, with so few buckets that keys lose and regain theirs.
    ///
    /// Between any two admissions of a key, there are at most as many as the limit plus the refill.
    @Test(arguments: 1...20)
    func `no window admits more than the limit plus its refill`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let limit = Int.random(in: 1...9, using: &random)
        let limiter = limiter(limit, keys: Int.random(in: 1...4, using: &random))
        var admissions: [String: [Int64]] = [:]
        var remaining: Set<Int> = []
        var now: Int64 = 0
        for _ in 0..<1_000 {
            let key = "\(Int.random(in: 0...6, using: &random))"
            let pause =
                Bool.random(using: &random) ? 0 : Int64.random(in: 0...9_000, using: &random)
            now += pause
            clock.advance(by: .milliseconds(pause))
            let decision = limiter.admit(key)
            if decision.isAdmitted { admissions[key, default: []].append(now) }
            remaining.formUnion([decision.remaining])
        }
        #expect(remaining.isSubset(of: 0...limit))
        var excess = 0.0
        for moments in admissions.values {
            for first in moments.indices {
                for last in moments.indices.suffix(from: first).prefix(50) {
                    let refilled = Double(moments[last] - moments[first]) * Double(limit) / 60_000
                    excess = max(excess, Double(last - first + 1 - limit) - refilled)
                }
            }
        }
        #expect(admissions.count > 1)
        #expect(excess <= 1e-6)
    }
}
