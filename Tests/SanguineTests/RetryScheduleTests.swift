import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Retry schedule", .bounded)
struct RetryScheduleTests {
    private let offline = SanguineError.transport(.offline("no network"))

    private static func refused(_ status: Int, retryAfter: Int? = nil) -> SanguineError {
        var problem = Problem(.internalFault, "Try again.", retryAfter: retryAfter)
        problem.status = status
        return .problem(problem)
    }

    @Test func `without jitter the delays double up to the cap and end with the attempts`() {
        let schedule = RetrySchedule(attempts: 8, jitter: 0)
        var random = SplitMix64(seed: 1)
        let waits = (1...8).map {
            schedule.delay(afterFailures: $0, of: offline, using: &random)
        }

        #expect(waits == [1, 2, 4, 8, 16, 30, 30].map { .seconds($0) } + [nil])
    }

    @Test(arguments: UInt64(1)...50)
    func `jitter changes a delay by at most a quarter`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        for failures in 1...2 {
            let wait = try #require(
                RetrySchedule.standard.delay(afterFailures: failures, of: offline, using: &random)
            )
            let middle = Duration.seconds(failures == 1 ? 1 : 2)
            #expect(wait >= middle * 0.75 && wait <= middle * 1.25)
        }
    }

    @Test func `jitter spreads the delays of clients`() {
        let waits = (UInt64(1)...20).map { seed in
            var random = SplitMix64(seed: seed)
            return RetrySchedule.standard.delay(afterFailures: 1, of: offline, using: &random)
        }
        #expect(Set(waits).count == 20)
    }

    @Test(arguments: [
        (SanguineError.transport(.timedOut), true),
        (.transport(.offline("x")), true),
        (.transport(.interrupted("x")), true),
        (.transport(.cancelled), false),
        (.transport(.bodyTooLarge(limitBytes: 1)), false),
        (.transport(.invalid("x")), false),
        (.cancelled, false),
        (.closed, false),
        (.userChanged, false),
        (.decoding("x"), false),
    ])
    func `errors without a status are retried as the table says`(
        error: SanguineError,
        isWorth: Bool
    ) {
        #expect(error.isWorthAnotherRead == isWorth)
    }

    @Test(arguments: [400, 401, 402, 403, 404, 405, 409, 413, 422, 501])
    func `a refusal is not retried`(status: Int) {
        #expect(!Self.refused(status).isWorthAnotherRead)
    }

    @Test(arguments: [408, 429, 500, 502, 503, 504])
    func `a temporary fault is retried`(status: Int) {
        #expect(Self.refused(status).isWorthAnotherRead)
    }

    @Test func `retries are not sent before the server's time, and not all at once`() throws {
        let waits = try (UInt64(1)...50).map { seed in
            var random = SplitMix64(seed: seed)
            let wait = RetrySchedule.standard
                .delay(afterFailures: 1, of: Self.refused(429, retryAfter: 8), using: &random)
            return try #require(wait)
        }
        #expect(waits.allSatisfy { $0 >= .seconds(8) && $0 <= .seconds(10) })
        #expect(Set(waits).count == 50)
    }

    @Test func `a server's retry time beyond the cap ends the retries`() {
        var random = SplitMix64(seed: 1)
        let wait = RetrySchedule.standard
            .delay(afterFailures: 1, of: Self.refused(429, retryAfter: 31), using: &random)
        #expect(wait == nil)
    }

    @Test(arguments: [
        ("120", 120), ("0", 0), ("-5", 0), ("Sun, 06 Nov 1994 08:49:37 GMT", 37),
        ("Sun, 06 Nov 1994 08:48:00 GMT", 0), ("soon", nil),
    ])
    func `the header is parsed as seconds or as a date`(header: String, seconds: Int?) throws {
        let now = try #require(Timestamp("1994-11-06T08:49:00Z"))
        #expect(RetryAfter.seconds(header, now: now) == seconds)
    }
}
