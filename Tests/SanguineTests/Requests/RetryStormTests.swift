import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Many reads that fail simultaneously, as when a backend goes down.
@Suite("Retry storms", .bounded)
struct RetryStormTests {
    private static func flaky(_ id: Int, priority: FetchPriority = .normal) -> ValueQuery<Profile> {
        ValueQuery(
            "flaky",
            id,
            policy: .fresh(for: .minutes(5)).retry(RetrySchedule(attempts: 2)).priority(priority)
        ) { request in
            try await request.get("flaky/\(id)")
        }
    }

    private final class Count: Sendable {
        private let count = Mutex(0)
        var value: Int { count.withLock { $0 } }
        func rise() { count.withLock { $0 += 1 } }
    }

    @Test func `of many reads that fail at once, only a few are retried`() async throws {
        let test = try TestClient()
        let reads = 100
        let ended = Count()
        let callers = (1...reads).map { id in
            Task {
                let outcome = await Task { try await test.client.value(of: Self.flaky(id)) }.result
                ended.rise()
                return outcome
            }
        }
        try await test.network.waitForRequests(reads)
        // Running reads sleep twice: for the deadline and before the retry.
        try await eventually("the remaining reads wait for their retry") {
            test.delay.sleeperCount == 2 * (reads - ended.value)
        }
        test.delay.advance(by: .seconds(2))
        for caller in callers {
            let outcome = try await caller.finished()
            #expect(throws: SanguineError.transport(.offline("nothing is scripted"))) {
                try outcome.get()
            }
        }

        let retries = test.network.requests.count - reads
        let most = ClientLimits.retryReserve + reads / ClientLimits.requestsPerRetry
        #expect(retries <= most && retries >= ClientLimits.retryReserve)
    }

    @Test func `all retries wait for the time that a host names`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.script(.status(503, headers: ["Retry-After": "20"]), .status(500))
        let first = Task { try await test.client.value(of: Self.flaky(1)) }
        try await test.delay.waitForSleepers(2)
        let second = Task { try await test.client.value(of: Self.flaky(2)) }
        try await test.delay.waitForSleepers(4)

        let wait = try #require(test.delay.timeToNextWake)
        #expect(wait >= .seconds(20) && wait <= .seconds(25))
        test.delay.advance(by: .seconds(25))
        _ = try await first.finished()
        _ = try await second.finished()
        #expect(test.network.requests.count == 4)
    }

    @Test func `a caller's read is tried once even while the host is paused`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.script(.status(429, headers: ["Retry-After": "40"]))
        let refusal = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: Self.flaky(1))
        }
        #expect(refusal?.code == "http_429")
        #expect(try await test.client.value(of: Self.flaky(2)) == Profile(name: "2 1"))
    }

    @Test func `no prefetch starts while a host is paused`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.script(.status(429, headers: ["Retry-After": "40"]))
        let refusal = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: Self.flaky(1))
        }
        #expect(refusal?.code == "http_429")

        let error = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: Self.flaky(2, priority: .prefetch))
        }
        #expect(error?.errorClass == .waits)
        #expect(test.network.requests.count == 1)
        test.delay.advance(by: .seconds(40))
        _ = try await test.client.value(of: Self.flaky(2, priority: .prefetch))
    }

    @Test func `each host has a separate budget`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.script(.status(503, headers: ["Retry-After": "25"]))
        let other = try #require(URL(string: "http://other.test"))
        let elsewhere = ValueQuery<Profile>("elsewhere", base: other) { try await $0.get("x") }
        let first = Task { try await test.client.value(of: Self.flaky(1)) }
        try await test.delay.waitForSleepers(2)

        #expect(try await test.client.value(of: elsewhere, priority: .prefetch).name == "x 1")
        first.cancel()
    }
}
