import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Read retries", .bounded)
struct ReadRetryTests {
    @Test func `a read that fails twice succeeds on the third attempt`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.script(.fail(.offline("no network")), .status(503))
        async let profile = test.client.value(of: .profile("ada"))

        // Two sleepers: the deadline of the whole read and the retry delay.
        try await test.network.waitForRequests(1)
        try await test.delay.waitForSleepers(2)
        let first = try #require(test.delay.timeToNextWake)
        #expect(first >= .milliseconds(750) && first <= .milliseconds(1_250))
        test.delay.advance(by: first)

        try await test.network.waitForRequests(2)
        try await test.delay.waitForSleepers(2)
        let second = try #require(test.delay.timeToNextWake)
        #expect(second >= .milliseconds(1_500) && second <= .milliseconds(2_500))
        test.delay.advance(by: second)

        #expect(try await profile == Profile(name: "ada 1"))
        #expect(test.network.requests.count == 3)
    }

    @Test func `the third failure is thrown to the caller`() async throws {
        let test = try TestClient()
        let caller = Task { try await test.client.value(of: .profile("ada")) }
        for attempt in 1...2 {
            try await test.network.waitForRequests(attempt)
            try await test.delay.waitForSleepers(2)
            test.delay.advance(by: try #require(test.delay.timeToNextWake))
        }

        let error = await #expect(throws: SanguineError.self) { try await caller.finished() }
        #expect(error?.code == "offline")
        #expect(test.network.requests.count == 3)
    }

    @Test func `without retries the first failure of a query or the balance is thrown`()
        async throws
    {
        let test = try TestClient { $0.retries = false }
        let query = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: .profile("ada"))
        }
        let balance = await #expect(throws: SanguineError.self) {
            try await test.client.refresh(.balance)
        }
        #expect([query?.code, balance?.code] == ["offline", "offline"])
        #expect(test.network.requests.count == 2)
    }

    @Test func `without retries a session is requested once`() async throws {
        let network = ScriptedTransport()
        var configuration = SanguineClient.Configuration.inMemory(
            server: URL(string: TestClient.server)
        )
        configuration.transport = network
        configuration.delay = ManualClock()
        configuration.retries = false
        let client = try SanguineClient(configuration)
        defer { client.close() }

        let error = await #expect(throws: SanguineError.self) {
            try await client.value(of: .balance)
        }
        #expect(error?.code == "offline")
        #expect(network.requests.map(\.url.path) == ["/v1/accounts/guest"])
    }

    @Test func `a refusal is thrown at once`() async throws {
        let test = try TestClient()
        test.network.script(.json(Problem(.notFound, "Look elsewhere."), status: 404))

        let error = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: .profile("ada"))
        }
        #expect(error == .problem(Problem(.notFound, "Look elsewhere.")))
        #expect(test.network.requests.count == 1)
    }

    @Test func `the server's retry time is honored, and jitter only lengthens it`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.script(.status(429, headers: ["Retry-After": "12"]))
        async let profile = test.client.value(of: .profile("ada"))
        try await test.network.waitForRequests(1)
        try await test.delay.waitForSleepers(2)

        let wait = try #require(test.delay.timeToNextWake)
        #expect(wait >= .seconds(12) && wait <= .seconds(15))
        test.delay.advance(by: wait)
        #expect(try await profile == Profile(name: "ada 1"))
    }

    @Test func `cancelling during a retry delay ends the read`() async throws {
        let test = try TestClient()
        let caller = Task { try await test.client.value(of: .profile("ada")) }
        try await test.delay.waitForSleepers(2)
        caller.cancel()

        await #expect(throws: SanguineError.cancelled) { try await caller.finished() }
        try await test.delay.waitForNoSleepers()
        #expect(test.network.requests.count == 1)
    }

    @Test func `a read ends after sixty seconds in any state`() async throws {
        let test = try TestClient()
        test.network.hold()
        let caller = Task { try await test.client.value(of: .profile("ada")) }
        try await test.network.waitForHeld(1)
        try await test.delay.waitForSleepers(1)
        test.delay.advance(by: ClientLimits.readTimeout)

        await #expect(throws: SanguineError.transport(.timedOut)) { try await caller.finished() }
        try await test.network.waitForCancelled(1)
    }

    @Test func `a read that times out reports its last error`() async throws {
        let test = try TestClient()
        test.network.script(.status(503))
        let caller = Task { try await test.client.value(of: .profile("ada")) }
        try await test.network.waitForRequests(1)
        try await test.delay.waitForSleepers(2)
        test.network.hold()
        test.delay.advance(by: try #require(test.delay.timeToNextWake))
        try await test.network.waitForHeld(1)
        test.delay.advance(by: ClientLimits.readTimeout)

        let error = await #expect(throws: SanguineError.self) { try await caller.finished() }
        guard case .timedOut(let last) = error else {
            Issue.record("\(error.debugDescription) names no cause.")
            return
        }
        #expect(last.code == "http_503")
        #expect(error?.code == "timed_out" && error?.errorClass == .retryable)
        #expect(error?.description.contains(last.description) == true)
    }

    @Test func `retries of the balance use the budget of all reads`() async throws {
        let test = try TestClient()
        _ = test.retriesLeft()

        let error = await #expect(throws: SanguineError.self) {
            try await test.client.refresh(.balance)
        }
        #expect(error?.code == "offline")
        #expect(test.network.requests.count == 1)
    }

    @Test func `each retry of the balance leaves one less for other reads`() async throws {
        let test = try TestClient()
        let caller = Task { try await test.client.refresh(.balance) }
        for attempt in 1...2 {
            try await test.network.waitForRequests(attempt)
            try await test.delay.waitForSleepers(1)
            test.delay.advance(by: try #require(test.delay.timeToNextWake))
        }
        let refusal = await #expect(throws: SanguineError.self) { try await caller.finished() }
        #expect(refusal?.code == "offline")

        #expect(test.network.requests.count == 3)
        #expect(test.retriesLeft() == ClientLimits.retryReserve - 2)
    }

    @Test func `a closure that ignores cancellation delays no caller beyond the deadline`()
        async throws
    {
        let test = try TestClient()
        let gate = OneShot<Profile>()
        let stubborn = ValueQuery<Profile>("stubborn") { _ in
            // A separate task does not receive the read's cancellation.
            try await Task { try await gate.value() }.value
        }
        let caller = Task { try await test.client.value(of: stubborn) }
        try await test.delay.waitForSleepers(1)
        test.delay.advance(by: ClientLimits.readTimeout)

        await #expect(throws: SanguineError.transport(.timedOut)) { try await caller.finished() }
        gate.resolve(.success(Profile(name: "late")))
        #expect(test.client.cached(stubborn) == nil)
    }

    @Test func `an answer of another type names the missing key and is not retried`() async throws {
        let test = try TestClient()
        test.network.script(.json(["title": "x"]))

        await #expect(throws: SanguineError.decoding("Profile: 'name' is missing")) {
            try await test.client.value(of: .profile("ada"))
        }
        #expect(test.network.requests.count == 1)
    }
}
