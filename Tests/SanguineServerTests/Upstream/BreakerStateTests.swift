import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Circuit breaker", .bounded)
struct BreakerStateTests {
    private static let fails = BreakerState.Verdict.failure(pause: nil)

    /// Makes calls that all end with the verdict at the given moment.
    private static func call(
        _ breaker: inout BreakerState,
        _ verdict: BreakerState.Verdict,
        times: Int = 1,
        at now: Duration = .zero
    ) {
        for _ in 0..<times {
            guard let pass = breaker.admit(at: now) else { return }
            breaker.end(pass, verdict, at: now, jitter: 0.5)
        }
    }

    private static func admits(_ breaker: BreakerState, at now: Duration) -> Bool {
        var breaker = breaker
        return breaker.admit(at: now) != nil
    }

    /// Returns the pass for a call, which must be admitted.
    private static func pass(
        _ breaker: inout BreakerState,
        at now: Duration
    ) throws -> BreakerState.Pass {
        let pass = breaker.admit(at: now)
        return try #require(pass)
    }

    /// Returns a breaker that five failures opened at the given moment.
    private static func opened(at now: Duration = .zero) -> BreakerState {
        var breaker = BreakerState()
        call(&breaker, fails, times: 5, at: now)
        return breaker
    }

    @Test func `five failures in a row open the breaker`() {
        var breaker = BreakerState()
        Self.call(&breaker, Self.fails, times: 4)
        #expect(breaker.phase == .closed)
        Self.call(&breaker, Self.fails)
        #expect(breaker.phase == .open)
        #expect(!Self.admits(breaker, at: .seconds(4)))
    }

    @Test func `a success between failures restarts the count`() {
        var breaker = BreakerState()
        Self.call(&breaker, Self.fails, times: 4)
        Self.call(&breaker, .success)
        Self.call(&breaker, Self.fails, times: 4)
        #expect(breaker.phase == .closed)
    }

    @Test func `ten failures among twenty calls open the breaker, and fewer calls do not`() {
        var breaker = BreakerState()
        for index in 0..<9 {
            Self.call(&breaker, .success, at: .seconds(index))
            Self.call(&breaker, Self.fails, at: .seconds(index))
        }
        Self.call(&breaker, .success, at: .seconds(10))
        #expect(breaker.phase == .closed)
        Self.call(&breaker, Self.fails, at: .seconds(10))
        #expect(breaker.phase == .open)
    }

    @Test func `failures older than the window do not count`() {
        var quick = BreakerState()
        for index in 0..<10 {
            Self.call(&quick, .success, at: .seconds(index * 2))
            Self.call(&quick, Self.fails, at: .seconds(index * 2))
        }
        #expect(quick.phase == .open)
        var slow = BreakerState()
        for index in 0..<40 {
            Self.call(&slow, .success, at: .seconds(index * 4))
            Self.call(&slow, Self.fails, at: .seconds(index * 4))
        }
        #expect(slow.phase == .closed)
    }

    @Test func `after the pause exactly one call is admitted`() {
        var breaker = Self.opened()
        #expect(breaker.wait(at: .seconds(1)) == .seconds(4))
        let probe = breaker.admit(at: .seconds(5))
        #expect(probe?.isProbe == true)
        #expect(breaker.phase == .halfOpen)
        #expect(!Self.admits(breaker, at: .seconds(5)))
        #expect(!Self.admits(breaker, at: .seconds(500)))
        #expect(breaker.wait(at: .seconds(500)) == .seconds(1))
    }

    @Test func `a successful probe closes the breaker`() throws {
        var breaker = Self.opened()
        let probe = try Self.pass(&breaker, at: .seconds(5))
        breaker.end(probe, .success, at: .seconds(6), jitter: 0)
        #expect(breaker.phase == .closed)
        Self.call(&breaker, Self.fails, times: 4, at: .seconds(6))
        #expect(breaker.phase == .closed)
    }

    @Test func `each failed probe doubles the pause, up to five minutes`() throws {
        var breaker = Self.opened()
        var now = Duration.zero
        var times: [Int64] = []
        for _ in 0..<9 {
            let wait = try #require(breaker.wait(at: now))
            times.append(wait.components.seconds)
            now += wait
            let probe = try Self.pass(&breaker, at: now)
            breaker.end(probe, Self.fails, at: now, jitter: 0.5)
        }
        #expect(times == [5, 10, 20, 40, 80, 160, 300, 300, 300])
    }

