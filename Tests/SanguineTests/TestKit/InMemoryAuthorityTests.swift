import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("In-memory authority", .bounded)
struct InMemoryAuthorityTests {
    private let authority = InMemoryAuthority(schema: .counters)
    private let delay = ManualClock()

    private func client(
        of authority: InMemoryAuthority? = nil,
        seed: UInt64 = 1
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory(server: URL(string: Self.server))
        configuration.schema = .counters
        configuration.transport = authority ?? self.authority
        configuration.clock = ManualWallClock()
        configuration.delay = delay
        configuration.random = RandomSource(SplitMix64(seed: seed))
        configuration.logger = .silent
        return try SanguineClient(configuration)
    }

    private static let server = "http://sanguine.test"

    private func request(
        _ method: String,
        _ path: String,
        _ body: (some Encodable)? = String?.none,
        of account: Identifier? = nil
    ) throws -> TransportRequest {
        let token = authority.accessToken(for: account ?? authority.user)
        return TransportRequest(
            method: method,
            url: try #require(URL(string: Self.server + path)),
            headers: ["Authorization": "Bearer \(token)"],
            body: try body.map { try WireCoding.encode($0) }
        )
    }

    private func pull(_ query: String, of account: Identifier? = nil) throws -> PullAnswer {
        let answer = authority.answer(try request("GET", "/v1/sync/pull?\(query)", of: account))
        return try WireCoding.decode(PullAnswer.self, from: answer.body)
    }

    private func push(
        _ count: Count,
        id: Identifier,
        of account: Identifier? = nil
    ) throws
        -> PushAnswer
    {
        let operation = PushedOperation(
            id: id,
            sequence: 1,
            lane: "main",
            mutator: Count.name,
            arguments: try JSONValue(encoding: count)
        )
        let body = PushRequest(device: "a-device-of-the-tests", operations: [operation])
        let answer = authority.answer(try request("POST", "/v1/sync/push", body, of: account))
        return try WireCoding.decode(PushAnswer.self, from: answer.body)
    }

    private let id = Identifier(at: Timestamp(millisecondsSince1970: 1))

    @Test func `a client signs in, does operations there, and sees what others did`()
        async throws
    {
        authority.set("b", to: 7)
        let client = try client()
        let receipt = try client.add("a", by: 3)
        #expect(try await receipt.outcome == .applied)
        try await client.synchronize()
        #expect(authority.count("a") == 3 && authority.done == [receipt.id])
        #expect(client.count("a") == 3 && client.count("b") == 7)
    }

