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
        let server = URL(string: AuthorityCaller.server)
        var configuration = SanguineClient.Configuration.inMemory(server: server)
        configuration.schema = .counters
        configuration.transport = authority ?? self.authority
        configuration.clock = ManualWallClock()
        configuration.delay = delay
        configuration.random = RandomSource(SplitMix64(seed: seed))
        configuration.logger = .silent
        return try SanguineClient(configuration)
    }

    private var caller: AuthorityCaller { AuthorityCaller(authority: authority) }

    private func pull(_ query: String) async throws -> PullAnswer { try await caller.pull(query) }

    private func push(_ count: Count) async throws -> PushAnswer {
        try await caller.push(count, id: id)
    }

    private let id = Identifier(at: Timestamp(millisecondsSince1970: 1))

    @Test func `a client signs in, applies operations, and sees changes by others`() async throws {
        authority.set("b", to: 7)
        let client = try client()
        let receipt = try client.add("a", by: 3)
        #expect(try await receipt.outcome == .applied)
        try await client.synchronize()
        #expect(authority.count("a") == 3 && authority.done == [receipt.id])
        #expect(client.count("a") == 3 && client.count("b") == 7)
    }

    @Test func `an operation is applied once however often it is sent`() async throws {
        let first = try await push(Count(id: .of("a")))
        let second = try await push(Count(id: .of("a")))
        let other = try await push(Count(id: .of("a"), by: 2))
        #expect(
            [first, second, other].map(\.results[0].status) == [.applied, .replayed, .refused]
        )
        #expect(other.results[0].problem?.code == .idempotencyMismatch)
        #expect(authority.count("a") == 1 && authority.done == [id])
        #expect(authority.result(of: id)?.head == first.head)
    }

    @Test func `changes made together are contained in one page`() async throws {
        let head = authority.head()
        try authority.change { records in
            for name in ["a", "b", "c"] { records.set(Counter(id: .of(name), count: 1)) }
        }
        let page = try await pull("since=\(head)&limit=1")
        #expect(page.changes.map(\.through) == [head + 3, head + 3, nil])
        #expect(page.next == head + 3 && !page.hasMore)
        let refusal = #expect(throws: Refusal.self) {
            try authority.change { records in
                records.set(Counter(id: .of("d"), count: 1))
                throw Refusal(.invalidContent, "No.")
            }
        }
        #expect(refusal?.detail == "No.")
        #expect(authority.head() == head + 3 && authority.records(Counter.self).count == 3)
    }

    @Test func `only a reader that missed forgotten deletions starts over`() async throws {
        authority.set("a", to: 1)
        let since = authority.head()
        authority.set("b", to: 1)
        authority.delete(Counter.self, .of("a"))
        let end = authority.head()
        #expect(try await pull("since=\(since)").changes.map(\.deleted) == [false, true])
        authority.forgetDeletions()
        let page = try await pull("since=\(since)")
        let records = page.changes.filter { !$0.collection.hasPrefix("$") }
        #expect(page.reset && records.map(\.id) == [.of("b")] && page.horizon == end)
        #expect(try await !pull("since=\(since)&horizon=\(end)").reset)
        #expect(try await !pull("since=\(end)").reset)
        #expect(try await pull("since=\(end + 1)").reset)
    }

    @Test func `a pull reports the status of operations`() async throws {
        _ = try await push(Count(id: .of("a")))
        let stranger = Identifier(at: Timestamp(millisecondsSince1970: 2))
        let page = try await pull("since=0&operations=\(id),\(stranger)")
        #expect(page.operations?.map(\.status) == [.applied, .unknown])
    }

    @Test func `changes arrive live, and a client that missed them gets them when it returns`()
        async throws
    {
        let client = try client()
        try await client.synchronize()
        // The first connection waits until the feed has been pulled.
        try await delay.advancing {
            try await eventually("a stream") { authority.streamCount == 1 }
        }
        authority.set("a", to: 5)
        try await eventually("the count is 5") { client.count("a") == 5 }
        authority.ping()
        authority.endStreams()
        authority.set("a", to: 6)
        try await client.synchronize()
        #expect(client.count("a") == 6)
        client.close()
        try await eventually("the stream has ended") { authority.streamCount == 0 }
    }

    @Test func `a stream resumes after its last event, or begins with a reset`() async throws {
        authority.set("a", to: 1)
        let since = authority.head()
        authority.set("b", to: 1)
        var request = try await caller.request("GET", "/v1/live")
        request.headers["Last-Event-ID"] = "\(since)"
        let stream = try await authority.stream(request)
        var text = String(decoding: try await stream.next() ?? Data(), as: UTF8.self)
        #expect(text.contains(".\(since + 1)\n") && !text.contains(".\(since)\n"))
        stream.cancel()
        authority.delete(Counter.self, .of("a"))
        authority.forgetDeletions()
        let late = try await authority.stream(request)
        text = String(decoding: try await late.next() ?? Data(), as: UTF8.self)
        #expect(text.contains(#/event: reset\nid: \w+\.0\n/#))
        #expect(text.hasSuffix(".\(authority.head())\n\n"))
    }

    @Test func `refusals are in the tray, and a poisoned operation blocks nothing`() async throws {
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

    @Test func `a client continues after its tokens expire and its session ends`() async throws {
        let client = try client()
        try await client.synchronize()
        authority.expireTokens()
        #expect(try await client.add("a").outcome == .applied)
        authority.endSessions()
        #expect(try await client.add("a").outcome == .applied)
        #expect(authority.count("a") == 2)
    }

    @Test func `a refresh token has one successor, and ends its family if used later`()
        async throws
    {
        let body = GuestRequest(
            deviceId: "a-device-of-the-tests",
            deviceSecret: String(repeating: "A", count: 43)
        )
        let guest = try await caller.send("POST", "/v1/accounts/guest", body)
        let session = try guest.decoded(SignedIn.self).session
        func refresh(_ token: String) async throws -> TransportResponse {
            let body = RefreshRequest(refreshToken: token)
            return try await caller.send("POST", "/v1/sessions/refresh", body)
        }
        let first = try await refresh(session.refreshToken)
        #expect(guest.status == 201 && first.status == 200)
        let second = try first.decoded(Refreshed.self).session
        let again = try await refresh(session.refreshToken).decoded(Refreshed.self).session
        #expect(again.refreshToken == second.refreshToken)
        #expect(try await refresh(second.refreshToken).status == 200)
        #expect(try await refresh(session.refreshToken).problem?.code == .refreshReused)
        #expect(try await refresh(second.refreshToken).status == 401)
    }

    @Test func `each device has its own account unless all belong to one user`() async throws {
        let own = try [client(seed: 1), client(seed: 2)]
        for client in own { try await client.synchronize() }
        #expect(Set(own.map(\.session.account)).count == 2)
        #expect(own[0].session.account == authority.user)
        let shared = InMemoryAuthority(schema: .counters, accounts: .one)
        let both = try [client(of: shared, seed: 1), client(of: shared, seed: 2)]
        for client in both { try await client.synchronize() }
        #expect(both.map(\.session.account) == [shared.user, shared.user])
    }

    @Test func `a path fails with a problem the given number of times`() async throws {
        let problem = Problem(.overloaded, "Wait.", retryAfter: 5)
        authority.fail("/v1/sync/pull", with: problem, times: 2)
        let request = try await caller.request("GET", "/v1/sync/pull")
        var answers: [TransportResponse] = []
        for _ in 0..<3 { answers.append(await authority.answer(request)) }
        #expect(answers.map(\.status) == [503, 503, 200])
        #expect(answers[0].header("content-type") == "application/problem+json")
        #expect(answers[0].header("retry-after") == "5")
        let now = ManualWallClock().now()
        #expect(Problem(answers[0], to: request, now: now) == problem)
    }

    @Test func `the balance can be set by the test`() async throws {
        let client = try client()
        #expect(try await client.value(of: .balance).available == 100)
        authority.setBalance(3)
        try await client.refresh(.balance)
        #expect(client.cached(.balance)?.available == 3)
    }
}