    @Test(arguments: [(0.0, 4_000), (0.5, 5_000), (1.0, 6_000)])
    func `the pause varies by a fifth`(jitter: Double, milliseconds: Int) throws {
        var breaker = BreakerState()
        for _ in 0..<5 {
            let pass = try Self.pass(&breaker, at: .zero)
            breaker.end(pass, Self.fails, at: .zero, jitter: jitter)
        }
        let wait = try #require(breaker.wait(at: .zero))
        #expect((wait - .milliseconds(milliseconds)).secondsRoundedUp <= 0)
        #expect((.milliseconds(milliseconds) - wait).secondsRoundedUp <= 0)
    }

    @Test func `a probe without a verdict makes room for the next`() throws {
        var breaker = Self.opened()
        let probe = try Self.pass(&breaker, at: .seconds(5))
        breaker.end(probe, .nothing, at: .seconds(6), jitter: 0)
        #expect(breaker.phase == .halfOpen)
        let next = try Self.pass(&breaker, at: .seconds(6))
        #expect(next.isProbe)
    }

    @Test func `results of earlier calls do not change a breaker that waits for its probe`() throws
    {
        var breaker = BreakerState()
        let old = try Self.pass(&breaker, at: .zero)
        let other = try Self.pass(&breaker, at: .zero)
        Self.call(&breaker, Self.fails, times: 5)
        let probe = try Self.pass(&breaker, at: .seconds(5))
        breaker.end(old, .success, at: .seconds(5), jitter: 0)
        #expect(breaker.phase == .halfOpen)
        #expect(!Self.admits(breaker, at: .seconds(5)))
        breaker.end(other, Self.fails, at: .seconds(5), jitter: 0)
        #expect(breaker.phase == .halfOpen)
        breaker.end(probe, .success, at: .seconds(5), jitter: 0)
        #expect(breaker.phase == .closed)
    }

    @Test func `an upstream that asks for a pause is not called for up to five minutes`() throws {
        var breaker = BreakerState()
        let pass = try Self.pass(&breaker, at: .zero)
        breaker.end(pass, .failure(pause: .seconds(7)), at: .seconds(1), jitter: 0)
        #expect(breaker.phase == .closed)
        #expect(breaker.wait(at: .seconds(2)) == .seconds(6))
        #expect(!Self.admits(breaker, at: .seconds(7)))
        let next = try Self.pass(&breaker, at: .seconds(8))
        breaker.end(next, .failure(pause: .seconds(86_400)), at: .seconds(8), jitter: 0)
        #expect(breaker.wait(at: .seconds(8)) == .seconds(300))
    }

    @Test(arguments: 1...300 as ClosedRange<UInt64>)
    func `no sequence of events breaks an invariant`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var breaker = BreakerState()
        var out: [BreakerState.Pass] = []
        var now = Duration.zero
        for _ in 0..<2_000 {
            now += .milliseconds(Int.random(in: 0...3_000, using: &random))
            if Bool.random(using: &random) {
                let wait = breaker.wait(at: now)
                let pass = breaker.admit(at: now)
                #expect((pass == nil) == (wait != nil))
                if let pass { out.append(pass) }
            } else if let index = out.indices.randomElement(using: &random) {
                let pause = Duration.seconds(Int.random(in: 0...1_000, using: &random))
                let verdicts: [BreakerState.Verdict] = [
                    .success, .nothing, Self.fails, Self.fails, .failure(pause: pause),
                ]
                let verdict = verdicts.randomElement(using: &random) ?? .nothing
                let jitter = Double.random(in: 0...1, using: &random)
                breaker.end(out.remove(at: index), verdict, at: now, jitter: jitter)
            }
            #expect(breaker.wait(at: now) ?? .zero <= .seconds(300))
            #expect(out.count(where: \.isProbe) <= 1)
        }
        // The breaker always admits a call after the longest pause.
        for pass in out { breaker.end(pass, .nothing, at: now, jitter: 0) }
        let pass = breaker.admit(at: now + .seconds(300))
        #expect(pass != nil)
        if let pass { breaker.end(pass, .success, at: now + .seconds(300), jitter: 0) }
        #expect(breaker.phase == .closed)
    }
}
