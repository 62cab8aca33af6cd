import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite("Balance call deadlines", .bounded)
struct BalanceTimeTests {
    /// A clock on which each sleep passes at once.
    private final class PassingClock: Clock {
        typealias Instant = ManualClock.Instant

        private let passed = Mutex(Duration.zero)

        var now: Instant { Instant(offset: passed.withLock { $0 }) }
        var minimumResolution: Duration { .zero }

        func pass(_ duration: Duration) { passed.withLock { $0 += duration } }

        func sleep(  // tidy: allow sleeping-test: this is the clock, and takes no time.
            until deadline: Instant,
            tolerance: Duration?
        ) async throws {
            try Task.checkCancellation()
            passed.withLock { $0 = max($0, deadline.offset) }
        }
    }

    /// A server whose answers take time; the last one never arrives.
    private final class SlowServer: HTTPTransport {
        private let clock: PassingClock
        private let answers: Mutex<[(after: Duration, status: Int)]>
        private let timeouts = Mutex<[Duration]>([])

        init(_ clock: PassingClock, _ answers: [(after: Duration, status: Int)]) {
            self.clock = clock
            self.answers = Mutex(answers)
        }

        var allowed: [Duration] { timeouts.withLock { $0 } }

        func send(
            _ request: TransportRequest
        ) async throws(TransportError) -> TransportResponse {
            timeouts.withLock { $0.append(request.timeout) }
            let answer = answers.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            guard let answer, answer.after < request.timeout else {
                clock.pass(request.timeout)
                throw .timedOut
            }
            clock.pass(answer.after)
            guard answer.status == 401 else { return TransportResponse(status: answer.status) }
            let problem = try? WireCoding.encode(Problem(.tokenExpired, "Refresh the token."))
            return TransportResponse(status: 401, body: problem ?? Data())
        }
    }

    private let clock = PassingClock()

    private func refresh(
        _ answers: [(after: Duration, status: Int)]
    ) async throws -> (error: SanguineError?, allowed: [Duration]) {
        let server = SlowServer(clock, answers)
        let test = try TestClient { [clock] in
            $0.transport = server
            $0.delay = clock
        }
        let error = await #expect(throws: SanguineError.self) {
            try await test.client.refresh(.balance)
        }
        return (error, server.allowed)
    }

    @Test func `all attempts together take at most eight seconds`() async throws {
        let (error, allowed) = try await refresh([(.seconds(6), 503)])

        #expect(clock.now.offset == ClientLimits.balanceTimeout)
        #expect(allowed.count == 2)
        #expect(allowed.first == ClientLimits.balanceTimeout)
        guard case .timedOut(after: .problem(let problem)) = error else {
            Issue.record("It failed with \(String(describing: error)).")
            return
        }
        #expect(problem.status == 503)
    }

    @Test func `a request resent with a new token has the remaining time`() async throws {
        let (_, allowed) = try await refresh([(.seconds(5), 401)])

        #expect(allowed == [.seconds(8), .seconds(3)])
        #expect(clock.now.offset == ClientLimits.balanceTimeout)
    }

    @Test func `an attempt that uses all the time is the only one`() async throws {
        let (error, allowed) = try await refresh([])

        #expect(error == .transport(.timedOut))
        #expect(allowed == [ClientLimits.balanceTimeout])
    }
}