    @Test func `an operation is done once however often it is sent`() throws {
        let first = try push(Count(id: .of("a")), id: id)
        let second = try push(Count(id: .of("a")), id: id)
        let other = try push(Count(id: .of("a"), by: 2), id: id)
        #expect(
            [first, second, other].map(\.results[0].status) == [.applied, .replayed, .refused]
        )
        #expect(other.results[0].problem?.code == .idempotencyMismatch)
        #expect(authority.count("a") == 1 && authority.done == [id])
        #expect(authority.result(of: id)?.head == first.head)
    }

    @Test func `what is changed together is contained in one number, and never parted`() throws {
        try authority.change { records in
            for name in ["a", "b", "c"] { records.set(Counter(id: .of(name), count: 1)) }
        }
        let page = try pull("since=0&limit=1")
        #expect(page.changes.map(\.through) == [3, 3, nil] && page.next == 3 && !page.hasMore)
        #expect(throws: Refusal.self) {
            try authority.change { records in
                records.set(Counter(id: .of("d"), count: 1))
                throw Refusal(.invalidContent, "No.")
            }
        }
        #expect(authority.head() == 3 && authority.records(Counter.self).count == 3)
    }

    @Test func `a reader who missed forgotten deletions begins afresh, and no other`() throws {
        authority.set("a", to: 1)
        authority.set("b", to: 1)
        authority.delete(Counter.self, .of("a"))
        #expect(try pull("since=1").changes.map(\.deleted) == [false, true])
        authority.forgetDeletions()
        let page = try pull("since=1")
        #expect(page.reset && page.changes.map(\.id) == [.of("b")] && page.horizon == 3)
        #expect(try !pull("since=1&horizon=3").reset)
        #expect(try !pull("since=3").reset && pull("since=4").reset)
    }

    @Test func `a pull says what became of operations`() throws {
        _ = try push(Count(id: .of("a")), id: id)
        let stranger = Identifier(at: Timestamp(millisecondsSince1970: 2))
        let page = try pull("since=0&operations=\(id),\(stranger)")
        #expect(page.operations?.map(\.status) == [.applied, .unknown])
    }

    @Test func `changes come live, and a client that missed them gets them at its return`()
        async throws
    {
        let client = try client()
        try await client.synchronize()
        // The first connection waits until the feed was pulled.
        try await delay.advancing {
            try await eventually("a stream") { authority.streamCount == 1 }
        }
        authority.set("a", to: 5)
        try await eventually("5 counted") { client.count("a") == 5 }
        authority.ping()
        authority.endStreams()
        authority.set("a", to: 6)
        try await client.synchronize()
        #expect(client.count("a") == 6)
        client.close()
        try await eventually("the stream has ended") { authority.streamCount == 0 }
    }

    @Test func `a stream goes on after its last event, and begins with a reset if it must`()
        async throws
    {
        authority.set("a", to: 1)
        authority.set("b", to: 1)
        var request = try request("GET", "/v1/live")
        request.headers["Last-Event-ID"] = "1"
        let stream = try await authority.stream(request)
        var text = String(decoding: try await stream.next() ?? Data(), as: UTF8.self)
        #expect(text.contains("id: 2\n") && !text.contains("id: 1\n"))
        stream.cancel()
        authority.delete(Counter.self, .of("a"))
        authority.forgetDeletions()
        let late = try await authority.stream(request)
        text = String(decoding: try await late.next() ?? Data(), as: UTF8.self)
        #expect(text.contains("event: reset\nid: 0\n") && text.hasSuffix("id: 3\n\n"))
    }

    @Test func `refusals come back to the tray, and poison blocks nothing`() async throws {
        let client = try client()
        try await client.synchronize()
        authority.refuse { $0.mutator == Count.name ? Refusal(.notOwner, "Not now.") : nil }
        let refused = try client.add("a")
        _ = try await refused.outcome
        #expect(client.outbox.refused.map(\.problem.code) == [.notOwner])
        authority.refuse(nil)
        #expect(try await client.add("b").outcome == .applied)
        #expect(authority.done.count == 1 && authority.count("a") == nil)
    }

    @Test func `a client goes on when tokens expire and when its session ends`() async throws {
        let client = try client()
        try await client.synchronize()
        authority.expireTokens()
        #expect(try await client.add("a").outcome == .applied)
        authority.endSessions()
        #expect(try await client.add("a").outcome == .applied)
        #expect(authority.count("a") == 2)
    }

    @Test func `a refresh token gets one successor, and ends its family when it comes later`()
        throws
    {
        let body = GuestRequest(
            deviceId: "a-device-of-the-tests",
            deviceSecret: String(repeating: "a", count: 43)
        )
        let guest = authority.answer(try request("POST", "/v1/accounts/guest", body))
        let session = try WireCoding.decode(SignedIn.self, from: guest.body).session
        func refresh(_ token: String) throws -> TransportResponse {
            let body = RefreshRequest(refreshToken: token)
            return authority.answer(try request("POST", "/v1/sessions/refresh", body))
        }
        let first = try refresh(session.refreshToken)
        #expect(guest.status == 201 && first.status == 200)
        #expect(try refresh(session.refreshToken).body == first.body)
        let second = try WireCoding.decode(Refreshed.self, from: first.body).session
        #expect(try refresh(second.refreshToken).status == 200)
        let reused = try refresh(session.refreshToken)
        #expect(Problem(reused, now: ManualWallClock().now()).code == .refreshReused)
        #expect(try refresh(second.refreshToken).status == 401)
    }

    @Test func `each device has an account of its own, unless all are one user's`() async throws {
        let own = try [client(seed: 1), client(seed: 2)]
        for client in own { try await client.synchronize() }
        #expect(Set(own.map(\.session.account)).count == 2)
        #expect(own[0].session.account == authority.user)
        let shared = InMemoryAuthority(schema: .counters, accounts: .one)
        let both = try [client(of: shared, seed: 1), client(of: shared, seed: 2)]
        for client in both { try await client.synchronize() }
        #expect(both.map(\.session.account) == [shared.user, shared.user])
    }

    @Test func `a path fails as often as it is told to, and says it in a problem`() async throws {
        let problem = Problem(.overloaded, "Wait.", retryAfter: 5)
        authority.fail("/v1/sync/pull", with: problem, times: 2)
        let request = try request("GET", "/v1/sync/pull")
        let answers = (0..<3).map { _ in authority.answer(request) }
        #expect(answers.map(\.status) == [503, 503, 200])
        #expect(answers[0].header("content-type") == "application/problem+json")
        #expect(answers[0].header("retry-after") == "5")
        #expect(Problem(answers[0], now: ManualWallClock().now()) == problem)
        let unknown = authority.answer(try self.request("GET", "/v1/elsewhere"))
        #expect(unknown.status == 404)
    }

    @Test func `the balance is what the test says`() async throws {
        let client = try client()
        #expect(try await client.value(of: .balance).available == 100)
        authority.setBalance(3)
        try await client.refresh(.balance)
        #expect(client.cached(.balance)?.available == 3)
    }
}
