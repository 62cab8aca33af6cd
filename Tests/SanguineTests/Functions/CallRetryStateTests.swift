import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

@Suite("Call attempts", .bounded)
struct CallRetryStateTests {
    enum Expected { case again, refused, released, charged, unknown }

    struct Row: Sendable, CustomTestStringConvertible {
        let error: SanguineError
        let first: Expected
        let later: Expected
        var testDescription: String { "\(error.code)" }

        init(_ error: SanguineError, first: Expected, later: Expected) {
            (self.error, self.first, self.later) = (error, first, later)
        }

        init(_ code: ProblemCode, first: Expected, later: Expected) {
            self.init(.problem(Problem(code, "")), first: first, later: later)
        }
    }

    private static func charged(_ amount: Int64, _ code: ProblemCode) -> SanguineError {
        var problem = Problem(code, "")
        problem.charged = amount
        return .problem(problem)
    }

    static let rows = [
        Row(.transport(.offline("")), first: .again, later: .again),
        Row(.transport(.timedOut), first: .again, later: .again),
        Row(.transport(.interrupted("")), first: .again, later: .again),
        Row(.transport(.bodyTooLarge(limitBytes: 1)), first: .unknown, later: .unknown),
        Row(.decoding(""), first: .unknown, later: .unknown),
        Row(.cancelled, first: .unknown, later: .unknown),
        Row(.userChanged, first: .unknown, later: .unknown),
        Row(.notConfigured(""), first: .refused, later: .unknown),
        Row(.insufficientTokens, first: .refused, later: .refused),
        Row(.quotaExhausted, first: .refused, later: .refused),
        Row(.rateLimited, first: .refused, later: .again),
        Row(.overloaded, first: .refused, later: .again),
        Row(.upstreamMissing, first: .refused, later: .again),
        Row(.operationInProgress, first: .again, later: .again),
        Row(.upstreamFailed, first: .released, later: .released),
        Row(.upstreamRefused, first: .released, later: .released),
        Row(.upstreamTimeout, first: .released, later: .released),
        Row(charged(3, .upstreamTimeout), first: .charged, later: .charged),
        Row(charged(3, .interrupted), first: .charged, later: .charged),
        Row(charged(0, .interrupted), first: .released, later: .released),
        Row(charged(3, .callCancelled), first: .charged, later: .charged),
        Row(charged(0, .callCancelled), first: .released, later: .released),
        Row(.internalFault, first: .again, later: .again),
        Row(.idempotencyExpired, first: .unknown, later: .unknown),
        Row(.idempotencyMismatch, first: .unknown, later: .unknown),
        Row(.invalidContent, first: .refused, later: .unknown),
        Row(.unauthenticated, first: .refused, later: .unknown),
        Row(.notFound, first: .refused, later: .unknown),
    ]

    static func kind(_ verdict: CallRetryState.Verdict) -> Expected {
        switch verdict {
        case .again: .again
        case .refused: .refused
        case .released: .released
        case .charged: .charged
        case .unknown: .unknown
        }
    }

    @Test(arguments: rows)
    func `a failure is handled as the table says, before and after a possible arrival`(
        row: Row
    ) {
        var random = SystemRandomNumberGenerator()
        var fresh = CallRetryState()
        #expect(Self.kind(fresh.failed(row.error, using: &random)) == row.first)
        var resent = CallRetryState()
        _ = resent.failed(.transport(.timedOut), using: &random)
        #expect(Self.kind(resent.failed(row.error, using: &random)) == row.later)
    }

    @Test func `a call that never arrives is sent four times and then refused`() {
        var random = SystemRandomNumberGenerator()
        var attempts = CallRetryState()
        for _ in 1...3 {
            let verdict = attempts.failed(.transport(.offline("")), using: &random)
            #expect(Self.kind(verdict) == .again)
        }
        #expect(attempts.failed(.transport(.offline("")), using: &random) == .refused)
    }

    @Test func `a proxy's error reveals nothing about the server behind it`() {
        var random = SystemRandomNumberGenerator()
        var problem = Problem(ProblemCode(rawValue: "http_503"), "")
        problem.status = 503
        var attempts = CallRetryState()
        #expect(Self.kind(attempts.failed(.problem(problem), using: &random)) == .again)
        #expect(attempts.mayHaveHappened)
    }

    @Test func `polling a running call is limited, and so is the server's retry time`() {
        var random = SystemRandomNumberGenerator()
        var attempts = CallRetryState()
        let running = Problem(.operationInProgress, "", retryAfter: 86_400)
        for _ in 1...2 {
            let verdict = attempts.failed(.problem(running), using: &random)
            #expect(verdict == .again(after: BalanceLimits.longestWait))
        }
        #expect(attempts.failed(.problem(running), using: &random) == .unknown)
    }

    @Test(arguments: [nil, 0, 1])
    func `a running call is polled for two minutes, however often the server asks`(
        retryAfter: Int?
    ) {
        var random = SystemRandomNumberGenerator()
        var attempts = CallRetryState()
        let running = Problem(.operationInProgress, "", retryAfter: retryAfter)
        var waited = Duration.zero
        while case .again(let wait) = attempts.failed(.problem(running), using: &random) {
            waited += wait
            guard waited < .seconds(1_000) else { break }
        }
        #expect(waited == .seconds(120))
    }

    @Test func `without a token a call counts as not sent`() {
        var random = SystemRandomNumberGenerator()
        var attempts = CallRetryState()
        #expect(attempts.notSent() == .refused)
        _ = attempts.failed(.transport(.timedOut), using: &random)
        #expect(attempts.notSent() == .unknown)
    }
}
