import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The authority in memory follows the rules of a server and has none of its own.
@Suite("In-memory authority: rules", .bounded)
struct InMemoryRulesTests {
    private let clock = ManualWallClock()
    private let authority: InMemoryAuthority
    private var caller: AuthorityCaller { AuthorityCaller(authority: authority) }

    init() { authority = InMemoryAuthority(schema: .counters, clock: clock) }

    private func spend(_ amount: Int64, key: String) async throws -> TransportResponse {
        let body = SpendRequest(amount: amount, reason: "a test")
        return try await caller.send("POST", "/v1/spend", body, key: key)
    }

    private func consume(_ key: String) async throws -> TransportResponse {
        try await caller.send("POST", "/v1/quotas/readings/consume", ConsumeRequest(), key: key)
    }

    private func ask(_ key: String) async throws -> TransportRequest {
        let body = FunctionRequest(input: Ask.Input(question: "why?"))
        return try await caller.request("POST", "/v1/functions/ask", body, key: key)
    }

    // MARK: - Balance

    @Test func `an account cannot spend more than it has`() async throws {
        let answer = try await spend(101, key: "one")
        let problem = try #require(answer.problem)
        #expect(answer.status == 402 && problem.code == .insufficientTokens)
        #expect([problem.available, problem.held, problem.required] == [100, 0, 101])
        #expect(authority.balance().available == 100)
    }

    @Test func `a repeated spend gets the same answer and charges nothing more`() async throws {
        let first = try await spend(30, key: "one")
        let second = try await spend(30, key: "one")
        #expect(first.status == 200 && second.body == first.body)
        #expect(second.header("Idempotency-Replayed") == "true")
        #expect(second.header("Sanguine-Head") == first.header("Sanguine-Head"))
        #expect(authority.balance().available == 70)
    }

    @Test func `a reused key and a missing key are refused`() async throws {
        _ = try await spend(30, key: "one")
        #expect(try await spend(31, key: "one").problem?.code == .idempotencyMismatch)
        let body = SpendRequest(amount: 1, reason: "a test")
        let keyless = try await caller.send("POST", "/v1/spend", body)
        #expect(keyless.status == 400 && keyless.problem?.code == .idempotencyKeyMissing)
        #expect(authority.balance().available == 70)
    }

    @Test func `grants by support and spending by other devices are in the feed`() async throws {
        let before = authority.head()
        authority.grant(50)
        try authority.spend(20)
        let page = try await caller.pull("since=\(before)")
        #expect(page.changes.map(\.collection) == ["$balance"])
        #expect(page.changes[0].value?["available"] == 130 && page.head == before + 2)
        let refusal = #expect(throws: Problem.self) { try authority.spend(131) }
        #expect(refusal?.code == .insufficientTokens)
    }

    @Test func `a hold ends when it expires`() async throws {
        let body = HoldRequest(amount: 40, expiresIn: 60)
        #expect(try await caller.send("POST", "/v1/holds", body, key: "one").status == 201)
        await authority.runJobs()
        #expect(authority.balance().held == 40 && authority.balance().available == 60)
        clock.advance(by: .seconds(61))
        await authority.runJobs()
        #expect(authority.balance().held == 0 && authority.balance().available == 100)
    }

    // MARK: - Quotas

