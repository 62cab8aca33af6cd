import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Retry budget", .bounded)
struct RetryBudgetTests {
    private static func budget(reserve: Int = 3, hosts: Int = 64) -> RetryBudget {
        var limits = RetryBudget.Limits()
        limits.reserve = reserve
        limits.hosts = hosts
        return RetryBudget(limits: limits)
    }

    private static func refused(_ status: Int, retryAfter: Int?) -> SanguineError {
        var problem = Problem(.overloaded, "Come back.", retryAfter: retryAfter)
        problem.status = status
        return .problem(problem)
    }

    @Test func `a host with few requests has its reserve`() {
        var budget = Self.budget()
        let allowed = (1...5).map { _ in budget.withdraw("a", at: .seconds(1)) }
        #expect(allowed == [true, true, true, false, false])
    }

    @Test func `ten requests allow one more retry`() {
        var budget = Self.budget(reserve: 0)
        for _ in 1...9 { budget.requested("a", at: .zero) }
        #expect(budget.withdraw("a", at: .zero) == false)
        budget.requested("a", at: .zero)
        #expect(budget.withdraw("a", at: .zero) == true)
        #expect(budget.withdraw("a", at: .zero) == false)
    }

    @Test func `the budget resets after a minute`() {
        var budget = Self.budget(reserve: 1)
        #expect(budget.withdraw("a", at: .seconds(5)) == true)
        #expect(budget.withdraw("a", at: .seconds(59)) == false)
        #expect(budget.withdraw("a", at: .seconds(65)) == true)
    }

    @Test func `requests older than a minute allow no retry`() {
        var budget = Self.budget(reserve: 0)
        for _ in 1...100 { budget.requested("a", at: .zero) }
        #expect(budget.withdraw("a", at: .seconds(60)) == false)
    }

    @Test func `each host has its own budget`() {
        var budget = Self.budget(reserve: 1)
        #expect(budget.withdraw("a", at: .zero) == true)
        #expect(budget.withdraw("b", at: .zero) == true)
        #expect(budget.withdraw("a", at: .zero) == false)
    }

    @Test func `with too many hosts, the least recently used one is forgotten`() {
        var budget = Self.budget(reserve: 1, hosts: 2)
        _ = budget.withdraw("a", at: .zero)
        _ = budget.withdraw("b", at: .zero)
        budget.requested("a", at: .zero)
        _ = budget.withdraw("c", at: .zero)

        #expect(budget.hostCount == 2)
        #expect(budget.withdraw("a", at: .zero) == false)
        #expect(budget.withdraw("b", at: .zero) == true)
    }

    @Test(arguments: [429, 503])
    func `a host that names a retry time is not contacted until then`(status: Int) {
        var budget = Self.budget()
        let error = Self.refused(status, retryAfter: 12)
        budget.failed("a", with: error, at: .seconds(100))

        #expect(
            budget.pause(of: "a", at: .seconds(105))
                == RetryBudget.Pause(remaining: .seconds(7), error: error)
        )
        #expect(budget.pause(of: "a", at: .seconds(112)) == nil)
        #expect(budget.pause(of: "b", at: .seconds(105)) == nil)
    }

    @Test func `an error without a retry time or with another status causes no pause`() {
        var budget = Self.budget()
        budget.failed("a", with: Self.refused(503, retryAfter: nil), at: .zero)
        budget.failed("a", with: Self.refused(500, retryAfter: 9), at: .zero)
        budget.failed("a", with: .transport(.timedOut), at: .zero)
        #expect(budget.pause(of: "a", at: .zero) == nil)
    }

    @Test func `a shorter pause does not replace a longer one`() {
        var budget = Self.budget()
        budget.failed("a", with: Self.refused(503, retryAfter: 30), at: .zero)
        budget.failed("a", with: Self.refused(429, retryAfter: 1), at: .seconds(1))
        #expect(budget.pause(of: "a", at: .seconds(2))?.remaining == .seconds(28))
    }

    @Test func `out-of-order times are replaced by the latest one`() {
        var budget = Self.budget(reserve: 1)
        budget.failed("a", with: Self.refused(503, retryAfter: .max), at: .seconds(100))
        budget.failed("a", with: Self.refused(503, retryAfter: .max), at: .seconds(99))
        budget.requested("a", at: .seconds(98))

        #expect(budget.pause(of: "a", at: .seconds(97))?.remaining == ClientLimits.longestPause)
        #expect(budget.withdraw("a", at: .seconds(40)) == true)
        #expect(budget.withdraw("a", at: .seconds(110)) == false)
    }

    @Test func `a pause is at most ten minutes`() {
        var budget = Self.budget()
        budget.failed("a", with: Self.refused(503, retryAfter: .max), at: .zero)
        #expect(budget.pause(of: "a", at: .zero)?.remaining == ClientLimits.longestPause)
    }

    @Test(arguments: Fuzz.seeds(1...20))
    func `no retry exceeds the requests of its minute`(
        seed: UInt64
    ) {
        var random = SplitMix64(seed: seed)
        var budget = RetryBudget()
        var now = Duration.zero
        var requests: [Duration] = []
        var retries: [Duration] = []
        for event in 1...Fuzz.events(2_000) {
            now += .milliseconds(Int.random(in: 0...400, using: &random))
            if Bool.random(using: &random) {
                budget.requested("a", at: now)
                requests.append(now)
                continue
            }
            guard budget.withdraw("a", at: now) else { continue }
            retries.append(now)
            requests.removeAll { now - $0 > .seconds(60) }
            // The oldest sixth of a minute may already have been dropped.
            retries.removeAll { now - $0 > .seconds(50) }
            let most = ClientLimits.retryReserve + requests.count / ClientLimits.requestsPerRetry
            guard retries.count <= most else {
                let fault = "event \(event): \(retries.count) of \(most) retries"
                Issue.record(Fuzz.replay(Self.self, seed: seed, fault))
                return
            }
        }
        #expect(!retries.isEmpty)
    }
}
