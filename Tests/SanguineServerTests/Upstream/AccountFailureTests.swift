import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Failures of one account, and the accounts that they exclude from an upstream.
@Suite("Failures of one account", .bounded)
struct AccountFailureTests {
    private static let fails = BreakerState.Verdict.failure(pause: nil)
    private static let attacker = numbered(1)
    private static let other = numbered(2)

    private static func numbered(_ number: Int) -> Identifier {
        Identifier(at: Timestamp(millisecondsSince1970: Int64(number)))
    }

    /// Makes calls of an account that all end with the verdict.
    ///
    /// - Returns: The number of admitted calls.
    @discardableResult
    private static func call(
        _ breaker: inout BreakerState,
        _ account: Identifier?,
        _ verdict: BreakerState.Verdict,
        times: Int = 1,
        at now: Duration = .zero
    ) -> Int {
        var count = 0
        for _ in 0..<times {
            guard let pass = breaker.admit(at: now, for: account) else { break }
            breaker.end(pass, verdict, at: now, jitter: 0.5)
            count += 1
        }
        return count
    }

    @Test func `one account's failures exclude only that account`() {
        var breaker = BreakerState()
        #expect(Self.call(&breaker, Self.attacker, Self.fails, times: 100) == 5)
        #expect(breaker.phase == .closed)
        #expect(breaker.wait(at: .zero, for: Self.attacker) == .seconds(5))
        #expect(breaker.wait(at: .zero, for: Self.other) == nil)
    }

    @Test func `consecutive failures of two accounts open the breaker for all`() {
        var breaker = BreakerState()
        Self.call(&breaker, Self.attacker, Self.fails, times: 3)
        Self.call(&breaker, Self.other, Self.fails)
        #expect(breaker.phase == .closed)
        Self.call(&breaker, Self.other, Self.fails)
        #expect(breaker.phase == .open)
    }

    @Test func `an unreachable upstream opens the breaker for all accounts`() {
        var breaker = BreakerState()
        Self.call(&breaker, Self.attacker, .unreachable, times: 5)
        #expect(breaker.phase == .open)
    }

    @Test func `an account that mixes failures with successes does not open the breaker`() {
        var breaker = BreakerState()
        for index in 0..<200 {
            let verdict = index % 4 == 3 ? BreakerState.Verdict.success : Self.fails
            Self.call(&breaker, Self.attacker, verdict, at: .milliseconds(100 * index))
            Self.call(&breaker, Self.other, .success, at: .milliseconds(100 * index))
        }
        #expect(breaker.phase == .closed)
    }

    @Test func `a burst of one account's concurrent failures counts at most five times`() throws {
        var breaker = BreakerState()
        let passes = (0..<50).compactMap { _ in breaker.admit(at: .zero, for: Self.attacker) }
        #expect(passes.count == 50)
        for pass in passes { breaker.end(pass, Self.fails, at: .zero, jitter: 0.5) }
        Self.call(&breaker, Self.other, Self.fails)
        #expect(breaker.phase == .closed)
    }

    @Test func `an excluded account returns with one call at a time`() throws {
        var breaker = BreakerState()
        Self.call(&breaker, Self.attacker, Self.fails, times: 5)
        let admitted = breaker.admit(at: .seconds(5), for: Self.attacker)
        let probe = try #require(admitted)
        #expect(breaker.wait(at: .seconds(5), for: Self.attacker) == .seconds(1))
        breaker.end(probe, Self.fails, at: .seconds(5), jitter: 0.5)
        #expect(breaker.wait(at: .seconds(5), for: Self.attacker) == .seconds(10))
        #expect(Self.call(&breaker, Self.attacker, .success, times: 9, at: .seconds(15)) == 9)
    }

    @Test func `the number of remembered accounts is limited`() {
        var breaker = BreakerState()
        for number in 1...(3 * AccountGates.limit) {
            let account = Self.numbered(number)
            Self.call(&breaker, account, Self.fails, times: 4, at: .seconds(60 * number))
            Self.call(&breaker, Self.other, .success, at: .seconds(60 * number))
        }
        #expect(breaker.rememberedAccounts <= AccountGates.limit)
    }
}