    @Test func `an allowance is used up until the user's next day`() async throws {
        for key in ["one", "two", "three"] { #expect(try await consume(key).status == 200) }
        let refused = try await consume("four")
        #expect(refused.status == 402 && refused.problem?.code == .quotaExhausted)
        #expect(refused.header("Retry-After") == "43200")  // From noon to midnight.
        clock.advance(by: .seconds(43_200))
        #expect(try await consume("five").status == 200)
    }

    @Test func `a plan lifts an allowance`() async throws {
        for key in ["one", "two", "three"] { _ = try await consume(key) }
        authority.setPlan(.premium)
        #expect(try await consume("four").status == 200)
    }

    // MARK: - Functions

    @Test func `a call holds tokens while it runs and is charged its cost`() async throws {
        let steps = WatchedState((isRunning: false, mayEnd: false))
        authority.serve("ask", hold: 10) { _ in
            steps.withLock { $0.isRunning = true }
            try await steps.wait(for: "its end") { $0.mayEnd }
            return .init(output: "because", charge: 4)
        }
        let request = try await ask("one")
        let call = Task { try await authority.send(request) }
        try await steps.wait(for: "its run") { $0.isRunning }
        #expect(authority.balance().available == 90 && authority.balance().held == 10)
        let running = try await caller.send("GET", "/v1/balance?operations=one")
        #expect(try running.decoded(Balance.self).operations?["one"]?.held == 10)
        steps.withLock { $0.mayEnd = true }
        let result = try await call.finished().decoded(FunctionResult<String>.self)
        #expect(result.output == "because" && result.charged == 4 && result.tokensRemaining == 96)
        #expect(authority.balance().available == 96 && authority.balance().held == 0)
    }

    @Test func `a failed call costs nothing and runs again under its key`() async throws {
        authority.serve(Ask.self) { _ in throw Problem(.upstreamTimeout, "Ask again.") }
        #expect(await authority.answer(try ask("one")).problem?.code == .upstreamTimeout)
        authority.serve(Ask.self) { "You asked: \($0.question)" }
        #expect(authority.balance().available == 100)
        for _ in 0..<2 {
            let again = await authority.answer(try await ask("one"))
            #expect(try again.decoded(FunctionResult<String>.self).output == "You asked: why?")
            #expect(authority.balance().available == 97)
        }
    }

    @Test func `a caller that disconnects gets the answer when it retries, and pays once`()
        async throws
    {
        let steps = WatchedState((isRunning: false, mayEnd: false))
        authority.serve(Ask.self) { _ in
            steps.withLock { $0.isRunning = true }
            try await steps.wait(for: "its end") { $0.mayEnd }
            return "because"
        }
        let request = try await ask("one")
        let call = Task { try await authority.send(request) }
        try await steps.wait(for: "its run") { $0.isRunning }
        call.cancel()
        await #expect(throws: TransportError.cancelled) { try await call.finished() }
        #expect(await authority.answer(request).problem?.code == .operationInProgress)
        steps.withLock { $0.mayEnd = true }
        try await eventually("its end") { authority.balance().held == 0 }
        let answer = await authority.answer(request)
        #expect(answer.header("Idempotency-Replayed") == "true")
        #expect(authority.balance().available == 97)
    }

    // MARK: - Sessions

    @Test func `an access token expires with the clock`() async throws {
        let request = try await caller.request("GET", "/v1/balance")
        #expect(await authority.answer(request).status == 200)
        clock.advance(by: .seconds(901))
        let expired = await authority.answer(request)
        #expect(expired.status == 401 && expired.problem?.code == .tokenExpired)
        #expect(expired.header("WWW-Authenticate") == "Bearer")
    }

    @Test func `a token can expire early, and the next one is valid`() async throws {
        let request = try await caller.request("GET", "/v1/balance")
        authority.expireTokens()
        #expect(await authority.answer(request).problem?.code == .tokenExpired)
        #expect(try await caller.send("GET", "/v1/balance").status == 200)
    }

    @Test func `a refresh whose answer was lost is answered again for a minute`() async throws {
        let guest = GuestRequest(
            deviceId: "a-device-of-the-tests",
            deviceSecret: String(repeating: "A", count: 43)
        )
        let signedIn = try await caller.send("POST", "/v1/accounts/guest", guest)
        let session = try signedIn.decoded(SignedIn.self).session
        let body = RefreshRequest(refreshToken: session.refreshToken)
        for _ in 1...2 {
            #expect(try await caller.send("POST", "/v1/sessions/refresh", body).status == 200)
            clock.advance(by: .seconds(30))
        }
        clock.advance(by: .seconds(1))
        let late = try await caller.send("POST", "/v1/sessions/refresh", body)
        #expect(late.status == 401 && late.problem?.code == .refreshReused)
    }

    @Test func `an account has the grant from the settings, and a device its zone`() async throws {
        var settings = AuthoritySettings()
        settings.grant = 7
        let authority = InMemoryAuthority(settings: settings, clock: clock)
        let caller = AuthorityCaller(authority: authority)
        let guest = GuestRequest(
            deviceId: "a-device-of-the-tests",
            deviceSecret: String(repeating: "A", count: 43),
            timeZone: "Asia/Tokyo"
        )
        let signedIn = try await caller.send("POST", "/v1/accounts/guest", guest)
        let account = try signedIn.decoded(SignedIn.self).account
        #expect(account.id == authority.user && account.timeZone == "Asia/Tokyo")
        #expect(authority.balance(of: account.id).available == 7)
    }

    @Test func `an ended session is reported, and another account's id is refused`() async throws {
        var request = try await caller.request("GET", "/v1/balance")
        request.headers["X-User-Id"] = authority.addAccount().description
        #expect(await authority.answer(request).problem?.code == .identityMismatch)
        request.headers["X-User-Id"] = nil
        authority.endSessions()
        #expect(await authority.answer(request).problem?.code == .sessionEnded)
    }

    // MARK: - Records and feed

    private func number(_ number: Int64) -> Identifier {
        Identifier(at: Timestamp(millisecondsSince1970: number))
    }

    @Test func `sequence numbers that do not increase are refused, and nothing is applied`()
        async throws
    {
        let (one, two) = (number(1), number(2))
        let answer = try await caller.push([
            .of(Count(id: .of("a")), id: one, sequence: 2),
            .of(Count(id: .of("a")), id: two, sequence: 2),
        ])
        #expect(answer.status == 422 && answer.problem?.code == .invalidContent)
        #expect(authority.count("a") == nil && authority.result(of: one) == nil)
    }

    @Test func `deletions are forgotten after a month`() async throws {
        authority.set("a", to: 1)
        let since = authority.head()
        authority.delete(Counter.self, .of("a"))
        clock.advance(by: .seconds(31 * 86_400))
        #expect(try await !caller.pull("since=\(since)").reset)
        await authority.runJobs()
        #expect(try await caller.pull("since=\(since)").reset)
    }

    @Test func `an operation that changes nothing uses no number`() async throws {
        authority.set("a", to: 1)
        let head = authority.head()
        authority.set("a", to: 1)
        #expect(authority.head() == head)
    }

    @Test func `records are listed by index`() async throws {
        for (id, group) in [("a", "x"), ("b", "y"), ("c", "x")] {
            authority.set(Counter(id: .of(id), count: 1, group: group))
        }
        let path = "/v1/collections/counters/records?where.group=x&order=group"
        let page = try await caller.send("GET", path).decoded(ListPage<RecordChange>.self)
        #expect(page.items.map(\.id) == [.of("a"), .of("c")])
    }

    @Test func `a live connection needs a token, and ends with its session`() async throws {
        var request = try await caller.request("GET", "/v1/live")
        let stream = try await authority.stream(request)
        #expect(stream.response.status == 200 && authority.streamCount == 1)
        authority.endSessions()
        authority.ping()
        #expect(authority.streamCount == 0)
        #expect(try await authority.stream(request).response.status == 401)
        request.headers["Authorization"] = nil
        let nobody = try await authority.stream(request)
        #expect(nobody.response.status == 401)
        #expect(nobody.response.header("content-type") == "application/problem+json")
    }

    @Test func `an unknown path is 404, and an unsupported method 405`() async throws {
        #expect(try await caller.send("GET", "/v1/elsewhere").problem?.code == .notFound)
        let other = try await caller.send("PUT", "/v1/balance")
        #expect(other.status == 405 && other.header("Allow") == "GET, HEAD")
    }
}
